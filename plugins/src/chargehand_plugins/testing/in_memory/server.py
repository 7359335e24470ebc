"""An in-memory Temporal server: a virtual clock, pending work, and deliveries to workflows.

It is independent of Chargehand. The results of activities come from their executor.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, Protocol

from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import WorkflowIdReusePolicy
from temporalio.api.failure.v1 import Failure

from chargehand_plugins.testing.in_memory import jobs
from chargehand_plugins.testing.in_memory.executions import Execution, Status, nanoseconds
from chargehand_plugins.testing.in_memory.sdk import (
    ActivityCancellationType,
    Job,
    ParentClosePolicy,
    ScheduleActivity,
    SignalExternalWorkflowExecution,
    StartChildWorkflowExecution,
    WorkflowCommand,
)

_WITHOUT_EFFECT: Final = {
    "modify_workflow_properties",
    "upsert_workflow_search_attributes",
    "set_patch_marker",
}
_BEGINNING: Final = {
    "signal_external_workflow_execution",
    "schedule_activity",
    "start_child_workflow_execution",
    "start_timer",
}
"""Commands sent at the end of the task, which can be withdrawn until then."""
_CLOSING: Final = {"complete_workflow_execution", "fail_workflow_execution", "cancel_workflow_execution"}
_EVENTS_OF_TASK: Final = 3
"""Events of a workflow task: scheduled, started and completed."""
End = tuple[Status, Payload | None, Failure | None]
"""How an execution closed, with its result."""


class Activities(Protocol):
    def begin(self, execution: Execution, asked: ScheduleActivity) -> None:
        """Execute an activity, whose result goes to `Server.resolve`."""
        ...

    def abandon(self, execution: Execution, asked: ScheduleActivity) -> None:
        """Abandon an activity whose result is no longer awaited."""
        ...


@dataclass
class Unsent:
    """Pending commands of a task until it ends."""

    commands: defaultdict[str, dict[int, Any]] = field(default_factory=lambda: defaultdict[str, dict[int, Any]](dict))
    """Commands by kind and number."""
    end: End | None = None
    continued: Any = None
    """The continue-as-new command, if any."""


@dataclass
class Server:
    """The server and its single worker."""

    activities: Activities
    now: int = 0
    """Nanoseconds since the start."""
    executions: dict[str, Execution] = field(default_factory=dict[str, Execution])
    update_results: dict[str, Payload] = field(default_factory=dict[str, Payload])
    """Results of updates by id."""
    _coming: list[tuple[int, int, int, Callable[[], object]]] = field(
        default_factory=list[tuple[int, int, int, Callable[[], object]]]
    )
    _cancelled_early: dict[str, str] = field(default_factory=dict[str, str])
    _count: int = 0

    def start(self, workflow_id: str, workflow_type: str, argument: Payload) -> Execution:
        execution = self._new(workflow_id, workflow_type, [argument])
        self._wake(execution)
        return execution

    def cancel(self, workflow_id: str, reason: str = "by hand") -> None:
        self._later(f"cancel {workflow_id}", lambda: self._deliver_cancel(workflow_id, reason))

    def send_update(self, workflow_id: str, update_id: str, name: str, payloads: Sequence[Payload]) -> None:
        job = jobs.update_requested(update_id, name, payloads)
        self._later(f"update {update_id}", lambda: self._tell(self.executions[workflow_id], job))

    def query(self, workflow_id: str, name: str) -> Payload | None:
        """Query a running workflow; None if it refused to answer."""
        answer = self.executions[workflow_id].ask(jobs.queried(name), self.now).respond_to_query
        return answer.succeeded.response if answer.HasField("succeeded") else None

    def step(self) -> bool:
        """Process the next event; False if nothing is pending."""
        if not self._coming:
            return False
        when, _, _, happen = heapq.heappop(self._coming)
        self.now = max(self.now, when)
        happen()
        return True

    def run_until(self, moment: int) -> None:
        """Process all events before a time."""
        while self._coming and self._coming[0][0] <= moment:
            self.step()
        self.now = max(self.now, moment)

    def close(self) -> None:
        """Discard all instances."""
        for execution in self.executions.values():
            if execution.is_open:
                execution.evict()

    def resolve(
        self, execution: Execution, asked: ScheduleActivity, result: Payload | None, cause: Failure | None
    ) -> None:
        """Deliver an activity's result to a workflow, if it is still waiting for it."""
        if execution.activities.pop(asked.seq, None) is not None:
            self._tell(
                execution,
                jobs.activity_resolved(asked.seq, asked.activity_type, asked.activity_id, result=result, cause=cause),
            )

    def _new(self, workflow_id: str, workflow_type: str, arguments: Sequence[Payload], **about: Any) -> Execution:
        execution = Execution(workflow_id, workflow_type, arguments, self.now, **about)
        self.executions[workflow_id] = execution
        return execution

    def _at(self, moment: int, label: str, happen: Callable[[], object]) -> None:
        self._count += 1
        heapq.heappush(self._coming, (moment, self._tie(label), self._count, happen))

    def _later(self, label: str, happen: Callable[[], object]) -> None:
        self._at(self.now + self._latency(label), label, happen)

    def _latency(self, label: str) -> int:  # noqa: ARG002  # messages take time in simulations
        return 0

    def _tie(self, label: str) -> int:  # noqa: ARG002  # simulations choose which of two events comes first
        return 0

    def _tell(self, execution: Execution, job: Job) -> None:
        if execution.is_open:
            execution.inbox.append(job)
            self._wake(execution)

    def _wake(self, execution: Execution) -> None:
        if not execution.task_is_due:
            execution.task_is_due = True
            self._later(f"task {execution.workflow_id} {execution.tasks}", lambda: self._work_on(execution))

    def _work_on(self, execution: Execution) -> None:
        if not execution.is_open:
            return
        execution.task_is_due = False
        execution.tasks += 1
        batch, execution.inbox = execution.inbox, []
        unsent, events = Unsent(), execution.events + _EVENTS_OF_TASK
        while batch:
            commands = execution.activate(batch, self.now)
            events += len(batch) + len(commands)
            batch = [job for command in commands for job in self._take(execution, command, unsent)]
        execution.events = events
        self._send(execution, unsent)

    def _take(self, execution: Execution, command: WorkflowCommand, unsent: Unsent) -> list[Job]:
        """Accept a command; those that the SDK's core answers itself are answered immediately."""
        written = command.WhichOneof("variant") or ""
        # The relevant fields of local activities have the same names.
        kind, attributes = written.replace("local_", ""), getattr(command, written)
        if kind in _BEGINNING:
            unsent.commands[kind][attributes.seq] = attributes
        elif kind in _CLOSING:
            unsent.end = unsent.end or _end(kind, attributes)
        elif kind == "continue_as_new_workflow_execution":
            unsent.continued = attributes
        elif kind not in _WITHOUT_EFFECT:
            handler: Callable[[Execution, Any, Unsent], list[Job]] = getattr(self, f"_take_{kind}")
            return handler(execution, attributes, unsent)
        return []

    def _take_update_response(self, _: Execution, asked: Any, __: Unsent) -> list[Job]:
        if asked.HasField("completed"):
            self.update_results[asked.protocol_instance_id] = asked.completed
        return []

    def _take_request_cancel_activity(self, execution: Execution, asked: Any, unsent: Unsent) -> list[Job]:
        activity = unsent.commands["schedule_activity"].pop(asked.seq, None)
        if activity is None:
            activity = execution.activities.get(asked.seq)
            if activity is None:
                return []
            if activity.cancellation_type == ActivityCancellationType.WAIT_CANCELLATION_COMPLETED:
                label = f"cancelled {activity.activity_id}"
                self._later(label, lambda: self.resolve(execution, activity, None, jobs.cancelled()))
                return []
            del execution.activities[asked.seq]
            self.activities.abandon(execution, activity)
        return [jobs.activity_resolved(asked.seq, activity.activity_type, activity.activity_id, cause=jobs.cancelled())]

    def _take_cancel_timer(self, execution: Execution, asked: Any, unsent: Unsent) -> list[Job]:
        unsent.commands["start_timer"].pop(asked.seq, None)
        execution.timers.discard(asked.seq)
        return []

    def _take_cancel_child_workflow_execution(self, execution: Execution, asked: Any, unsent: Unsent) -> list[Job]:
        seq = asked.child_workflow_seq
        if child := unsent.commands["start_child_workflow_execution"].pop(seq, None):
            return [jobs.child_never_sent(seq, child.workflow_id, child.workflow_type)]
        if workflow_id := execution.open_children.get(seq):
            self.cancel(workflow_id, "Parent workflow requested cancel")
        return []

    def _take_request_cancel_external_workflow_execution(
        self, execution: Execution, asked: Any, _: Unsent
    ) -> list[Job]:
        workflow_id = asked.workflow_execution.workflow_id

        def arrive() -> None:
            target = self.executions.get(workflow_id)
            failure = None if target and target.is_open else jobs.no_such_execution()
            self._deliver_cancel(workflow_id, "Parent workflow requested cancel")
            self._later(
                f"cancel resolved {execution.workflow_id} {asked.seq}",
                lambda: self._tell(
                    execution, jobs.job(resolve_request_cancel_external_workflow={"seq": asked.seq, "failure": failure})
                ),
            )

        self._later(f"cancel {workflow_id}", arrive)
        return []

    def _take_cancel_signal_workflow(self, _: Execution, asked: Any, unsent: Unsent) -> list[Job]:
        if unsent.commands["signal_external_workflow_execution"].pop(asked.seq, None) is None:
            return []
        return [jobs.job(resolve_signal_external_workflow={"seq": asked.seq, "failure": jobs.cancelled()})]

    def _send(self, execution: Execution, unsent: Unsent) -> None:
        for signal in unsent.commands["signal_external_workflow_execution"].values():
            self._send_signal(execution, signal)
        if unsent.end is not None:
            self._close(execution, *unsent.end)
            return
        if unsent.continued is not None:
            self._abandon(execution)
            execution.continue_as_new(list(unsent.continued.arguments), self.now)
            self._wake(execution)
            return
        for activity in unsent.commands["schedule_activity"].values():
            execution.activities[activity.seq] = activity
            self.activities.begin(execution, activity)
        for child in unsent.commands["start_child_workflow_execution"].values():
            self._send_child(execution, child)
        for timer in unsent.commands["start_timer"].values():
            self._start_timer(execution, timer.seq, timer.start_to_fire_timeout.ToTimedelta())

    def _start_timer(self, execution: Execution, seq: int, length: timedelta) -> None:
        def fire() -> None:
            if seq in execution.timers:
                execution.timers.discard(seq)
                self._tell(execution, jobs.job(fire_timer={"seq": seq}))

        execution.timers.add(seq)
        self._at(self.now + nanoseconds(length), f"timer {execution.workflow_id} {seq}", fire)

    def _send_child(self, execution: Execution, asked: StartChildWorkflowExecution) -> None:
        execution.open_children[asked.seq] = asked.workflow_id

        def begin() -> None:
            if not execution.is_open:
                return
            known = self.executions.get(asked.workflow_id)
            reject = asked.workflow_id_reuse_policy == WorkflowIdReusePolicy.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE
            if known is not None and (reject or known.is_open):
                del execution.open_children[asked.seq]
                self._tell(execution, jobs.child_refused(asked.seq, asked.workflow_id, asked.workflow_type))
                return
            about = {"parent": execution, "parent_seq": asked.seq, "close_policy": asked.parent_close_policy}
            child = self._new(asked.workflow_id, asked.workflow_type, list(asked.input), **about)
            execution.children[asked.seq] = child
            self._tell(execution, jobs.child_started(asked.seq, child.run_id))
            self._wake(child)
            if asked.workflow_id in self._cancelled_early:
                self._deliver_cancel(asked.workflow_id, self._cancelled_early[asked.workflow_id])

        self._later(f"start {asked.workflow_id}", begin)

    def _deliver_cancel(self, workflow_id: str, reason: str) -> None:
        execution = self.executions.get(workflow_id)
        if execution is None:  # it is not started yet
            self._cancelled_early[workflow_id] = reason
        elif execution.is_open and not execution.cancel_was_requested:
            execution.cancel_was_requested = True
            self._tell(execution, jobs.job(cancel_workflow={"reason": reason}))

    def _close(self, execution: Execution, status: Status, result: Payload | None, failure: Failure | None) -> None:
        execution.status, execution.result, execution.failure = status, result, failure
        execution.evict()
        self._abandon(execution)
        for child in execution.children.values():
            if child.is_open and child.close_policy != ParentClosePolicy.PARENT_CLOSE_POLICY_ABANDON:
                self.cancel(child.workflow_id, "parent closed")
        parent = execution.parent
        if parent is not None and parent.is_open:
            self._later(f"end {execution.workflow_id}", lambda: self._deliver_end(execution, parent))

    def _abandon(self, execution: Execution) -> None:
        for activity in execution.activities.values():
            self.activities.abandon(execution, activity)
        execution.activities.clear()
        execution.timers.clear()

    def _deliver_end(self, execution: Execution, parent: Execution) -> None:
        if parent.open_children.pop(execution.parent_seq, None) is not None:
            self._tell(
                parent,
                jobs.child_resolved(
                    execution.parent_seq,
                    execution.workflow_id,
                    execution.workflow_type,
                    result=execution.result,
                    cause=execution.failure,
                ),
            )

    def _send_signal(self, execution: Execution, asked: SignalExternalWorkflowExecution) -> None:
        target = asked.child_workflow_id or asked.workflow_execution.workflow_id

        def arrive() -> None:
            is_there = self._deliver_signal(target, asked.signal_name, asked.args)
            failure = None if is_there else jobs.no_such_execution()
            self._later(
                f"signal resolved {execution.workflow_id} {asked.seq}",
                lambda: self._tell(
                    execution, jobs.job(resolve_signal_external_workflow={"seq": asked.seq, "failure": failure})
                ),
            )

        self._later(f"signal {execution.workflow_id} {asked.seq} {asked.signal_name}", arrive)

    def _deliver_signal(self, workflow_id: str, name: str, payloads: Sequence[Payload]) -> bool:
        execution = self.executions.get(workflow_id)
        if execution is None or not execution.is_open:
            return False
        # The SDK warns about a signal without an event, but there is no history here.
        signal = {"signal_name": name, "input": payloads, "originating_event_id": 1}
        self._tell(execution, jobs.job(signal_workflow=signal))
        return True


def _end(kind: str, asked: Any) -> End:
    match kind:
        case "complete_workflow_execution":
            return "completed", asked.result, None
        case "fail_workflow_execution":
            return "failed", None, asked.failure
        case _:
            return "cancelled", None, jobs.cancelled()
