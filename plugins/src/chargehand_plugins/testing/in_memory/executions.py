"""A workflow execution on the in-memory server: the SDK's workflow instance, and what it awaits."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
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
)

from chargehand.converter import data_converter
from chargehand_plugins.testing.in_memory import jobs
from chargehand_plugins.testing.in_memory.sdk import Job, Success, WorkflowActivation, WorkflowCommand
from workflows.registry import WORKFLOWS, RefuseBadInput, added_workflows

Status = Literal["running", "completed", "failed", "cancelled", "terminated"]

_RUNNER: Final = UnsandboxedWorkflowRunner()
_CONVERTER: Final = data_converter()
_definition_of: Final = workflow._Definition.must_from_class  # noqa: SLF001  # as the SDK's worker does
_INTERCEPTORS: Final = [RefuseBadInput]
_EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)
_NANOSECONDS: Final = 1_000_000_000


def _any_activity_is_valid(_: str) -> None:
    """Accept any local activity, as the SDK's replayer does."""


class TaskFailed(AssertionError):  # noqa: N818  # it is raised as a statement of fact
    """A workflow task failed: on a real server, this session would hang (I15)."""


def at(nanoseconds: int) -> datetime:
    """Return the clock's time at this offset from the start of a simulation."""
    return _EPOCH + timedelta(microseconds=nanoseconds // 1_000)


def nanoseconds(length: timedelta) -> int:
    return (length.days * 86_400 + length.seconds) * _NANOSECONDS + length.microseconds * 1_000


@dataclass(eq=False)
class Execution:
    """A workflow in its current run."""

    workflow_id: str
    workflow_type: str
    arguments: Sequence[Payload]
    started_at: int
    parent: "Execution | None" = None
    parent_seq: int = 0
    status: Status = "running"
    result: Payload | None = None
    failure: Failure | None = None
    inbox: list[Job] = field(default_factory=list[Job])
    task_is_due: bool = False
    cancel_was_requested: bool = False
    activities: dict[int, Any] = field(default_factory=dict[int, Any])
    timers: set[int] = field(default_factory=set[int])
    children: dict[int, "Execution"] = field(default_factory=dict[int, "Execution"])
    open_children: dict[int, str] = field(default_factory=dict[int, str])
    close_policy: int = 0
    """Its parent close policy."""
    tasks: int = 0
    """Number of workflow tasks of its current run."""
    events: int = 0
    """Approximate number of history events of its current run before its current task."""
    runs: int = 0
    """Number of times it continued as new."""

    def __post_init__(self) -> None:
        self.instance: WorkflowInstance = self.instantiate()
        about = {"workflow_type": self.workflow_type, "workflow_id": self.workflow_id, "arguments": self.arguments}
        self.inbox.append(jobs.job(initialize_workflow={**about, "attempt": 1}))

    def continue_as_new(self, arguments: Sequence[Payload], now: int) -> None:
        """Continue in a new run, which gets only the arguments."""
        self.evict()
        self.runs += 1
        self.tasks = self.events = 0
        self.arguments, self.started_at, self.cancel_was_requested = arguments, now, False
        for waits_for in (self.activities, self.timers, self.children, self.open_children):
            waits_for.clear()
        self.__post_init__()

    @property
    def is_open(self) -> bool:
        return self.status == "running"

    @property
    def run_id(self) -> str:
        return f"run {self.runs} of {self.workflow_id}"

    @property
    def root(self) -> "Execution":
        return self.parent.root if self.parent else self

    def activate(self, given: Sequence[Job], now: int) -> list[WorkflowCommand]:
        """Pass jobs to the instance, and return its completion.

        Raises:
            TaskFailed: the activation failed.
        """
        return list(self.run(self.instance, self.activation(given, now)).commands)

    def ask(self, job: Job, now: int) -> WorkflowCommand:
        """Send a query to the instance."""
        (answer,) = self.activate([job], now)
        return answer

    def activation(self, given: Sequence[Job], now: int, **about: Any) -> WorkflowActivation:
        """Build an activation at a time."""
        about.setdefault("history_length", self.events)
        activation = WorkflowActivation(run_id=self.run_id, jobs=given, **about)
        activation.timestamp.FromDatetime(at(now))
        return activation

    def run(self, instance: WorkflowInstance, activation: WorkflowActivation) -> Success:
        completion = instance.activate(activation)
        if completion.HasField("failed"):
            raise TaskFailed(f"I15: a workflow task of {self.workflow_id} failed: {completion.failed.failure}")
        return completion.successful

    def evict(self) -> None:
        """Evict the instance from the worker's cache."""
        self.instance.activate(
            WorkflowActivation(run_id=self.run_id, jobs=[jobs.job(remove_from_cache={"message": "the worker is gone"})])
        )

    def _info(self) -> workflow.Info:
        parent = self.parent
        return workflow.Info(
            attempt=1,
            continued_run_id=f"run {self.runs - 1} of {self.workflow_id}" if self.runs else None,
            cron_schedule=None,
            execution_timeout=None,
            first_execution_run_id=f"run 0 of {self.workflow_id}",
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

    def instantiate(self) -> WorkflowInstance:
        definitions = {each.name: each for each in map(_definition_of, [*WORKFLOWS, *added_workflows()])}
        details = WorkflowInstanceDetails(
            payload_converter_factory=_CONVERTER._new_payload_converter,  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # as the SDK does
            failure_converter_class=_CONVERTER.failure_converter_class,
            interceptor_classes=_INTERCEPTORS,
            defn=definitions[self.workflow_type],
            info=self._info(),
            randomness_seed=crc32(self.run_id.encode()),
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
        # The SDK marks the workflow under construction on the running loop, which exists in a worker.
        before = asyncio._get_running_loop()  # noqa: SLF001
        asyncio._set_running_loop(_LOOP)  # noqa: SLF001
        try:
            return _RUNNER.create_instance(details)
        finally:
            asyncio._set_running_loop(before)  # noqa: SLF001


class _Loop(asyncio.AbstractEventLoop):
    """Placeholder for a worker's event loop; nothing runs on it."""


_LOOP: Final = _Loop()
_NO_ATTRIBUTES: Final[SearchAttributes] = {}
