"""Starts whose response is lost, scheduled starts, and resets: nothing is paid for or started twice."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice import v1
from temporalio.client import Client

from chaos.proxy import open_proxy
from chargehand.client import Chargehand
from chargehand.contracts import Report, SessionRequest
from chargehand.errors import SessionNotFound
from chargehand.session import Session
from chargehand.visibility import describe
from chargehand.wire import ActivityType
from tests.parameters import first_fast
from tests.scripted_model import COST, Held, Script, answer, subtask, topics
from tests.waiting import until, until_state
from tests.workflows.conftest import OpenEnvironment, start_plainly

pytestmark = pytest.mark.real_server
_GOAL = "What is there to know?"
_SCRIPT = Script().plan(subtask("T1"))
_PAID_TURNS = 2
"""Plan and the one subtask, whose answer is the report."""


async def test_a_start_whose_response_is_lost_is_retried_and_paid_once(
    client: Client, environment: OpenEnvironment
) -> None:
    """The server started the session but the connection broke before the response: there is still one session."""
    session_id = f"asked-again-{uuid4().hex[:8]}"
    async with environment(_SCRIPT) as running, open_proxy(client.service_client.config.target_host) as wire:
        caller = await Chargehand.connect(wire.address, task_queue=running.chargehand.task_queue)
        wire.hold(answers_only=True)
        starting = asyncio.create_task(caller.start(SessionRequest(goal=_GOAL), session_id=session_id))
        ended = await _result(running.chargehand, session_id)
        has_answer = starting.done()
        wire.reset()
        wire.heal()
        session = await starting
        again = await (await caller.start(SessionRequest(goal=_GOAL), session_id=session_id)).result()

    assert not has_answer
    assert (session.id, again) == (session_id, ended)
    assert running.model.replies == _PAID_TURNS


async def _result(chargehand: Chargehand, session_id: str) -> object:
    session = chargehand.session(session_id)

    async def exists() -> bool:
        try:
            await session.status()
        except SessionNotFound:
            return False
        return True

    await until(exists)
    return await session.result()


@pytest.mark.slow
async def test_each_run_of_a_cron_is_another_session(client: Client, environment: OpenEnvironment) -> None:
    """The second run starts its own children instead of losing every subtask as a duplicate."""
    async with environment(_SCRIPT) as running:
        session = await start_plainly(running, SessionRequest(goal=_GOAL), cron_schedule="@every 1s")
        await until(lambda: running.model.replies >= 2 * _PAID_TURNS)
        await client.get_workflow_handle(session.id).terminate()
        children = [each async for each in client.list_workflows(f"WorkflowId STARTS_WITH '{session.id}/'")]

    assert len({each.id for each in children}) >= 2


GOAL = SessionRequest(goal="What do the documents say about the topics?")
_TWO = Script().plan(*topics(2))


async def reset(client: Client, session: Session, to: Callable[[HistoryEvent], bool]) -> None:
    """Reset a session to the first workflow task that completed after an event."""
    history = await client.get_workflow_handle(session.id).fetch_history()
    after = next(event.event_id for event in history.events if to(event))
    completed = (each for each in history.events if each.HasField("workflow_task_completed_event_attributes"))
    point = next(event.event_id for event in completed if event.event_id > after)
    await client.workflow_service.reset_workflow_execution(
        v1.ResetWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=session.id),
            reason="a test",
            workflow_task_finish_event_id=point,
            request_id=str(uuid4()),
        )
    )


def plan_is_there(event: HistoryEvent) -> bool:
    """Whether an event completes the plan, which is the first activity of a session without documents."""
    return event.HasField("activity_task_completed_event_attributes")


async def test_a_reset_session_pays_nothing_twice(environment: OpenEnvironment) -> None:
    """Children that finished before the reset keep their outcome, and the report's turn is found in the old run."""
    async with environment(_TWO) as opened:
        session = await opened.chargehand.start(GOAL)
        before = await session.result()
        paid = len(opened.model.calls)
        await reset(opened.chargehand.client, session, plan_is_there)
        after = await opened.chargehand.session(session.id).result()

    assert len(opened.model.calls) == paid
    assert after.answer == before.answer
    assert after.usage == before.usage
    assert [record.state for record in after.subtasks] == ["success", "success"]


@asynccontextmanager
async def paused(client: Client, workflow_id: str) -> AsyncGenerator[None]:
    """Pause a workflow for the duration of the block, as an operator does with `temporal workflow pause`."""
    named = {"namespace": client.namespace, "workflow_id": workflow_id, "reason": "a test"}
    pause = v1.PauseWorkflowExecutionRequest(**named, request_id=str(uuid4()))
    await client.workflow_service.pause_workflow_execution(pause)
    try:
        yield
    finally:
        unpause = v1.UnpauseWorkflowExecutionRequest(**named, request_id=str(uuid4()))
        await client.workflow_service.unpause_workflow_execution(unpause)


@pytest.mark.parametrize("is_paused", first_fast([True, False]))
async def test_a_reset_session_waits_for_children_that_still_run(
    environment: OpenEnvironment, *, is_paused: bool
) -> None:
    """A child of the discarded run continues and its outcome is used, even if it was paused."""
    held = Held(answer("Late."))
    async with environment(_TWO.work("T2", held)) as opened:
        client = opened.chargehand.client
        session = await opened.start(GOAL, until=held)
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


async def test_a_turn_discarded_by_a_reset_stays_booked(environment: OpenEnvironment) -> None:
    """A turn with a different request after the reset is paid for, and the discarded one is booked as waste."""
    request = GOAL.model_copy(update={"approval": "plan"})

    async def decide(session: Session, how_to_write: str) -> Report:
        await until_state(session, "awaiting_approval")
        planned = await session.plan()
        assert planned is not None
        edited = planned.model_copy(update={"final_instruction": how_to_write})
        await session.edit(edited)
        return await session.result()

    async with environment(_TWO) as opened:
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
