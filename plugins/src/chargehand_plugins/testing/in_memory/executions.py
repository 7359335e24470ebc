"""One workflow execution on the simulated server: the SDK's own workflow instance, and the record of its tasks."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final, Literal
from zlib import crc32

from temporalio import workflow
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.failure.v1 import Failure
from temporalio.common import MetricMeter, Priority, SearchAttributes, TypedSearchAttributes
from temporalio.worker import (
    UnsandboxedWorkflowRunner,
    WorkflowInstance,
    WorkflowInstanceDetails,
    WorkflowInterceptorClassInput,
)

from chargehand.converter import data_converter
from chargehand_plugins.testing.in_memory import jobs
from chargehand_plugins.testing.in_memory.sdk import Job, WorkflowActivation, WorkflowCommand
from workflows.registry import WORKFLOWS, RefuseBadInput, added_workflows

Status = Literal["running", "completed", "failed", "cancelled", "terminated"]

_RUNNER: Final = UnsandboxedWorkflowRunner()
_CONVERTER: Final = data_converter()
_definition_of: Final = workflow._Definition.must_from_class  # noqa: SLF001  # as the SDK's worker does
_INTERCEPTORS: Final = [
    RefuseBadInput().workflow_interceptor_class(WorkflowInterceptorClassInput(unsafe_extern_functions={}))
]
_EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)
_NANOSECONDS: Final = 1_000_000_000


@cache
def _definitions() -> dict[str | None, workflow._Definition]:
    return {each.name: each for each in map(_definition_of, [*WORKFLOWS, *added_workflows()])}


def _any_activity_is_valid(_: str) -> None:
    """Accept any local activity, as the SDK's replayer does."""


class TaskFailed(AssertionError):  # noqa: N818  # it is raised as a statement of fact
    """A workflow task failed: on a real server this session would hang (I15)."""


class NotDeterministic(AssertionError):  # noqa: N818  # as above
    """A replay came to other commands than the first time (I13)."""


def at(nanoseconds: int) -> datetime:
    """Say what the clock shows this long after a simulation began."""
    return _EPOCH + timedelta(microseconds=nanoseconds // 1_000)


def nanoseconds(length: timedelta) -> int:
    return (length.days * 86_400 + length.seconds) * _NANOSECONDS + length.microseconds * 1_000


@dataclass
class Activation:
    """Jobs that were handed over together, and the commands that came of them; without what leaves no history."""

    jobs: list[Job]
    commands: list[bytes]


@dataclass
class Task:
    """A workflow task, as the history keeps it."""

    at: int
    activations: list[Activation] = field(default_factory=list[Activation])
    flags: set[int] = field(default_factory=set[int])


@dataclass(eq=False)
class Execution:
    """A run of a workflow."""

    workflow_id: str
    workflow_type: str
    arguments: Sequence[Payload]
    started_at: int
    parent: "Execution | None" = None
    parent_seq: int = 0
    status: Status = "running"
    result: Payload | None = None
    failure: Failure | None = None
    closed_at: int | None = None
    inbox: list[Job] = field(default_factory=list[Job])
    task_is_due: bool = False
    cancel_was_requested: bool = False
    activities: dict[int, Any] = field(default_factory=dict[int, Any])
    timers: set[int] = field(default_factory=set[int])
    children: dict[int, "Execution"] = field(default_factory=dict[int, "Execution"])
    open_children: dict[int, str] = field(default_factory=dict[int, str])
    signals: set[int] = field(default_factory=set[int])
    close_policy: int = 0
    """What becomes of it when its parent closes."""
    history: list[Task] = field(default_factory=list[Task])

    def __post_init__(self) -> None:
        self.instance: WorkflowInstance = self._instantiate()
        self._flags: set[int] = set()
        self._held_back: list[Job] = []
        init = Job()
        start = init.initialize_workflow
        start.workflow_type, start.workflow_id = self.workflow_type, self.workflow_id
        start.arguments.extend(self.arguments)
        start.attempt = 1
        self.inbox.append(init)

    @property
    def is_open(self) -> bool:
        return self.status == "running"

    @property
    def is_held_back(self) -> bool:
        """Whether its instance waits for an update to see what came before."""
        return bool(self._held_back)

    @property
    def run_id(self) -> str:
        return f"run of {self.workflow_id}"

    @property
    def root(self) -> "Execution":
        return self.parent.root if self.parent else self

    @property
    def descendants(self) -> "list[Execution]":
        """Every execution below this one, nearest first."""
        below = list(self.children.values())
        return [*below, *(further for child in below for further in child.descendants)]

    def activate(self, task: Task, given: list[Job]) -> list[WorkflowCommand]:
        """Hand jobs over and record what came of them.

        Raises:
            TaskFailed: the activation failed.
        """
        held_back, self._held_back = self._held_back, []
        if held_back and not all(job.HasField("do_update") for job in given):
            self._run(self.instance, held_back, task.at, replaying=True, flags=self._flags, used=set())
            held_back = []
        together = [*held_back, *given]
        commands = self._run(self.instance, together, task.at, replaying=False, flags=self._flags, used=task.flags)
        self._flags |= task.flags
        refused = _refused_updates(together, commands)
        kept_jobs = [_without_validator(job) for job in given if job.do_update.protocol_instance_id not in refused]
        kept = [_written(command) for command in commands if _response_to(command) not in refused]
        if kept_jobs or kept:
            task.activations.append(Activation(kept_jobs, kept))
        return commands

    def ask(self, job: Job, now: int) -> WorkflowCommand:
        """Hand a query over; it leaves no trace."""
        (answer,) = self._run(self.instance, [job], now, replaying=False, flags=self._flags, used=set())
        return answer

    def rebuild(self) -> None:
        """Lose the worker: make the instance anew from its history.

        If the last task had no command, the SDK can hand its jobs out only together with an update that comes next
        (docs/decisions/0008); so does this.

        Raises:
            NotDeterministic: it came to other commands than the first time.
        """
        self.evict()
        self.instance = self._instantiate()
        self._held_back = []
        history = [task for task in self.history if task.activations]
        last = history[-1] if history else None
        if last and len(history) > 1 and all(not activation.commands for activation in last.activations):
            only_updates_wait = bool(self.inbox) and all(job.HasField("do_update") for job in self.inbox)
            if only_updates_wait:
                history = history[:-1]
                self._held_back = [job for activation in last.activations for job in activation.jobs]
        self._replay(self.instance, history)

    def replay(self) -> None:
        """Replay the whole history beside the instance.

        Raises:
            NotDeterministic: it came to other commands than the first time.
        """
        instance = self._instantiate()
        try:
            self._replay(instance, self.history)
        finally:
            _evict(instance, self.run_id)

    def evict(self) -> None:
        """Take the instance out of the worker's memory."""
        _evict(self.instance, self.run_id)

    def _replay(self, instance: WorkflowInstance, history: Sequence[Task]) -> None:
        flags: set[int] = set()
        for number, task in enumerate(history):
            flags |= task.flags
            for activation in task.activations:
                commands = self._run(instance, activation.jobs, task.at, replaying=True, flags=flags, used=set())
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
        replaying: bool,
        flags: set[int],
        used: set[int],
    ) -> list[WorkflowCommand]:
        activation = WorkflowActivation(
            run_id=self.run_id, is_replaying=replaying, jobs=given, available_internal_flags=sorted(flags)
        )
        activation.timestamp.FromDatetime(at(now))
        completion = instance.activate(activation)
        if completion.HasField("failed"):
            raise TaskFailed(f"I15: a workflow task of {self.workflow_id} failed: {completion.failed.failure}")
        used.update(completion.successful.used_internal_flags)
        return list(completion.successful.commands)

    def _info(self) -> workflow.Info:
        parent = self.parent
        return workflow.Info(
            attempt=1,
            continued_run_id=None,
            cron_schedule=None,
            execution_timeout=None,
            first_execution_run_id=self.run_id,
            headers={},
            namespace="default",
            original_execution_run_id=self.run_id,
            parent=workflow.ParentInfo("default", parent.run_id, parent.workflow_id) if parent else None,
            root=workflow.RootInfo(self.root.run_id, self.root.workflow_id) if parent else None,
            priority=Priority.default,
            raw_memo={},
            retry_policy=None,
            run_id=self.run_id,
            run_timeout=None,
            search_attributes=_NO_ATTRIBUTES,
            start_time=at(self.started_at),
            workflow_start_time=at(self.started_at),
            task_queue="simulated",
            task_timeout=timedelta(seconds=10),
            typed_search_attributes=TypedSearchAttributes.empty,
            workflow_id=self.workflow_id,
            workflow_type=self.workflow_type,
        )

    def _instantiate(self) -> WorkflowInstance:
        details = WorkflowInstanceDetails(
            payload_converter_factory=_CONVERTER._new_payload_converter,  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # as the SDK does
            failure_converter_class=_CONVERTER.failure_converter_class,
            interceptor_classes=_INTERCEPTORS,
            defn=_definitions()[self.workflow_type],
            info=self._info(),
            randomness_seed=crc32(self.workflow_id.encode()),
            extern_functions={
                "__temporal_assert_local_activity_valid": _any_activity_is_valid,
                "__temporal_get_metric_meter": lambda: MetricMeter.noop,
            },
            disable_eager_activity_execution=False,
            worker_level_failure_exception_types=[],
            patch_activation_callback=None,
            last_completion_result=Payloads(),
            last_failure=None,
        )
        # The SDK takes the loop that runs as the place to say which workflow is being made; a worker has one.
        before = asyncio._get_running_loop()  # noqa: SLF001
        asyncio._set_running_loop(_LOOP)  # noqa: SLF001
        try:
            return _RUNNER.create_instance(details)
        finally:
            asyncio._set_running_loop(before)  # noqa: SLF001


class _Loop(asyncio.AbstractEventLoop):
    """Stands for a worker's event loop; nothing ever runs on it."""


_LOOP: Final = _Loop()
_NO_ATTRIBUTES: Final[SearchAttributes] = {}


def _evict(instance: WorkflowInstance, run_id: str) -> None:
    instance.activate(WorkflowActivation(run_id=run_id, jobs=[jobs.evicted()]))


def _refused_updates(given: Sequence[Job], commands: Sequence[WorkflowCommand]) -> set[str]:
    """Name the updates that their validators refused: those leave nothing in a history.

    One that is refused later, by its handler, was accepted before.
    """
    new = {job.do_update.protocol_instance_id for job in given if job.HasField("do_update")}
    responses = [command.update_response for command in commands if command.HasField("update_response")]
    taken = {response.protocol_instance_id for response in responses if response.HasField("accepted")}
    refused = {response.protocol_instance_id for response in responses if response.HasField("rejected")}
    return new & refused - taken


def _response_to(command: WorkflowCommand) -> str:
    return command.update_response.protocol_instance_id if command.HasField("update_response") else ""


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
