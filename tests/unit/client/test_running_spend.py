"""A status with what running subtasks have spent, though they end while it is asked for."""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, cast

from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflow.v1 import PendingChildExecutionInfo
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionRequest, DescribeWorkflowExecutionResponse
from temporalio.client import Client, WorkflowHistory

from chargehand.contracts import Status, Usage
from chargehand.converter import data_converter
from chargehand.history.tree import with_running
from chargehand.wire import ActivityType, WorkflowType

CHILD = "s/run/reader/0123456789abcdef"
SETTLED = Status(session="s", goal="g", state="executing", turns=5, spent_usd=Decimal("0.5"))
"""What the session says once its child has ended."""
UNSETTLED = SETTLED.model_copy(update={"turns": 1, "spent_usd": Decimal("0.1"), "reserved_usd": Decimal(1)})


class Server:
    """A server on which a child runs, or not, each time that its parent is described; it has taken one turn."""

    namespace = "default"
    data_converter = data_converter()

    def __init__(self, runs: Iterable[bool]) -> None:
        self._runs = iter(runs)
        self.workflow_service = self
        self.read: list[str] = []

    async def describe_workflow_execution(
        self, request: DescribeWorkflowExecutionRequest, **_: object
    ) -> DescribeWorkflowExecutionResponse:
        described = DescribeWorkflowExecutionResponse()
        if request.execution.workflow_id == "s" and next(self._runs):
            child = PendingChildExecutionInfo(
                workflow_id=CHILD, run_id="r", workflow_type_name=WorkflowType.SUBTASK, initiated_id=5
            )
            described.pending_children.append(child)
        return described

    def get_workflow_handle(self, workflow_id: str, *, run_id: str) -> "Server":
        self.read.append(f"{workflow_id} {run_id}")
        return self

    async def fetch_history(self) -> WorkflowHistory:
        started, scheduled, completed = (HistoryEvent(event_id=number) for number in (1, 2, 3))
        started.workflow_execution_started_event_attributes.workflow_type.name = WorkflowType.SUBTASK
        scheduled.activity_task_scheduled_event_attributes.activity_id = "turn-1"
        scheduled.activity_task_scheduled_event_attributes.activity_type.name = ActivityType.TAKE_TURN
        completed.activity_task_completed_event_attributes.scheduled_event_id = 2
        turn = {"model": "m", "usage": Usage(turns=1, cost_usd=Decimal("0.25"))}
        payloads = await self.data_converter.encode([turn])
        completed.activity_task_completed_event_attributes.result.payloads.extend(payloads)
        return WorkflowHistory(CHILD, [started, scheduled, completed])


async def ask(server: Server, answers: Sequence[Status]) -> tuple[Status, list[str]]:
    """Ask for a status that is answered so; returns it with how it was asked."""
    remaining, calls = iter(answers), list[str]()

    async def first() -> Status:
        calls.append("first")
        return next(remaining)

    async def again() -> Status:
        calls.append("again")
        return next(remaining)

    return await with_running(cast("Client", cast("Any", server)), "s", first, again), calls


async def test_what_a_running_child_has_spent_is_added() -> None:
    """Its turns and dollars count, and are no longer reserved."""
    server = Server([True, True])

    status, calls = await ask(server, [UNSETTLED])

    assert (status.turns, status.spent_usd, status.reserved_usd) == (2, Decimal("0.35"), Decimal("0.75"))
    assert (calls, server.read) == (["first"], [f"{CHILD} r"])


async def test_a_child_that_ends_meanwhile_counts_once() -> None:
    """Whether the answer counts it is not known, so the session is asked again, without sending an update twice."""
    server = Server([True, False, False])

    status, calls = await ask(server, [UNSETTLED, SETTLED])

    assert (status, calls, server.read) == (SETTLED, ["first", "again"], [])


async def test_without_children_the_answer_stands() -> None:
    """One description is all that it costs."""
    server = Server([False])

    assert await ask(server, [SETTLED]) == (SETTLED, ["first"])
