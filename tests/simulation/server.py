"""The server of simulated sessions: messages take time, things happen in a drawn order, and the worker may be lost."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Protocol

from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import TimeoutType
from temporalio.api.failure.v1 import Failure

from chargehand_plugins.testing.in_memory.executions import Execution, nanoseconds
from chargehand_plugins.testing.in_memory.sdk import Job, ScheduleActivity
from tests.recording_server import RecordedExecution, RecordingServer, Task

_MOST_EVENTS: Final = 6_000


class Stuck(AssertionError):  # noqa: N818  # it is raised as a statement of fact
    """More happened than a session can need (I20)."""


@dataclass(frozen=True)
class Answer:
    """What an activity comes to, and when; nothing and it hangs until its time is up."""

    after: timedelta
    result: Payload | None = None
    cause: Failure | None = None
    hangs: bool = False


class Surroundings(Protocol):
    """The world around the server."""

    def answer(self, execution: Execution, asked: ScheduleActivity) -> Answer:
        """Carry an activity out."""
        ...

    def latency(self, label: str) -> timedelta:
        """Say how long a message takes on its way."""
        ...

    def tie(self, label: str) -> int:
        """Say which of two things that happen at the same time comes first."""
        ...

    def abandon(self, execution: Execution, asked: ScheduleActivity) -> None:
        """Learn that an activity's result is no longer awaited."""
        ...

    def resolved(self, execution: Execution, asked: ScheduleActivity) -> None:
        """Learn that an activity's end was taken in."""
        ...

    def after_task(self, execution: RecordedExecution, task: Task, given: Sequence[Job]) -> None:
        """Look at an execution whose task has ended."""
        ...


class SimulatedServer(RecordingServer):
    """The server, and the one worker that serves it."""

    def __init__(self, world: Surroundings) -> None:
        super().__init__(self)
        self._world = world
        self._worker_is_back_at = 0
        self.events = 0
        self.sent_signals: list[tuple[str, str, Sequence[Payload]]] = []
        """What workflows told each other."""
        self.starts: list[str] = []
        """Ids of all workflows that were started, in order."""

    def crash(self, down_for: timedelta = timedelta(0)) -> None:
        """Lose the worker and all it knew; another is there after a while."""
        for execution in self.recorded:
            if execution.is_open and execution.history:
                execution.rebuild()
        self._worker_is_back_at = max(self._worker_is_back_at, self.now + nanoseconds(down_for))

    def step(self) -> bool:
        """Let the next thing happen; False if nothing is under way."""
        self.events += bool(self._coming)
        if self.events > _MOST_EVENTS:
            still_open = [execution.workflow_id for execution in self.executions.values() if execution.is_open]
            raise Stuck(f"I20: {self.events} events, and {still_open} are still open")
        return super().step()

    def run(self) -> None:
        while self.step():
            pass

    def begin(self, execution: Execution, asked: ScheduleActivity) -> None:
        answer = self._world.answer(execution, asked)
        label = f"activity {execution.workflow_id} {asked.activity_id}"
        after, cause = answer.after, answer.cause
        if asked.HasField("schedule_to_close_timeout"):
            limit = asked.schedule_to_close_timeout.ToTimedelta()
            if answer.hangs or after > limit:
                after, cause = limit, _timed_out()
        elif answer.hangs:
            raise AssertionError(f"{label} has no time limit and would hang for ever")
        result = None if cause else answer.result
        self._at(self.now + nanoseconds(after), label, lambda: self.resolve(execution, asked, result, cause))

    def abandon(self, execution: Execution, asked: ScheduleActivity) -> None:
        self._world.abandon(execution, asked)

    def resolve(
        self, execution: Execution, asked: ScheduleActivity, result: Payload | None, cause: Failure | None
    ) -> None:
        """Tell a workflow what an activity came to, if it still waits for it."""
        if asked.seq in execution.activities:
            self._world.resolved(execution, asked)
        super().resolve(execution, asked, result, cause)

    def after_task(self, execution: RecordedExecution, task: Task, given: Sequence[Job]) -> None:
        self._world.after_task(execution, task, given)

    def _latency(self, label: str) -> int:
        return nanoseconds(self._world.latency(label))

    def _tie(self, label: str) -> int:
        return self._world.tie(label)

    def _work_on(self, execution: Execution) -> None:
        if execution.is_open and self.now < self._worker_is_back_at:
            label = f"task {execution.workflow_id} {execution.tasks}"
            self._at(self._worker_is_back_at, label, lambda: self._work_on(execution))
        else:
            super()._work_on(execution)

    def _new(self, workflow_id: str, workflow_type: str, arguments: Sequence[Payload], **about: object) -> Execution:
        if about:
            self.starts.append(workflow_id)
        return super()._new(workflow_id, workflow_type, arguments, **about)

    def _deliver_signal(self, workflow_id: str, name: str, payloads: Sequence[Payload]) -> bool:
        self.sent_signals.append((workflow_id, name, payloads))
        return super()._deliver_signal(workflow_id, name, payloads)


def _timed_out() -> Failure:
    failure = Failure(message="activity ScheduleToClose timeout")
    failure.timeout_failure_info.timeout_type = TimeoutType.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE
    return failure
