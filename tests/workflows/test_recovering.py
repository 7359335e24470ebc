"""Recovery from failures: another attempt, another tier, a smaller task, and a reply with more room."""

import asyncio
import re
from contextlib import AsyncExitStack
from decimal import Decimal
from pathlib import Path
from random import Random
from uuid import uuid4

import pytest
from temporalio.client import WorkflowExecutionStatus

from activities.models.protocol import ModelCall
from activities.models.registry import build_models
from activities.turn_kinds.plan import PlanTask
from chaos.catalogue import EXPERIMENTS
from chargehand.client import Chargehand
from chargehand.contracts import Limits, SessionRequest, Tier
from chargehand.errors import SessionFailed
from chargehand.wire import ErrorType
from tests.environment import TOOLS, Backends
from tests.in_memory_temporal import in_memory_client
from tests.scripted_model import COST, Script, ScriptedTool, Turn, answer, found, plan, reply, subtask, topics, use
from tests.scripted_provider import ScriptedProvider, canned_session, error
from tests.waiting import runs_of
from tests.workflows.conftest import OpenEnvironment, RunSession
from worker.settings import Settings
from workflows.budget.estimates import worst_case

GOAL = SessionRequest(goal="What do the documents say about the topics?", limits=Limits(max_turns=40), review="never")


async def test_a_document_reader_is_no_fallback_without_documents(run: RunSession) -> None:
    """A researcher that found nothing is not followed by a reader who has nothing to read."""
    script = Script().plan(subtask("T1", "researcher")).work("", answer("", status="no_answer"))
    result, opened = await run(script, GOAL)

    assert [call.agent for call in opened.model.of_kind("work")] == ["researcher"]
    assert result.stop_reason == "nothing_succeeded"


@pytest.mark.parametrize("is_found", [True, False])
async def test_an_outcome_is_attributed_to_the_agent_that_gave_it(run: RunSession, *, is_found: bool) -> None:
    """The report names the fallback agent instead of the planned one, and has no confidence if it failed too."""
    refused = answer("Ask another.", status="out_of_scope")
    script = Script().plan(subtask("T1", "reader")).work("", refused)
    result, _ = await run(script.work("", answer("Known.") if is_found else refused, agent="researcher"), GOAL)

    [record] = result.subtasks
    assert (record.agent, record.attempts) == ("researcher", 2)
    assert result.confidence == 0 or is_found
    assert result.gaps[:1] == (() if is_found else ("T1 (researcher) failed: because of out_of_scope",))


async def test_an_agent_that_repeats_its_calls_must_answer(run: RunSession) -> None:
    """A tool is used once for the same question; after three repetitions the agent gets no more tools."""
    script = Script().plan(subtask("T1")).work("", use("search_documents"), forced=answer("Known.", status="partial"))
    result, opened = await run(script, GOAL)

    assert len(opened.tools["search_documents"].calls) == 1
    assert len(opened.model.of_kind("work")) == 5
    assert [record.state for record in result.subtasks] == ["partial"]


CUT_OFF = reply(answer("and th")).model_copy(update={"stop": "truncated"})


class First:
    """Answers the first calls of a kind with these turns, which can be faults, and all others as usual."""

    def __init__(self, kind: str, *turns: Turn, usual: Script | None = None) -> None:
        self._kind = kind
        self._left = list(turns)
        self._usual = usual or Script().plan(*topics(2))
        self.injected = 0

    def __call__(self, call: ModelCall) -> Turn:
        if call.task.kind != self._kind or not self._left:
            return self._usual(call)
        self.injected += 1
        return self._left.pop(0)


@pytest.mark.parametrize(
    ("kind", "effort", "lower"),
    [("plan", "high", "medium"), ("work", "medium", "low"), ("synthesis", "high", "medium")],
)
async def test_a_truncated_reply_is_requested_again(run: RunSession, kind: str, effort: str, lower: str) -> None:
    """The second request has twice the output cap and less effort, for every kind of turn; both are one turn."""
    request = GOAL.model_copy(update={"limits": Limits(max_turns=40, max_parallel=1)})

    result, opened = await run(First(kind, CUT_OFF), request)

    first, again = opened.model.of_kind(kind)[:2]
    assert (first.effort, again.effort) == (effort, lower)
    assert again.max_output_tokens == 2 * first.max_output_tokens
    assert again.messages == first.messages
    assert (result.stop_reason, result.answer) == ("completed", "All of it.")
    assert (result.wasted.turns, result.wasted.cost_usd) == (0, COST)
    assert result.usage.turns == 4


async def test_a_truncated_reply_is_requested_again_only_once(run: RunSession) -> None:
    """After a second truncation it counts as unusable, like any other bad reply."""
    result, opened = await run(First("plan", CUT_OFF, CUT_OFF), GOAL)

    efforts = [call.effort for call in opened.model.of_kind("plan")]
    assert efforts == ["high", "medium", "high"]
    assert [len(getattr(call.task, "rejected", ())) for call in opened.model.of_kind("plan")] == [0, 0, 1]
    assert result.stop_reason == "completed"


async def test_a_truncated_reply_is_not_repeated_without_the_dollars(run: RunSession) -> None:
    """The report is then written by rule from the outcomes, and no limit is exceeded."""
    request = GOAL.model_copy(update={"limits": Limits(budget_usd=Decimal("0.35"))})
    script = Script().plan(*topics(2)).work("", use("search_documents"), answer("Known."))
    dear = reply(answer("and th"), Decimal("0.25")).model_copy(update={"stop": "truncated"})

    result, opened = await run(script.synthesis(dear), request)

    assert len(opened.model.of_kind("synthesis")) == 1
    assert (result.usage.turns, result.wasted.turns) == (6, 1)
    assert result.answer


async def test_a_repeated_request_takes_no_turn_from_other_agents(run: RunSession) -> None:
    """A session that needs all its turns executes its plan despite a truncated reply."""
    request = GOAL.model_copy(update={"limits": Limits(max_turns=6, max_parallel=1)})
    script = Script().plan(subtask("T1"), subtask("T2", agent="writer"))
    script = script.work("T1", use("search_documents"), answer("Known."))

    result, opened = await run(First("work", CUT_OFF, usual=script), request)

    assert [len(opened.model.of_kind(kind)) for kind in ("plan", "work", "synthesis")] == [1, 4, 1]
    assert (result.usage.turns, result.stop_reason) == (5, "completed")


async def test_an_invalid_plan_is_requested_three_times_at_most(run: RunSession) -> None:
    """The three turns are waste; afterwards one agent gets the whole request."""
    cyclic = plan(subtask("T1", after=["T2"]), subtask("T2", after=["T1"]))

    result, opened = await run(Script().plans(cyclic), GOAL)

    assert [call.task.kind for call in opened.model.calls] == ["plan"] * 3 + ["work"]
    [record] = result.subtasks
    assert (record.agent, record.instruction) == ("researcher", f"Answer this request: {GOAL.goal}")
    assert result.answer == "Known."
    assert (result.wasted.turns, result.wasted.cost_usd) == (3, 3 * COST)
    assert len(result.gaps) == 1
    assert re.fullmatch(r"No plan was valid, so 'researcher' got the whole request: .* is a cycle.*", result.gaps[0])


async def test_an_unplanned_request_too_long_for_one_agent_fails(environment: OpenEnvironment) -> None:
    """An instruction takes 4,000 characters, so a longer request without a valid plan ends in the plan's errors."""
    cyclic = plan(subtask("T1", after=["T2"]), subtask("T2", after=["T1"]))

    async with environment(Script().plans(cyclic)) as opened:
        with pytest.raises(SessionFailed, match="The plan is invalid") as failure:
            await opened.run(SessionRequest(goal="What do the documents say? " * 200))

    assert failure.value.error_type is ErrorType.INVALID_PLAN
    assert [call.task.kind for call in opened.model.calls] == ["plan"] * 3


@pytest.mark.parametrize("between", ["", "Now look at the ebb as a whole."], ids=["itself", "there and back"])
async def test_a_delegation_loop_is_refused(run: RunSession, between: str) -> None:
    """If A delegates to A, or to B that delegates to A, the plan that closes the loop is never executed."""
    circle = "Look into the tides as a whole."
    script = Script().plan(subtask("N1", agent="supervisor", instruction=circle))
    if between:
        script = script.plan(subtask("N1", agent="supervisor", instruction=between), goal=circle)
    result, opened = await run(script, GOAL)

    planned = opened.model.tasks(PlanTask)
    goals = {task.goal for task in planned}
    refused = [error for task in planned for again in task.rejected for error in again.errors]
    assert any("loop" in error for error in refused)
    assert len(goals) == (3 if between else 2)
    assert result.stop_reason == "nothing_succeeded"
    assert not opened.model.of_kind("work")


@pytest.mark.real_server
async def test_concurrent_starts_with_one_id_are_one_session(environment: OpenEnvironment) -> None:
    """All 50 callers, and later ones, get the same report, which is paid for once."""
    session_id = f"same-{uuid4().hex[:8]}"
    async with environment(Script().plan(*topics(2))) as opened:
        started = await asyncio.gather(*(opened.chargehand.start(GOAL, session_id=session_id) for _ in range(50)))
        reports = await asyncio.gather(*(session.result() for session in started))
        later = await asyncio.gather(*(opened.chargehand.start(GOAL, session_id=session_id) for _ in range(10)))
        reports += await asyncio.gather(*(session.result() for session in later))
        executions = [each.status for each in await runs_of(opened.chargehand.client, session_id)]

    assert len(reports) == 60
    assert len({one.model_dump_json() for one in reports}) == 1
    assert executions == [WorkflowExecutionStatus.COMPLETED]
    assert [call.task.kind for call in opened.model.calls] == ["plan", "work", "work", "synthesis"]
    assert reports[0].usage.cost_usd == 4 * COST


REQUEST = SessionRequest(
    goal="Look into all parts of the matter.", limits=Limits(budget_usd=Decimal(40)), review="never"
)


@pytest.mark.nightly
async def test_sessions_complete_despite_a_failing_provider(tmp_path: Path) -> None:
    """Reports match those without faults, each step is answered once, and the books match the provider's bill."""
    result = await EXPERIMENTS["faulty-provider"]("short", Random(2), tmp_path)

    assert result.problems == []


async def test_a_fallback_provider_takes_over_from_an_unavailable_one(tmp_path: Path) -> None:
    """An overloaded provider is called once per model; the session completes with the fallback and says so."""
    script = canned_session(subtasks=2, agents=("researcher",))
    busy = error(529, {"retry-after": "3600"})
    async with (
        ScriptedProvider(lambda _: busy) as first,
        ScriptedProvider(script) as second,
        AsyncExitStack() as closing,
    ):
        urls = {"anthropic_base_url": first.base_url, "openai_base_url": second.openai_url}
        fallback = {"fallback_provider": "openai_compatible", "fallback_models": dict.fromkeys(Tier, "house")}
        own = {"state_dir": tmp_path, "anthropic_api_key": "a", "prices": {"house": (20, 60)}}
        settings = Settings.model_validate(own | urls | fallback)
        models = build_models(settings, "anthropic", closing)
        tools = {name: ScriptedTool(name, found(f"{name}.md#L1", "read")) for name in TOOLS}
        backends = Backends(models.adapter, {**tools}, models.cards, fallback=models.fallback)
        client = await closing.enter_async_context(in_memory_client(backends.activities(tmp_path, settings.ceilings)))
        session = await Chargehand(client).start(REQUEST)
        report = await session.result()

    assert report.answer == "All 2 parts were looked into."
    assert {line.model for line in report.spend if line.usage.turns} == {"house"}
    assert report.usage.cost_usd == 6 * Decimal("0.026")
    assert report.usage.charged_above_reservation_usd == report.usage.possibly_billed_twice_usd == 0
    assert len(first.requests) == len({request.model for request in first.requests})
    assert all(worst_case(card, 1_000, 100).usd == Decimal("0.026") for card in models.cards.values())
