"""What a session is charged: waste, calls of unknown outcome, and what is still set aside."""

from datetime import timedelta
from decimal import Decimal

import pytest

from activities.models.failures import ProviderError, ProviderFault
from chargehand.contracts import Limits, Report, SessionRequest
from chargehand.wire import ErrorType
from tests.scripted_model import COST, Held, Script, answer, most_expensive, refined, reply, subtask, topics, use
from tests.workflows.conftest import OpenEnvironment, RunSession
from tests.workflows.test_recovering import First

GOAL = SessionRequest(goal="What do the documents say about the topics?", limits=Limits(max_turns=40), review="never")
BETTER = "Look in the second chapter of the handbook, and nowhere else."


def _uses(result: Report) -> dict[str, tuple[float, float]]:
    return {use.limit: (use.used, use.allowed) for use in result.limits}


async def test_a_successful_session_wastes_nothing_and_reports_every_limit(run: RunSession) -> None:
    """The report has every limit of the request with its use, and nothing stays reserved."""
    script = Script().plan(subtask("T1"), subtask("T2"), subtask("T3", after=["T1", "T2"]))
    script = script.work("", use("search_documents"), answer("Known."))
    result, _ = await run(script, GOAL)

    uses = _uses(result)
    assert result.wasted.cost_usd == 0
    assert result.wasted.turns == 0
    assert result.reserved_usd == 0
    counted = ("max_turns", "budget_usd", "max_depth", "max_parallel", "max_attempts", "max_rounds", "max_reviews")
    assert {name: uses[name] for name in counted} == {
        "max_turns": (8, 40),
        "budget_usd": (float(8 * COST), 2.0),
        "max_depth": (1, 5),
        "max_parallel": (2, 5),
        "max_attempts": (1, 3),
        "max_rounds": (2, 10),
        "max_reviews": (0, 2),
    }
    timed = {name: use for name, use in uses.items() if name not in counted}
    seconds = {name: allowed for name, (_, allowed) in timed.items()}
    assert seconds == {"deadline_seconds": 600, "subtask_deadline_seconds": 300}
    assert len(uses) == len(Limits.model_fields) - 1  # all but on_limit
    assert timed["deadline_seconds"][0] == result.timing.wall.total_seconds()
    assert all(0 < used <= allowed for used, allowed in timed.values())


async def test_a_lost_attempt_is_charged_its_whole_grant_as_waste(environment: OpenEnvironment) -> None:
    """This covers a child that is terminated by hand; its sibling continues."""
    held = Held(answer("Never."))
    script = Script().plan(*topics(2)).work("T1", held)
    async with environment(script) as opened:
        session = await opened.start(GOAL, until=held)
        child = (await session.status()).subtasks[0].workflow_id
        assert child is not None
        await opened.chargehand.client.get_workflow_handle(child).terminate("by hand")
        result = await session.result()

    assert [(record.state, record.reason) for record in result.subtasks] == [("failure", "terminated"), ("success", "")]
    assert result.usage.possibly_billed_twice_usd > 0
    [lost] = [line for line in result.spend if line.purpose == "lost"]
    assert lost.usage.cost_usd > 0
    assert result.subtasks[0].wasted == lost.usage
    assert result.wasted == lost.usage
    assert result.reserved_usd == 0


async def test_an_unaffordable_attempt_pauses_the_session(environment: OpenEnvironment) -> None:
    """With `on_limit` "pause", raising the limits pays for the next attempt instead of giving up."""
    script = Script().plan(subtask("T1")).refine(refined(BETTER))
    script = script.work("", answer("", status="no_answer")).work(BETTER, answer("Found."))
    tight = GOAL.model_copy(update={"limits": Limits(max_turns=3, on_limit="pause")})
    async with environment(script) as opened:
        session = await opened.start(tight, until="paused")
        before = len(opened.model.calls)
        await session.raise_limits(max_turns=20)
        result = await session.result()

    assert before == 2
    assert [call.task.kind for call in opened.model.calls[before:]] == ["refine", "work"]
    assert [(record.state, record.attempts) for record in result.subtasks] == [("success", 2)]
    assert _uses(result)["max_turns"] == (4, 20)
    assert result.stop_reason == "completed"


def _unanswered(*, billed: bool = True, retry: bool = True) -> ProviderError:
    fault = ProviderFault(provider="scripted", possibly_billed=billed)
    message, kind, wait = "scripted did not answer.", ErrorType.PROVIDER_UNAVAILABLE, timedelta(milliseconds=10)
    return ProviderError(message, fault, kind, is_final=not retry, retry_after=wait)


def _of_kind(result: Report, kind: str) -> Decimal:
    return sum((line.usage.possibly_billed_twice_usd for line in result.spend if line.purpose == kind), Decimal(0))


@pytest.mark.parametrize(
    ("kind", "times", "billed"),
    [("plan", 2, True), ("work", 1, True), ("work", 2, True), ("synthesis", 1, True), ("work", 1, False)],
)
async def test_an_unanswered_call_is_charged_at_its_worst_case(
    run: RunSession, kind: str, times: int, *, billed: bool
) -> None:
    """It is named as waste and its turn counts once; calls that were surely not billed are not charged."""
    faults = First(kind, *(_unanswered(billed=billed) for _ in range(times)))

    result, opened = await run(faults, GOAL)

    [call, *_] = opened.model.of_kind(kind)
    named = result.usage.possibly_billed_twice_usd
    assert faults.injected == times
    assert len(opened.model.calls) == 4 + times
    assert result.answer == "All of it."
    assert named == _of_kind(result, kind)
    assert named >= times * most_expensive(call) * billed
    assert billed or named == 0
    assert result.usage.cost_usd == named + 4 * COST
    assert result.usage.turns == 4
    assert result.wasted.cost_usd == named
    assert result.reserved_usd == 0


@pytest.mark.parametrize(
    ("billed", "retry"),
    [((True, True, True), True), ((True, False, False, True, True), True), ((True,), False)],
    ids=["three calls", "three and unbilled ones between", "one that must not be repeated"],
)
async def test_a_turn_is_given_up_after_three_possibly_billed_calls(
    run: RunSession, billed: tuple[bool, ...], *, retry: bool
) -> None:
    """Unbilled errors in between do not count; the subtask fails, while its siblings and the report continue."""
    faults = First("work", *(_unanswered(billed=each, retry=retry) for each in billed))
    request = GOAL.model_copy(update={"limits": Limits(max_turns=40, max_parallel=1)})

    result, opened = await run(faults, request)

    assert faults.injected == len(billed)
    assert len(opened.model.of_kind("work")) == faults.injected + 1
    ended = [(record.state, record.reason) for record in result.subtasks]
    assert ended == [("failure", "provider_unavailable"), ("success", "")]
    assert result.answer == "All of it."
    assert result.usage.turns == 4
    least = sum(billed) * most_expensive(opened.model.of_kind("work")[0])
    assert result.usage.possibly_billed_twice_usd >= least
    assert result.subtasks[0].wasted.possibly_billed_twice_usd == result.usage.possibly_billed_twice_usd


async def test_a_reply_without_usage_is_charged_at_its_worst_case(run: RunSession) -> None:
    """The report states that amount as possibly billed twice."""
    script = Script().plan(*topics(2)).work("", reply(answer("Known."), None))
    result, opened = await run(script, GOAL)

    named = result.usage.possibly_billed_twice_usd
    assert named == _of_kind(result, "work") >= 2 * most_expensive(opened.model.of_kind("work")[0])
    assert result.usage.cost_usd == named + 2 * COST
    assert result.wasted.cost_usd == 0
    assert result.usage.turns == 4


async def test_an_adapter_bug_is_charged_once_and_fails_one_subtask(run: RunSession) -> None:
    """It is not mistaken for a lost worker and retried: one call, charged in full and reported."""
    bug = KeyError("a bug")
    script = Script().plan(subtask("T1"), subtask("T2", agent="analyst"))
    script = script.work("", bug, agent="reader").work("", bug, agent="researcher")
    result, opened = await run(script, GOAL)

    assert len([call for call in opened.model.of_kind("work") if call.agent == "reader"]) == 1
    assert [record.state for record in result.subtasks] == ["failure", "success"]
    assert result.usage.possibly_billed_twice_usd > 0
    assert result.answer == "All of it."
