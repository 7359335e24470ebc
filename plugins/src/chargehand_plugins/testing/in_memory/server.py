"""A Temporal server in memory: a virtual clock, what is under way, and who is told what, when.

It knows nothing of Chargehand. What activities answer, and how long everything takes, is said by its backends.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import WorkflowIdReusePolicy
from temporalio.api.failure.v1 import Failure

from chargehand_plugins.testing.in_memory import jobs
from chargehand_plugins.testing.in_memory.exchange import Backends, Unsent, Update
from chargehand_plugins.testing.in_memory.executions import Execution, Status, Task, at, nanoseconds
from chargehand_plugins.testing.in_memory.sdk import (
    ActivityCancellationType,
    Job,
    ParentClosePolicy,
    ScheduleActivity,
    SignalExternalWorkflowExecution,
    StartChildWorkflowExecution,
    WorkflowCommand,
)

_WITHOUT_EFFECT: Final = {"modify_workflow_properties", "upsert_workflow_search_attributes", "set_patch_marker"}
_CLOSING: Final = {"complete_workflow_execution", "fail_workflow_execution", "cancel_workflow_execution"}


class Stuck(AssertionError):  # noqa: N818  # it is raised as a statement of fact
    """More happened than a session can need (I20)."""


@dataclass
class Server:
    """The server, and the one worker that serves it."""

    backends: Backends
    most_events: int = 6_000
    now: int = 0
    """Nanoseconds since the beginning."""
    events: int = 0
    executions: dict[str, Execution] = field(default_factory=dict[str, Execution])
    updates: dict[str, Update] = field(default_factory=dict[str, Update])
    sent_signals: list[tuple[str, str, Sequence[Payload]]] = field(
        default_factory=list[tuple[str, str, Sequence[Payload]]]
    )
    starts: list[str] = field(default_factory=list[str])
    """Ids of all workflows that were started, in order."""
    _coming: list[tuple[int, int, int, Callable[[], None]]] = field(
        default_factory=list[tuple[int, int, int, Callable[[], None]]]
    )
    _cancelled_early: dict[str, str] = field(default_factory=dict[str, str])
    _count: int = 0
    _worker_is_back_at: int = 0

    @property
    def clock(self) -> datetime:
        return at(self.now)

    @property
    def next_at(self) -> int | None:
        """When the next thing happens; None if nothing is under way."""
        return self._coming[0][0] if self._coming else None

    def start(self, workflow_id: str, workflow_type: str, argument: Payload) -> Execution:
        execution = Execution(workflow_id, workflow_type, [argument], self.now)
        self.executions[workflow_id] = execution
        self._wake(execution)
        return execution

    def signal(self, workflow_id: str, name: str, payloads: Sequence[Payload]) -> None:
        def arrive() -> None:
            self._deliver_signal(workflow_id, name, payloads)

        self._later(f"signal {workflow_id} {name}", arrive)

    def cancel(self, workflow_id: str, reason: str = "by hand") -> None:
        self._later(f"cancel {workflow_id}", lambda: self._deliver_cancel(workflow_id, reason))

    def terminate(self, workflow_id: str) -> None:
        execution = self.executions[workflow_id]
        if execution.is_open:
            self._close(execution, "terminated", failure=jobs.terminated())

    def update(self, workflow_id: str, update_id: str, name: str, payloads: Sequence[Payload]) -> Update:
        """Ask for an update; one of the same id is asked for once."""
        known = self.updates.get(update_id)
        if known is not None:
            return known
        update = self.updates[update_id] = Update(update_id)
        job = jobs.update_asked(update_id, name, payloads)
        self._later(f"update {update_id}", lambda: self._tell(self.executions[workflow_id], job))
        return update

    def query(self, workflow_id: str, name: str) -> Payload | None:
        """Ask a running workflow; None if it refused to answer."""
        execution = self.executions[workflow_id]
        answer = execution.ask(jobs.queried(name), self.now).respond_to_query
        return answer.succeeded.response if answer.HasField("succeeded") else None

    def crash(self, down_for: timedelta = timedelta(0)) -> None:
        """Lose the worker and all it knew; another is there after a while."""
        for execution in self.executions.values():
            if execution.is_open and execution.history:
                execution.rebuild()
        self._worker_is_back_at = max(self._worker_is_back_at, self.now + nanoseconds(down_for))

    def step(self) -> bool:
        """Let the next thing happen; False if nothing is under way."""
        if not self._coming:
            return False
        self.events += 1
        if self.events > self.most_events:
            raise Stuck(f"I20: {self.events} events, and {self._open()} are still open")
        when, _, _, happen = heapq.heappop(self._coming)
        self.now = max(self.now, when)
        happen()
        return True

    def run(self) -> None:
        while self.step():
            pass

    def run_until(self, moment: int) -> None:
        """Let everything happen that happens before a moment."""
        while self._coming and self._coming[0][0] <= moment:
            self.step()
        self.now = max(self.now, moment)

    def close(self) -> None:
        """Throw all instances away."""
        for execution in self.executions.values():
            if execution.is_open:
                execution.evict()

    def _open(self) -> list[str]:
        return [execution.workflow_id for execution in self.executions.values() if execution.is_open]

    def _at(self, moment: int, label: str, happen: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._coming, (moment, self.backends.tie(label), self._count, happen))

    def _later(self, label: str, happen: Callable[[], None]) -> None:
        self._at(self.now + nanoseconds(self.backends.latency(label)), label, happen)

    def _tell(self, execution: Execution, job: Job) -> None:
        if execution.is_open:
            execution.inbox.append(job)
            self._wake(execution)
        elif job.HasField("do_update"):
            update = self.updates[job.do_update.id]
            update.failure = update.failure or Failure(message="workflow execution already completed")

    def _wake(self, execution: Execution) -> None:
        if not execution.task_is_due:
            execution.task_is_due = True
            self._later(f"task {execution.workflow_id} {len(execution.history)}", lambda: self._work_on(execution))

    def _work_on(self, execution: Execution) -> None:
        if not execution.is_open:
            return
        if self.now < self._worker_is_back_at:
            label = f"task {execution.workflow_id} {len(execution.history)}"
            self._at(self._worker_is_back_at, label, lambda: self._work_on(execution))
            return
        execution.task_is_due = False
        given, execution.inbox = execution.inbox, []
        arrived = list(given)
        task = Task(self.now)
        unsent = Unsent()
        execution.history.append(task)
        while given:
            commands = execution.activate(task, given)
            given = [job for command in commands for job in self._take(execution, command, unsent)]
        self._send(execution, unsent)
        self.backends.after_task(execution, task, arrived)

    def _take(self, execution: Execution, command: WorkflowCommand, unsent: Unsent) -> list[Job]:
        """Take a command over; what the SDK's core answers by itself, it does at once."""
        kind = command.WhichOneof("variant")
        if kind in _WITHOUT_EFFECT:
            return []
        if kind in _CLOSING:
            unsent.closing = unsent.closing or command
            return []
        # Of local activities, the fields that matter here have the same names.
        name = f"_take_{(kind or '').replace('local_', '')}"
        handler: Callable[[Execution, Any, Unsent], list[Job]] | None = getattr(self, name, None)
        if kind is None or handler is None:
            raise NotImplementedError(f"the simulated server knows no command {kind}")
        return handler(execution, getattr(command, kind), unsent)

    def _take_schedule_activity(self, _: Execution, asked: ScheduleActivity, unsent: Unsent) -> list[Job]:
        unsent.activities[asked.seq] = asked
        return []

    def _take_request_cancel_activity(self, execution: Execution, asked: Any, unsent: Unsent) -> list[Job]:
        was_sent = asked.seq not in unsent.activities
        activity = execution.activities.get(asked.seq) if was_sent else unsent.activities.pop(asked.seq)
        if activity is None:
            return []
        if was_sent and activity.cancellation_type == ActivityCancellationType.WAIT_CANCELLATION_COMPLETED:
            self._later(
                f"cancelled {activity.activity_id}", lambda: self.resolve(execution, activity, None, jobs.cancelled())
            )
            return []
        if was_sent:
            del execution.activities[asked.seq]
            self.backends.abandoned(execution, activity)
        return [jobs.activity_resolved(asked.seq, activity.activity_type, activity.activity_id, cause=jobs.cancelled())]

    def _take_start_timer(self, _: Execution, asked: Any, unsent: Unsent) -> list[Job]:
        unsent.timers[asked.seq] = asked.start_to_fire_timeout.ToTimedelta()
        return []

    def _take_cancel_timer(self, execution: Execution, asked: Any, unsent: Unsent) -> list[Job]:
        unsent.timers.pop(asked.seq, None)
        execution.timers.discard(asked.seq)
        return []

    def _take_start_child_workflow_execution(
        self, _: Execution, asked: StartChildWorkflowExecution, unsent: Unsent
    ) -> list[Job]:
        unsent.children[asked.seq] = asked
        return []

    def _take_cancel_child_workflow_execution(self, execution: Execution, asked: Any, unsent: Unsent) -> list[Job]:
        unsent_child = unsent.children.pop(asked.child_workflow_seq, None)
        if unsent_child is not None:
            return [
                jobs.child_never_sent(asked.child_workflow_seq, unsent_child.workflow_id, unsent_child.workflow_type)
            ]
        workflow_id = execution.open_children.get(asked.child_workflow_seq)
        if workflow_id is not None:
            self.cancel(workflow_id, "Parent workflow requested cancel")
        return []

    def _take_request_cancel_external_workflow_execution(
        self, execution: Execution, asked: Any, _: Unsent
    ) -> list[Job]:
        workflow_id = asked.workflow_execution.workflow_id

        def arrive() -> None:
            target = self.executions.get(workflow_id)
            is_there = target is not None and target.is_open
            self._deliver_cancel(workflow_id, "Parent workflow requested cancel")
            failure = None if is_there else jobs.no_such_execution()
            self._later(
                f"cancel resolved {execution.workflow_id} {asked.seq}",
                lambda: self._tell(execution, jobs.cancel_resolved(asked.seq, failure)),
            )

        self._later(f"cancel {workflow_id}", arrive)
        return []

    def _take_signal_external_workflow_execution(
        self, _: Execution, asked: SignalExternalWorkflowExecution, unsent: Unsent
    ) -> list[Job]:
        unsent.signals[asked.seq] = asked
        return []

    def _take_cancel_signal_workflow(self, _: Execution, asked: Any, unsent: Unsent) -> list[Job]:
        if unsent.signals.pop(asked.seq, None) is None:
            return []
        return [jobs.signal_resolved(asked.seq, jobs.cancelled())]

    def _take_update_response(self, _: Execution, answer: Any, __: Unsent) -> list[Job]:
        update = self.updates[answer.protocol_instance_id]
        if answer.HasField("accepted"):
            update.accepted = True
        elif answer.HasField("completed"):
            update.result = answer.completed
        else:
            update.failure = answer.rejected
        return []

    def _send(self, execution: Execution, unsent: Unsent) -> None:
        for seq, signal in unsent.signals.items():
            self._send_signal(execution, seq, signal)
        if unsent.closing is not None:
            self._close_as(execution, unsent.closing)
            return
        for activity in unsent.activities.values():
            self._send_activity(execution, activity)
        for child in unsent.children.values():
            self._send_child(execution, child)
        for seq, length in unsent.timers.items():
            execution.timers.add(seq)
            self._start_timer(execution, seq, length)

    def _send_activity(self, execution: Execution, asked: ScheduleActivity) -> None:
        execution.activities[asked.seq] = asked
        answer = self.backends.answer(execution, asked)
        if answer is None:
            return
        label = f"activity {execution.workflow_id} {asked.activity_id}"
        if asked.HasField("schedule_to_close_timeout"):
            limit = asked.schedule_to_close_timeout.ToTimedelta()
            if answer.hangs or answer.after > limit:
                self._at(
                    self.now + nanoseconds(limit), label, lambda: self.resolve(execution, asked, None, jobs.timed_out())
                )
                return
        if answer.hangs:
            raise AssertionError(f"{label} has no time limit and would hang for ever")
        self._at(
            self.now + nanoseconds(answer.after),
            label,
            lambda: self.resolve(execution, asked, answer.result, answer.cause),
        )

    def resolve(
        self, execution: Execution, asked: ScheduleActivity, result: Payload | None, cause: Failure | None
    ) -> None:
        """Tell a workflow what an activity came to, if it still waits for it."""
        if execution.activities.pop(asked.seq, None) is not None:
            self.backends.resolved(execution, asked)
            self._tell(
                execution,
                jobs.activity_resolved(asked.seq, asked.activity_type, asked.activity_id, result=result, cause=cause),
            )

    def _start_timer(self, execution: Execution, seq: int, length: timedelta) -> None:
        def fire() -> None:
            if seq in execution.timers:
                execution.timers.discard(seq)
                self._tell(execution, jobs.timer_fired(seq))

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
            child = Execution(asked.workflow_id, asked.workflow_type, list(asked.input), self.now, execution, asked.seq)
            child.close_policy = asked.parent_close_policy
            self.starts.append(asked.workflow_id)
            self.executions[asked.workflow_id] = execution.children[asked.seq] = child
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
            self._tell(execution, jobs.cancel_requested(reason))

    def _close_as(self, execution: Execution, closing: WorkflowCommand) -> None:
        if closing.HasField("complete_workflow_execution"):
            self._close(execution, "completed", result=closing.complete_workflow_execution.result)
        elif closing.HasField("fail_workflow_execution"):
            self._close(execution, "failed", failure=closing.fail_workflow_execution.failure)
        else:
            self._close(execution, "cancelled", failure=jobs.cancelled())

    def _close(
        self, execution: Execution, status: Status, *, result: Payload | None = None, failure: Failure | None = None
    ) -> None:
        execution.status, execution.result, execution.failure = status, result, failure
        execution.closed_at = self.now
        execution.evict()
        for activity in execution.activities.values():
            self.backends.abandoned(execution, activity)
        execution.activities.clear()
        execution.timers.clear()
        for job in execution.inbox:
            self._tell(execution, job)
        for child in execution.children.values():
            self._leave_alone(child)
        parent = execution.parent
        if parent is not None and parent.is_open:
            self._later(f"end {execution.workflow_id}", lambda: self._deliver_end(execution, parent))

    def _leave_alone(self, child: Execution) -> None:
        if not child.is_open or child.close_policy == ParentClosePolicy.PARENT_CLOSE_POLICY_ABANDON:
            return
        if child.close_policy == ParentClosePolicy.PARENT_CLOSE_POLICY_REQUEST_CANCEL:
            self.cancel(child.workflow_id, "parent closed")
        else:
            self._later(f"terminate {child.workflow_id}", lambda: self.terminate(child.workflow_id))

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

    def _send_signal(self, execution: Execution, seq: int, asked: SignalExternalWorkflowExecution) -> None:
        execution.signals.add(seq)
        target = asked.child_workflow_id or asked.workflow_execution.workflow_id
        payloads = list(asked.args)

        def arrive() -> None:
            is_there = self._deliver_signal(target, asked.signal_name, payloads)
            self.sent_signals.append((target, asked.signal_name, payloads))
            failure = None if is_there else jobs.no_such_execution()
            self._later(
                f"signal resolved {execution.workflow_id} {seq}",
                lambda: self._tell(execution, jobs.signal_resolved(seq, failure)),
            )

        self._later(f"signal {execution.workflow_id} {seq} {asked.signal_name}", arrive)

    def _deliver_signal(self, workflow_id: str, name: str, payloads: Sequence[Payload]) -> bool:
        execution = self.executions.get(workflow_id)
        if execution is None or not execution.is_open:
            return False
        self._tell(execution, jobs.signalled(name, payloads))
        return True
