"""Settings that cannot be used end the worker with the name that the operator typed, and what is wrong with it."""

import pytest

import worker_main
from activities.settings import describe_unknown

CASES = {
    "no JSON": ("CHARGEHAND_CEILINGS", "lots", "CHARGEHAND_CEILINGS: is not JSON; deploy/README.md shows an example"),
    "a list that is none": (
        "CHARGEHAND_DOCUMENT_ROOTS",
        "/documents",
        "CHARGEHAND_DOCUMENT_ROOTS: is not JSON; deploy/README.md shows an example",
    ),
    "a field within": (
        "CHARGEHAND_CEILINGS",
        '{"max_turnz": 5}',
        "CHARGEHAND_CEILINGS.max_turnz: is not a known field; did you mean 'max_turns'?",
    ),
    "one of several": (
        "CHARGEHAND_LOG_LEVEL",
        "loud",
        "CHARGEHAND_LOG_LEVEL: Input should be 'DEBUG', 'INFO', 'WARNING' or 'ERROR'",
    ),
    "two that belong together": (
        "CHARGEHAND_BUILD_ID",
        "1",
        "CHARGEHAND_DEPLOYMENT is not set; Worker Versioning needs the names of a deployment and of a build",
    ),
}


@pytest.mark.parametrize(("name", "value", "problem"), CASES.values(), ids=CASES)
def test_a_setting_is_named_as_it_was_typed(
    name: str, value: str, problem: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever is wrong with a setting is one line that begins with its name in the environment."""
    monkeypatch.setenv(name, value)

    code = worker_main.main(["--explain"])

    assert (code, capsys.readouterr().err) == (2, f"The worker's settings cannot be used: {problem}\n")


def test_what_looks_like_a_setting_and_is_none_is_named() -> None:
    """A mistyped name is told with the one that was meant; others' settings and those of commands are left alone."""
    environment = {
        "CHARGEHAND_ENCRYPTION_KEY": "",
        "CHARGEHAND_WEATHER": "fine",
        "CHARGEHAND_CODEC_TOKEN": "t",
        "CHARGEHAND_STORAGE": "/s",
        "E2B_API_KEY": "k",
        "HOME": "/home/ada",
    }

    assert describe_unknown(environment) == [
        "CHARGEHAND_ENCRYPTION_KEY is not a setting; did you mean CHARGEHAND_ENCRYPTION_KEYS?",
        "CHARGEHAND_WEATHER is not a setting",
    ]
