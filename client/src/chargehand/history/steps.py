"""Steps of a workflow under projection, and helpers for history events."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp
from pydantic import JsonValue
from pydantic_core import to_json
from temporalio.api.enums.v1 import PendingActivityState, TimeoutType
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflow.v1 import PendingActivityInfo

from chargehand.contracts import Event, FailureCause, LiveTexts, Recorded, SessionState, StateEvent, Step
from chargehand.contracts.events import StepKind, StepState
from chargehand.history.records import Decoder
from chargehand.spans import SUPERVISOR
from chargehand.wire import ActivityType, WorkflowType

_INLINE_BYTES: Final = 4_000
"""Larger tool arguments and results are replaced by a reference."""

_END_STATES: Final[dict[str, StepState]] = {
    "completed": "completed",
    "failed": "failed",
    "timed_out": "timed_out",
    "canceled": "cancelled",
    "terminated": "terminated",
}
"""State after an event, by the suffix of the event's name."""
_KINDS: Final[dict[str, StepKind]] = {
    WorkflowType.SUPERVISOR: "session",
    WorkflowType.CONVERSATION: "session",
    WorkflowType.SUBTASK: "subtask",
    ActivityType.TAKE_TURN: "turn",
    ActivityType.USE_TOOL: "tool",
}


class Draft(Step):
    """A step under projection."""

    model_config = Step.model_config | {"frozen": False}

    written: str = ""
    """Text written in a turn so far, if followed."""
    problem: str = ""
    """Why a turn's reply or a tool's answer was unusable, such as `refused`; empty if it was usable."""

    @classmethod
    def of(cls, session_id: str) -> "Draft":
        """Create the step of a root session."""
        return cls(id=session_id, kind="other", name=session_id, agent=SUPERVISOR)

    @classmethod
    def below(cls, parent: str, workflow_id: str, type_name: str, name: str = "") -> "Draft":
        """Create the step of a child, whose id is `<session>/<run>/<agent>/<fingerprint>`; other ids name no agent."""
        parts = workflow_id.split("/")
        return cls(
            id=workflow_id,
            parent=parent,
            kind=kind_of(type_name),
            name=name,
            agent=parts[-2] if len(parts) > 3 else SUPERVISOR,
            task_hash=parts[-1].partition("-")[0],
        )

    def unread(self) -> "Draft":
        """Create a fresh step, for projecting its own history."""
        return self.replace(started_at=None, ended_at=None, state="running")

    @property
    def activity_id(self) -> str:
        """Of a turn or a tool call: its activity id."""
        return self.id.rpartition("#")[2]

    def end(self, state: StepState, at: datetime, attributes: Any) -> None:
        self.state, self.ended_at, self.error = state, at, error_in(attributes)

    def describe_pending(self, now: PendingActivityInfo) -> None:
        """Describe a pending activity whose start is not yet in the history."""
        if now.state != PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED:
            self.started_at = time_of(now.last_started_time)
            self.worker = now.last_worker_identity
        self.attempts = max(1, now.attempt)
        if now.HasField("last_failure"):
            self.error = error_of(now.last_failure)

    def step(self) -> Step:
        return Step(**{name: getattr(self, name) for name in Step.model_fields})


@dataclass(frozen=True)
class Written:
    """The current text of a report or a reply; followers yield its new part."""

    at: datetime
    text: str
    subtask: str = ""
    """The subtask that writes a reply; empty for the report."""
    turn: Draft | None = None
    """The agent's turn that is answering; None for a report or a reply."""


@dataclass
class Scope:
    """The workflow under projection, and its own steps."""

    decoder: Decoder
    session: str
    """Id of the session at the root."""
    draft: Draft
    """The step of the workflow itself."""
    subtask: str = ""
    """Path of its subtask; empty for the root session."""
    has_contents: bool = False
    """Whether steps include tool arguments and results, which may have to be fetched from storage."""
    live_text: LiveTexts = "report"
    """Whose text is read while it is written."""
    first_run: str = field(default="", init=False)
    run: str = field(default="", init=False)
    """Id of the current run."""
    state: SessionState | None = field(default=None, init=False)
    failure: FailureCause | None = field(default=None, init=False)
    steps: list[Draft] = field(default_factory=list[Draft], init=False)

    def about(self, at: datetime, subtask: str = "") -> dict[str, Any]:
        """Return the common fields of an event about a subtask of this workflow's plan."""
        path = "/".join(part for part in (self.subtask, subtask) if part)
        return {"session": self.session, "subtask": path, "at": at}

    @property
    def calls(self) -> list[Draft]:
        """Its turns and tool calls, and other work that is being retried, such as that which opens a session."""
        return [
            step
            for step in self.steps
            if step.kind in ("turn", "tool") or (step.kind == "other" and step.state == "running" and step.error)
        ]

    def add(self, id_: str, kind: StepKind, name: str) -> Draft:
        self.steps.append(
            Draft(id=f"{self.draft.id}#{id_}", parent=self.draft.id, kind=kind, name=name, agent=self.draft.agent)
        )
        return self.steps[-1]

    def keep(self, value: JsonValue, event: HistoryEvent) -> Recorded | None:
        """Record a value, or a reference if it is large; None if it could not be decoded."""
        if value is None or not self.has_contents:
            return None
        size = len(to_json(value, inf_nan_mode="null"))
        if size <= _INLINE_BYTES:
            return Recorded(bytes=size, value=value)
        return Recorded(bytes=size, reference=f"{self.draft.id}/{self.run}#{event.event_id}")

    def enter(self, state: SessionState, at: datetime) -> list[Event]:
        if state == self.state:
            return []
        self.state = state
        return [StateEvent(state=state, **self.about(at))]


def kind_of(type_name: str) -> StepKind:
    """Return the kind of step for a workflow or activity type."""
    return _KINDS.get(type_name, "other")


def end_state(kind: str, prefix: str) -> StepState | None:
    """Return the state after an event of this kind; None if it does not end the step."""
    return _END_STATES.get(kind.removeprefix(f"{prefix}_"))


def error_in(attributes: Any) -> str:
    """Return the type of an event's failure, if any."""
    failure = getattr(attributes, "failure", None)
    return error_of(failure) if isinstance(failure, Failure) else ""


def error_of(failure: Failure) -> str:
    """Return a failure's type; its message may contain user text and is omitted."""
    innermost = failure
    while innermost.HasField("cause") and not innermost.HasField("application_failure_info"):
        innermost = innermost.cause
    if innermost.HasField("timeout_failure_info"):
        name = TimeoutType.Name(innermost.timeout_failure_info.timeout_type)
        return "".join(word.capitalize() for word in name.removeprefix("TIMEOUT_TYPE_").split("_")) + "Timeout"
    return innermost.application_failure_info.type


def time_of(stamp: Timestamp) -> datetime | None:
    """Convert a timestamp; None if it is not set."""
    return stamp.ToDatetime(UTC) if stamp.seconds else None
