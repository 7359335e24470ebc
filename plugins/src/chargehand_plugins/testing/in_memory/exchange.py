"""What the simulated server exchanges with its clients, its workflows and the world around it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure

from chargehand_plugins.testing.in_memory.executions import Execution, Task
from chargehand_plugins.testing.in_memory.sdk import (
    Job,
    ScheduleActivity,
    SignalExternalWorkflowExecution,
    StartChildWorkflowExecution,
    WorkflowCommand,
)


@dataclass(frozen=True)
class Answer:
    """What an activity comes to, and when; nothing and it hangs until its time is up."""

    after: timedelta
    result: Payload | None = None
    cause: Failure | None = None
    hangs: bool = False


class Backends(Protocol):
    """The world around the server."""

    def answer(self, execution: Execution, asked: ScheduleActivity) -> Answer | None:
        """Carry an activity out; None if `Server.resolve` is told what it comes to."""
        ...

    def latency(self, label: str) -> timedelta:
        """Say how long a message takes on its way."""
        ...

    def tie(self, label: str) -> int:
        """Say which of two things that happen at the same time comes first."""
        ...

    def abandoned(self, execution: Execution, asked: ScheduleActivity) -> None:
        """Learn that an activity's result is no longer awaited."""
        ...

    def resolved(self, execution: Execution, asked: ScheduleActivity) -> None:
        """Learn that an activity's end was taken in."""
        ...

    def after_task(self, execution: Execution, task: Task, given: Sequence[Job]) -> None:
        """Look at an execution whose task has ended."""
        ...


@dataclass
class Update:
    """An update that a client asked for, and what became of it."""

    update_id: str
    accepted: bool = False
    result: Payload | None = None
    failure: Failure | None = None

    @property
    def is_answered(self) -> bool:
        return self.result is not None or self.failure is not None


@dataclass
class Unsent:
    """What a task wants of the server, until the task ends."""

    activities: dict[int, ScheduleActivity] = field(default_factory=dict[int, ScheduleActivity])
    children: dict[int, StartChildWorkflowExecution] = field(default_factory=dict[int, StartChildWorkflowExecution])
    signals: dict[int, SignalExternalWorkflowExecution] = field(
        default_factory=dict[int, SignalExternalWorkflowExecution]
    )
    timers: dict[int, timedelta] = field(default_factory=dict[int, timedelta])
    closing: WorkflowCommand | None = None
