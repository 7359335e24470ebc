"""The operator's own models: a provider by entry point, and a model by name for one agent."""

import os
import sys
import tomllib
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel

from activities.backends import SettingsError
from activities.contracts.crew import Crew
from activities.models.registry import build_models
from activities.models.tiers import name_models
from chargehand.contracts import Report, SessionRequest, Tier
from chargehand.errors import ChargehandError
from chargehand.plugins import Registry
from chargehand.wire import WorkflowType
from chargehand_plugins.testing.in_memory.activities import run_workflow
from chargehand_plugins.testing.in_memory.jobs import PAYLOADS
from tests.crew_files import crew_text
from tests.scripted_model import answer, plan, report, subtask
from tests.unit.deployment.test_how_to_pages import files_of
from worker.composition import compose
from worker.settings import Settings

MODELS = {"small": "house-s", "medium": "house-m", "large": "house-l"}
PRICES = {"house-s": (1, 1), "house-m": (1, 4), "house-l": (5, 20), "house-xl": (10, 40)}
CREW = crew_text("law", lawyer='model = "house-xl"', clerk="")
ANSWERS: dict[str, BaseModel] = {
    "subtasks": plan(subtask("T1", "lawyer"), subtask("T2", "clerk")),
    "findings": answer("Read."),
    "contradictions": report("All is read."),
}
"""A reply to each kind of turn, by a field of its schema."""


class Gateway:
    """The house's own models."""

    asked: list[str]
    closed: bool

    async def chat(self, *, model: str, schema: dict[str, Any], **_: object) -> dict[str, Any]:
        self.asked.append(model)
        reply = next(reply for name, reply in ANSWERS.items() if name in schema["properties"])
        text = reply.model_dump_json(exclude={"kind"})
        return {"text": text, "calls": [], "model": model, "input_tokens": 1_000, "output_tokens": 100}

    async def close(self) -> None:
        type(self).closed = True


def register(registry: Registry) -> None:
    registry.model_provider("broken", "no_such_module:open")
    registry.model_provider("list", "builtins:max")


@pytest.fixture
def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, install: Callable[..., None]) -> type[Gateway]:
    """The provider of the how-to page, installed."""
    Gateway.asked, Gateway.closed = [], False
    (tmp_path / "house_models.py").write_text(files_of("own-models")["house_models.py"])
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    sdk: Any = ModuleType("house_gateway")
    sdk.Gateway, sdk.GatewayBusy = Gateway, TimeoutError
    monkeypatch.setitem(sys.modules, "house_gateway", sdk)
    monkeypatch.delitem(sys.modules, "house_models", raising=False)
    install(house="house_models:register", wrong=f"{__name__}:register")
    return Gateway


def settings(folder: Path, **given: object) -> Settings:
    return Settings.model_validate(
        {"provider": "house", "models": MODELS, "prices": PRICES, "state_dir": folder} | given
    )


async def test_an_entry_point_provider_runs_a_whole_session(gateway: type[Gateway], tmp_path: Path) -> None:
    (tmp_path / "law.toml").write_text(CREW)
    request = SessionRequest(goal="What do the contracts say?", crew="law", review="never")

    async with AsyncExitStack() as closing:
        activities = await compose(settings(tmp_path / "state", crews=tmp_path), os.environ, closing)
        ended = await run_workflow("session-1", WorkflowType.SUPERVISOR, request, activities)
    assert ended.result is not None
    [report] = PAYLOADS.from_payloads([ended.result], [Report])

    assert report.answer == "All is read."
    assert sorted(gateway.asked) == ["house-m", "house-m", "house-m", "house-xl"]
    assert {line.model: line.usage.cost_usd * 1_000_000 for line in report.spend if line.purpose == "work"} == {
        "house-xl": 1_000 * 10 + 100 * 40,
        "house-m": 1_000 * 1 + 100 * 4,
    }
    assert gateway.closed


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"provider": "mansion"}, r"CHARGEHAND_PROVIDER: 'mansion' is not one of .*house"),
        ({"provider": "broken"}, r"The plug-in 'wrong': no_such_module:open cannot be imported: ModuleNotFoundError"),
        ({"provider": "list"}, r"'wrong': its provider list failed|is no Model"),
        ({"models": {}}, r"CHARGEHAND_MODELS: name a model for the tiers small, medium, large"),
        ({"prices": {}}, r"the price of the small model 'house-s' is unknown.*CHARGEHAND_PRICES"),
        (
            {"fallback_provider": "openai_compatible", "openai_base_url": "http://127.0.0.1:1"},
            r"CHARGEHAND_FALLBACK_MODELS: name a model for the tiers",
        ),
        ({"fallback_provider": "nobody"}, r"CHARGEHAND_FALLBACK_PROVIDER: 'nobody' is not one of"),
    ],
)
@pytest.mark.usefixtures("gateway")
async def test_an_unusable_provider_is_refused_with_the_remedy(
    tmp_path: Path, given: dict[str, object], problem: str
) -> None:
    chosen = settings(tmp_path / "state", **given)

    async with AsyncExitStack() as closing:
        with pytest.raises(ChargehandError, match=problem):
            build_models(chosen, chosen.provider or "", closing)


@pytest.mark.usefixtures("gateway")
async def test_an_agents_model_without_a_price_is_refused(tmp_path: Path) -> None:
    """No budget could be enforced; the message names the crew, the agent and the setting."""
    (tmp_path / "law.toml").write_text(CREW.replace("house-xl", "house-xxl"))

    async with AsyncExitStack() as closing:
        with pytest.raises(
            SettingsError, match=r"Crew 'law', agents\.lawyer\.model: the price of 'house-xxl' is unknown"
        ):
            await compose(settings(tmp_path / "state", crews=tmp_path), os.environ, closing)


@pytest.mark.usefixtures("gateway")
async def test_a_named_model_is_reserved_at_the_price_of_its_fallback_too(tmp_path: Path) -> None:
    chosen = settings(tmp_path / "state", fallback_models={"medium": "house-l"})
    crew = Crew.model_validate(tomllib.loads(crew_text("law", lawyer='model = "house-s"')))
    async with AsyncExitStack() as closing:
        models = name_models(build_models(chosen, "house", closing), [crew])

    assert models.card(Tier.MEDIUM, "house-s").name == "house-s"
    assert max(step.output_usd_per_million for step in models.named["house-s"].prices) == PRICES["house-l"][1]


def test_a_missing_model_error_names_both_remedies(install: Callable[..., None]) -> None:
    install()

    with pytest.raises(SettingsError, match=r"ANTHROPIC_API_KEY.*install chargehand-plugins"):
        build_models(Settings(), "extractive", AsyncExitStack())
