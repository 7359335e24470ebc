"""Grants: what children are lent, ask for, and give back; and sessions that wait for higher limits."""

import asyncio
from datetime import timedelta
from decimal import Decimal

import pytest
from temporalio.client import WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Limits, SessionRequest
from chargehand.errors import UpdateRefused
from chargehand.wire import ErrorType, SignalName
from tests.scripted_model import COST, Held, Script, Turn, answer, reply, report, subtask, topics, use
from tests.waiting import until_state
from tests.workflows.conftest import OpenEnvironment

GOAL = SessionRequest(goal="What do the documents say about the topics?", review="never")


def limited(**limits: object) -> SessionRequest:
    return GOAL.model_copy(update={"limits": Limits.model_validate(limits)})


def _searching(rounds: int) -> list[Turn]:
    """Search in so many rounds, then answer."""
    return [*(use("search_documents", about=number) for number in range(rounds)), answer("Found at last.")]


@pytest.mark.real_server
async def test_a_child_that_needs_more_asks_its_parent(forgetful: OpenEnvironment) -> None:
    """An agent of nine turns has six as its share, and borrows the others of one that has answered at once."""
    script = Script().plan(*topics(2)).work("T1", *_searching(8)).work("T2", answer("Known."))
    async with forgetful(script.synthesis(report("Found at last."))) as opened:
        session = await opened.chargehand.start(limited(max_turns=14))
        result = await session.result()
        history = await opened.chargehand.client.get_workflow_handle(session.id).fetch_history()

    asked = [event for event in history.events if event.HasField("workflow_execution_signaled_event_attributes")]
    assert result.answer == "Found at last."
    assert result.usage.turns == 1 + 9 + 1 + 1
    assert asked
    assert not any(task.must_answer for task in opened.model.tasks(WorkTask))


async def test_a_paused_session_goes_on_with_the_same_plan_and_results(forgetful: OpenEnvironment) -> None:
    """An agent that needs more than there is waits in a paused session, and goes on when the limits are raised."""
    script = Script().plan(*topics(3)).work("", use("search_documents"), answer("Known."))
    async with forgetful(script) as opened:
        session = await opened.chargehand.start(limited(max_turns=5, on_limit="pause"))
        await until_state(session, "paused")
        before = await session.status()
        with pytest.raises(UpdateRefused, match="max_turns: 5 is not more than the present 5") as refused:
            await session.raise_limits(max_turns=5)
        with pytest.raises(UpdateRefused, match="ceiling of 100"):
            await session.raise_limits(max_turns=999)
        await session.raise_limits(max_turns=12, deadline=timedelta(minutes=20))
        result = await asyncio.wait_for(session.result(), 60)

    assert before.turns <= 5
    assert refused.value.error_type is ErrorType.UPDATE_REFUSED
    assert result.stop_reason == "completed"
    assert [record.state for record in result.subtasks] == ["success"] * 3
    assert len(opened.model.of_kind("plan")) == 1
    assert result.usage.turns == 1 + 3 * 2 + 1


async def test_limits_cannot_be_raised_by_nonsense(environment: OpenEnvironment) -> None:
    """What is not a limit is refused by field."""
    async with environment(Script().plan(subtask("T1"))) as opened:
        session = await opened.chargehand.start(GOAL.model_copy(update={"approval": "plan"}))
        await until_state(session, "awaiting_approval")
        handle = opened.chargehand.client.get_workflow_handle(session.id)
        with pytest.raises(WorkflowUpdateFailedError) as failure:
            await handle.execute_update("raise_limits", {"budget_usd": -1})  # pyright: ignore[reportUnknownMemberType]  # SDK
        await session.approve()
        await session.result()

    assert isinstance(failure.value.cause, ApplicationError)
    assert failure.value.cause.type == ErrorType.INVALID_INPUT
    assert "budget_usd" in failure.value.cause.message


@pytest.mark.parametrize(
    ("child", "turns"),
    [("", -1), ("a stranger", 7), ("the parent", 7), ("a child", 0), ("a child", 7), ("a child", 10**9)],
)
async def test_a_forged_request_changes_nothing(forgetful: OpenEnvironment, child: str, turns: int) -> None:
    """A grant request in anyone's name and an unasked grant leave the books and the outcome as they are."""
    held = Held(answer("Known."))
    async with forgetful(Script().plan(subtask("T1")).work("", held)) as opened:
        session = await opened.chargehand.start(GOAL)
        await held.reached.wait()
        status = await session.status()
        handle = opened.chargehand.client.get_workflow_handle(session.id)
        names = {"the parent": session.id, "a child": status.subtasks[0].workflow_id}
        forged = {"sender": names.get(child, child), "number": 1, "token": "x"}
        request = forged | {"body": {"kind": "grant_request", "turns": turns, "usd": 0.1 if turns else 0}}
        grant = forged | {"body": {"kind": "grant", "turns": turns, "usd": 100}}
        for _ in range(2):
            await handle.signal(SignalName.MAILBOX, request)
            await handle.signal(SignalName.MAILBOX, grant)
            await opened.chargehand.client.get_workflow_handle(str(names["a child"])).signal(SignalName.MAILBOX, grant)
        after = await session.status()
        held.released.set()
        result = await session.result()

    assert result.answer == "Known."
    assert result.usage.turns == 2
    assert result.reserved_usd == 0
    assert (after.max_turns, after.budget_usd) == (status.max_turns, status.budget_usd)


async def test_a_provider_that_charges_too_much_is_reported_and_ends_the_session(forgetful: OpenEnvironment) -> None:
    """The report says what a provider charged beyond its reservation; beyond the budget nothing more is paid."""
    dear = reply(answer("Known."), Decimal(50))
    async with forgetful(Script().plan(*topics(3)).work("T1", dear)) as opened:
        result = await opened.run(limited(max_parallel=1))

    assert result.stop_reason == "overcharged"
    assert result.usage.cost_usd >= Decimal(50)
    assert result.usage.charged_above_reservation_usd > Decimal(47)
    assert len(opened.model.calls) == 2
    assert any("charged" in gap for gap in result.gaps)


async def test_a_model_is_reserved_at_what_it_has_proven_to_cost(forgetful: OpenEnvironment) -> None:
    """An overrun that the budget covers goes on, and the next calls of that model reserve so much more."""
    dear = reply(answer("Known."), Decimal("0.4"))
    async with forgetful(Script().plan(*topics(2)).work("T1", dear)) as opened:
        result = await opened.run(limited(max_parallel=1, budget_usd=8))

    assert result.stop_reason == "completed"
    assert result.usage.charged_above_reservation_usd > 0
    assert result.usage.cost_usd == Decimal("0.4") + 3 * COST


async def test_a_nested_session_knows_what_models_have_proven_to_cost(forgetful: OpenEnvironment) -> None:
    """What a model has charged above its reservation is reserved in sessions below, too, which then pay no more."""
    dear = reply(answer("Known."), Decimal("0.7"))
    nested = subtask("N1", agent="supervisor", instruction="Look into topic T2 as a whole.", after=["T1"])
    script = Script().plan(subtask("T1", instruction="Look into topic T1."), nested).work("T1", dear)
    async with forgetful(script.plan(subtask("T2", instruction="Look into it."), goal="topic T2")) as opened:
        result = await opened.run(limited(max_parallel=1, budget_usd=Decimal("1.2")))

    assert [task.instruction for task in opened.model.tasks(WorkTask)] == ["Look into topic T1."]
    assert result.usage.charged_above_reservation_usd > 0
    assert result.usage.cost_usd < Decimal("0.8")
