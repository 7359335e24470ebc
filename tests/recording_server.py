"""A server in memory that keeps histories, so that its worker can be lost, and has features beyond a session's needs.

It extends the server that `chargehand_plugins.testing` ships.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, cast

from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.worker import WorkflowInstance

from chargehand_plugins.testing.in_memory.executions import Execution, Status
from chargehand_plugins.testing.in_memory.sdk import Job, WorkflowActivation, WorkflowCommand
from chargehand_plugins.testing.in_memory.server import Server, Unsent

OVER = "workflow execution already completed"


class NotDeterministic(AssertionError):  # noqa: N818  # it is raised as a statement of fact
    """A replay produced other commands than the first run (I13)."""


@dataclass
class Activation:
    """Jobs handed over together and the commands they produced, except those that leave no history."""

    jobs: list[Job]
    commands: list[bytes]


@dataclass
class Task:
    """A workflow task, as the history keeps it."""

    at: int
    events: int
    """Number of events before it."""
    activations: list[Activation] = field(default_factory=list[Activation])
    flags: set[int] = field(default_factory=set[int])


@dataclass(eq=False)
class RecordedExecution(Execution):
    closed_at: int | None = None
    history: list[Task] = field(default_factory=list[Task])

    def __post_init__(self) -> None:
        super().__post_init__()
        self.history = []
        self._flags: set[int] = set()
        self._held_back: Task | None = None

    @property
    def is_held_back(self) -> bool:
        """Whether its instance learns of the preceding jobs only together with an update."""
        return self._held_back is not None

    @property
    def descendants(self) -> list[Execution]:
        """Every execution below this one, nearest first."""
        below = cast("list[RecordedExecution]", list(self.children.values()))
        return [*below, *(further for child in below for further in child.descendants)]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "instance"}

    def activate(self, given: Sequence[Job], now: int) -> list[WorkflowCommand]:
        """Hand jobs over and record the resulting commands in the latest task.

        Held-back jobs see the time of this task, as in replays: the SDK does not compare times.
        """
        task, late, held_back = self.history[-1], self._held_back, list[Job]()
        if late is not None:
            late.at, self._held_back = now, None
            held_back = [job for activation in late.activations for job in activation.jobs]
        if held_back and not all(job.HasField("do_update") for job in given):
            self._run(self.instance, held_back, now, replaying=True, flags=self._flags)
            held_back = []
        together = [*held_back, *given]
        commands = self._run(self.instance, together, now, flags=self._flags, used=task.flags)
        self._flags |= task.flags
        refused = _refused_updates(together, commands)
        kept_jobs = [_without_validator(job) for job in given if job.do_update.protocol_instance_id not in refused]
        kept = [_written(each) for each in commands if each.update_response.protocol_instance_id not in refused]
        if kept_jobs or kept:
            task.activations.append(Activation(kept_jobs, kept))
        return commands

    def ask(self, job: Job, now: int) -> WorkflowCommand:
        """Hand a query over; it leaves no trace."""
        (answer,) = self._run(self.instance, [job], now, flags=self._flags)
        return answer

    def rebuild(self) -> None:
        """Lose the worker: recreate the instance from its history.

        If the last task had no command, the SDK can hand out its jobs only together with the next update
        (docs/decisions/0008); this does the same.
        """
        if hasattr(self, "instance"):
            self.evict()
        self.instance = self.instantiate()
        self._held_back = None
        history = [task for task in self.history if task.activations]
        last = history[-1] if history else None
        if last and len(history) > 1 and all(not activation.commands for activation in last.activations):
            only_updates_wait = bool(self.inbox) and all(job.HasField("do_update") for job in self.inbox)
            if only_updates_wait:
                history = history[:-1]
                self._held_back = last
        self._replay(self.instance, history)

    def replay(self) -> None:
        """Replay the whole history in a second instance."""
        own, self.instance = self.instance, self.instantiate()
        try:
            self._replay(self.instance, self.history)
        finally:
            self.evict()
            self.instance = own

    def _replay(self, instance: WorkflowInstance, history: Sequence[Task]) -> None:
        flags: set[int] = set()
        for number, task in enumerate(history):
            flags |= task.flags
            for activation in task.activations:
                commands = self._run(
                    instance, activation.jobs, task.at, events=task.events, replaying=True, flags=flags
                )
                again = [_written(command) for command in commands]
                if again != activation.commands:
                    first = [_readable(command) for command in activation.commands]
                    second = [_readable(command) for command in again]
                    raise NotDeterministic(
                        f"I13: task {number} of {self.workflow_id}: {first} the first time, {second} on replay"
                    )

    def _run(
        self,
        instance: WorkflowInstance,
        given: Sequence[Job],
        now: int,
        *,
        flags: set[int],
        events: int | None = None,
        replaying: bool = False,
        used: set[int] | None = None,
    ) -> list[WorkflowCommand]:
        activation: WorkflowActivation = self.activation(
            given,
            now,
            is_replaying=replaying,
            available_internal_flags=sorted(flags),
            history_length=self.events if events is None else events,
        )
        success = self.run(instance, activation)
        if used is not None:
            used.update(success.used_internal_flags)
        return list(success.commands)


@dataclass
class Update:
    update_id: str
    accepted: bool = False
    result: Payload | None = None
    failure: Failure | None = None

    @property
    def is_answered(self) -> bool:
        return self.result is not None or self.failure is not None


_Timers = dict[tuple[str, int], tuple[int, timedelta]]
Saved = tuple[int, dict[str, Execution], dict[str, Update], _Timers]


@dataclass
class RecordingServer(Server):
    updates: dict[str, Update] = field(default_factory=dict[str, Update])
    timers: _Timers = field(default_factory=_Timers)
    """Start and duration of timers, by run and number."""

    def saved(self) -> Saved:
        """Copy what a server has in its database; nothing may be in transit."""
        assert len(self._coming) == sum(when > self.now for when, *_ in self._coming), "something is on its way"
        return deepcopy((self.now, self.executions, self.updates, self.timers))

    def load(self, saved: Saved) -> None:
        """Start from another server's saved state: attempts in progress are repeated, and workers have no cache."""
        now, self.executions, self.updates, self.timers = deepcopy(saved)
        for execution in filter(lambda each: each.is_open, self.recorded):
            execution.rebuild()
            for activity in execution.activities.values():
                self.activities.begin(execution, activity)
            for seq in tuple(execution.timers):
                self.now, length = self.timers[execution.run_id, seq]
                self._start_timer(execution, seq, length)
        self.now = now

    @property
    def recorded(self) -> list[RecordedExecution]:
        return cast("list[RecordedExecution]", list(self.executions.values()))

    def find(self, workflow_id: str) -> RecordedExecution | None:
        return cast("RecordedExecution | None", self.executions.get(workflow_id))

    @property
    def next_at(self) -> int | None:
        """When the next event is due; None if nothing is in progress."""
        return self._coming[0][0] if self._coming else None

    def signal(self, workflow_id: str, name: str, payloads: Sequence[Payload]) -> None:
        self._later(f"signal {workflow_id} {name}", lambda: self._deliver_signal(workflow_id, name, payloads))

    def terminate(self, workflow_id: str) -> None:
        execution = self.executions[workflow_id]
        if execution.is_open:
            failure = Failure(message="Terminated")
            failure.terminated_failure_info.SetInParent()
            self._close(execution, "terminated", None, failure)

    def update(self, workflow_id: str, update_id: str, name: str, payloads: Sequence[Payload]) -> Update:
        """Request an update; repeated ids are requested once."""
        if update_id not in self.updates:
            self.updates[update_id] = Update(update_id)
            self.send_update(workflow_id, update_id, name, payloads)
        return self.updates[update_id]

    def after_task(self, execution: RecordedExecution, task: Task, given: Sequence[Job]) -> None:
        """Called with each execution whose task has ended."""

    def _new(self, workflow_id: str, workflow_type: str, arguments: Sequence[Payload], **about: Any) -> Execution:
        execution = RecordedExecution(workflow_id, workflow_type, arguments, self.now, **about)
        self.executions[workflow_id] = execution
        return execution

    def _start_timer(self, execution: Execution, seq: int, length: timedelta) -> None:
        self.timers[execution.run_id, seq] = self.now, length
        super()._start_timer(execution, seq, length)

    def _work_on(self, execution: Execution) -> None:
        if execution.is_open and isinstance(execution, RecordedExecution):
            task, given = Task(self.now, execution.events), list(execution.inbox)
            execution.history.append(task)
            super()._work_on(execution)
            self.after_task(execution, task, given)

    def _take(self, execution: Execution, command: WorkflowCommand, unsent: Unsent) -> list[Job]:
        if command.HasField("update_response"):
            answer = command.update_response
            update = self.updates[answer.protocol_instance_id]
            update.accepted = update.accepted or answer.HasField("accepted")
            if answer.HasField("completed"):
                update.result = answer.completed
            elif answer.HasField("rejected"):
                update.failure = answer.rejected
        return super()._take(execution, command, unsent)

    def _tell(self, execution: Execution, job: Job) -> None:
        if not execution.is_open and job.HasField("do_update"):
            update = self.updates[job.do_update.id]
            update.failure = update.failure or Failure(message=OVER)
        super()._tell(execution, job)

    def _close(self, execution: Execution, status: Status, result: Payload | None, failure: Failure | None) -> None:
        cast("RecordedExecution", execution).closed_at = self.now
        super()._close(execution, status, result, failure)
        for job in execution.inbox:
            self._tell(execution, job)


def _refused_updates(given: Sequence[Job], commands: Sequence[WorkflowCommand]) -> set[str]:
    """Return the updates refused by their validators, which leave nothing in a history."""
    new = {job.do_update.protocol_instance_id for job in given if job.HasField("do_update")}
    responses = [command.update_response for command in commands if command.HasField("update_response")]
    taken = {response.protocol_instance_id for response in responses if response.HasField("accepted")}
    refused = {response.protocol_instance_id for response in responses if response.HasField("rejected")}
    return new & refused - taken


def _without_validator(job: Job) -> Job:
    if not job.HasField("do_update"):
        return job
    taken = Job()
    taken.CopyFrom(job)
    taken.do_update.run_validator = False
    return taken


def _written(command: WorkflowCommand) -> bytes:
    return command.SerializeToString(deterministic=True)


def _readable(written: bytes) -> str:
    return str(WorkflowCommand.FromString(written))[:600]
