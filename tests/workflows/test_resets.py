"""`temporal workflow reset`: what was paid is not paid again, what was begun is not begun again."""

from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client

from chargehand.contracts import Report, SessionRequest
from chargehand.session import Session
from chargehand.visibility import describe
from chargehand.wire import ActivityType
from tests.parameters import first_fast
from tests.scripted_model import COST, Held, Script, answer, topics
from tests.waiting import until, until_state
from tests.workflows.conftest import OpenEnvironment
from tests.workflows.pausing import paused

pytestmark = pytest.mark.real_server

GOAL = SessionRequest(goal="What do the documents say about the topics?")
_SCRIPT = Script().plan(*topics(2))


async def reset(client: Client, session: Session, to: Callable[[HistoryEvent], bool]) -> None:
    """Reset a session to the first workflow task that completed after an event."""
    history = await client.get_workflow_handle(session.id).fetch_history()
    after = next(event.event_id for event in history.events if to(event))
    point = next(
        event.event_id
        for event in history.events
        if event.event_id > after and event.HasField("workflow_task_completed_event_attributes")
    )
    await client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=session.id),
            reason="a test",
            workflow_task_finish_event_id=point,
            request_id=str(uuid4()),
        )
    )


def plan_is_there(event: HistoryEvent) -> bool:
    """The first activity of a session without documents is its plan."""
    return event.HasField("activity_task_completed_event_attributes")


async def test_a_reset_session_pays_nothing_twice(environment: OpenEnvironment) -> None:
    """Children that were done before the reset are taken as they ended, the report's turn is found in the old run."""
    async with environment(_SCRIPT) as opened:
        session = await opened.chargehand.start(GOAL)
        before = await session.result()
        paid = len(opened.model.calls)
        await reset(opened.chargehand.client, session, plan_is_there)
        after = await opened.chargehand.session(session.id).result()

    assert len(opened.model.calls) == paid
    assert after.answer == before.answer
    assert after.usage == before.usage
    assert [record.state for record in after.subtasks] == ["success", "success"]


@pytest.mark.parametrize("is_paused", first_fast([True, False]))
async def test_a_reset_waits_for_what_still_runs(environment: OpenEnvironment, *, is_paused: bool) -> None:
    """A child that the discarded run has started goes on, and its outcome is taken over, even if it was paused."""
    held = Held(answer("Late."))
    async with environment(_SCRIPT.work("T2", held)) as opened:
        client = opened.chargehand.client
        session = await opened.chargehand.start(GOAL)
        await held.reached.wait()
        await until(lambda: _one_runs(client, session))
        [child] = (await describe(client, session.id)).pending_children
        async with paused(client, child.workflow_id) if is_paused else nullcontext():
            await reset(client, session, plan_is_there)
            await until(lambda: is_awaiting_a_duplicate(client, session))
        held.released.set()
        result = await opened.chargehand.session(session.id).result()

    assert [record.state for record in result.subtasks] == ["success", "success"]
    assert len(opened.model.of_kind("work")) == 2
    assert result.usage.turns == len(opened.model.calls)


async def test_what_was_paid_before_a_reset_is_not_forgotten(environment: OpenEnvironment) -> None:
    """A turn that is asked something else after the reset is paid, and the discarded one is booked beside it."""
    request = GOAL.model_copy(update={"approval": "plan"})

    async def decide(session: Session, how_to_write: str) -> Report:
        await until_state(session, "awaiting_approval")
        planned = await session.plan()
        assert planned is not None
        edited = planned.model_copy(update={"final_instruction": how_to_write})
        await session.edit(edited)
        return await session.result()

    async with environment(_SCRIPT) as opened:
        session = await opened.chargehand.start(request)
        before = await decide(session, "Briefly.")
        await reset(opened.chargehand.client, session, plan_is_there)
        after = await decide(opened.chargehand.session(session.id), "At length.")

    assert len(opened.model.of_kind("work")) == 2
    assert len(opened.model.of_kind("synthesis")) == 2
    assert after.usage.cost_usd == before.usage.cost_usd + COST == COST * len(opened.model.calls)
    assert after.wasted.cost_usd == COST


async def _one_runs(client: Client, session: Session) -> bool:
    return len((await describe(client, session.id)).pending_children) == 1


async def is_awaiting_a_duplicate(client: Client, session: Session) -> bool:
    described = await describe(client, session.id)
    return any(
        waiting.activity_type.name == ActivityType.AWAIT_DUPLICATE
        and waiting.state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED
        and not waiting.HasField("last_failure")
        and datetime.now(UTC) - waiting.last_started_time.ToDatetime(UTC) > timedelta(seconds=1)
        for waiting in described.pending_activities
    )
