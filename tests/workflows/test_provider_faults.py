"""Sessions through a provider that fails in a share of its calls all complete, and pay for no step twice."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from decimal import Decimal
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio.client import Client

from activities.backends import SettingsError
from activities.contracts.model import ModelCard, PriceStep
from activities.models.registry import build_models
from activities.models.streaming import Patience
from chargehand.client import Chargehand
from chargehand.contracts import Limits, Report, SessionRequest, Tier
from tests.activities.models.calls import MODELS, an_adapter
from tests.activities.turns.one_turn import hurried
from tests.environment import TOOLS, Backends
from tests.scripted_model import ScriptedTool, found
from tests.scripted_provider import MAY_BE_BILLED, Faulty, ScriptedProvider, canned_session, error, step_of
from worker.settings import Settings
from worker.workers import build_worker
from workflows.budget.estimates import worst_case

JOBS = 6
CARD = ModelCard(
    provider="house",
    name=MODELS["chat"],
    prices=(PriceStep(input_usd_per_million=Decimal(1), output_usd_per_million=Decimal(2)),),
)
CALL_USD = Decimal("0.0012")
"""1,000 input and 100 output tokens."""
SEED = 2
REQUEST = SessionRequest(
    goal="Look into all parts of the matter.", limits=Limits(budget_usd=Decimal(40)), review="never"
)


@pytest.mark.nightly
@pytest.mark.parametrize("share", [0.1, 0.3])
async def test_sessions_complete_through_a_failing_provider(client: Client, tmp_path: Path, share: float) -> None:
    """Some at once, on a worker whose waits are a twentieth of the real ones: each ends in the report that it has
    without faults; each step is answered once; what is booked is the provider's bill, and what it charged for calls
    without an answer is named."""
    script = Faulty(canned_session(subtasks=2, agents=("researcher",)), share, SEED)
    async with ScriptedProvider(script) as provider:
        adapter = an_adapter("chat", provider.base_url, patience=Patience(2.0, 2.0))
        tools = {name: ScriptedTool(name, found(f"{name}.md#L1", "read")) for name in TOOLS}
        backends = Backends(adapter, {**tools}, dict.fromkeys(Tier, CARD), pause=hurried)
        settings = Settings(state_dir=tmp_path, task_queue=f"faults-{uuid4().hex[:8]}")
        async with build_worker(client, settings, backends.activities(tmp_path, settings.ceilings)):
            chargehand = Chargehand(client, settings.task_queue)
            reports = await asyncio.gather(*(_run(chargehand, f"faulty-{share}-{number}") for number in range(JOBS)))
        await adapter.aclose()

    answered = Counter(
        step_of(exchange.request)
        for exchange in provider.exchanges
        if exchange.reply is not None and exchange.reply.kind in {"text", "tools"}
    )
    billed_in_vain = sum(script.injected[fault] for fault in MAY_BE_BILLED)
    assert script.injected.total() >= share * JOBS * 6 / 2
    assert {report.answer for report in reports} == {"All 2 parts were looked into."}
    assert {record.state for report in reports for record in report.subtasks} == {"success"}
    assert set(answered.values()) == {1}
    assert len(answered) == 6 * JOBS
    assert sum(report.usage.possibly_billed_twice_usd for report in reports) == billed_in_vain * CALL_USD
    assert sum(report.usage.cost_usd for report in reports) == provider.charges * CALL_USD


async def test_a_fallback_takes_over_while_a_provider_is_not_available(client: Client, tmp_path: Path) -> None:
    """Overloaded for an hour, a provider is asked once for each of its models; the session completes at the fallback,
    whose price its reservations cover, and the report names the fallback's model."""
    script = canned_session(subtasks=2, agents=("researcher",))
    busy = error(529, {"retry-after": "3600"})
    async with (
        ScriptedProvider(lambda _: busy) as first,
        ScriptedProvider(script) as second,
        AsyncExitStack() as closing,
    ):
        settings = Settings.model_validate(
            {
                "state_dir": tmp_path,
                "task_queue": f"fallback-{uuid4().hex[:8]}",
                "anthropic_api_key": "a",
                "anthropic_base_url": first.base_url,
                "openai_base_url": second.openai_url,
                "fallback_provider": "openai_compatible",
                "fallback_models": dict.fromkeys(Tier, "house"),
                "prices": {"house": (20, 60)},
            }
        )
        models = build_models(settings, "anthropic", closing)
        tools = {name: ScriptedTool(name, found(f"{name}.md#L1", "read")) for name in TOOLS}
        backends = Backends(models.adapter, {**tools}, models.cards, fallback=models.fallback)
        async with build_worker(client, settings, backends.activities(tmp_path, settings.ceilings)):
            report = await _run(Chargehand(client, settings.task_queue), "fallback")

    assert report.answer == "All 2 parts were looked into."
    assert {line.model for line in report.spend if line.usage.turns} == {"house"}
    assert report.usage.cost_usd == 6 * Decimal("0.026")
    assert report.usage.charged_above_reservation_usd == report.usage.possibly_billed_twice_usd == 0
    assert len(first.requests) == len({request.model for request in first.requests})
    assert all(worst_case(card, 1_000, 100).usd == Decimal("0.026") for card in models.cards.values())


async def test_a_fallback_that_cannot_work_is_refused_by_its_own_settings(tmp_path: Path) -> None:
    """What is missing is asked for by the name of the setting that lacks it."""
    settings = Settings.model_validate(
        {
            "state_dir": tmp_path,
            "anthropic_api_key": "a",
            "openai_base_url": "http://127.0.0.1:1",
            "fallback_provider": "openai_compatible",
        }
    )
    async with AsyncExitStack() as closing:
        with pytest.raises(SettingsError, match="CHARGEHAND_FALLBACK_MODELS: name a model for the tiers"):
            build_models(settings, "anthropic", closing)
        with pytest.raises(SettingsError, match="CHARGEHAND_FALLBACK_PROVIDER: 'nobody' is not one of"):
            build_models(settings.model_copy(update={"fallback_provider": "nobody"}), "anthropic", closing)


async def _run(chargehand: Chargehand, name: str) -> Report:
    session = await chargehand.start(REQUEST, session_id=name)
    return await asyncio.wait_for(session.result(), 60)
