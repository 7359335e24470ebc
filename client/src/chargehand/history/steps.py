"""Steps of a workflow while its history is read, and what the events of histories have in common."""

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
"""Larger arguments and results of tools are referred to."""

_END_STATES: Final[dict[str, StepState]] = {
    "completed": "completed",
    "failed": "failed",
    "timed_out": "timed_out",
    "canceled": "cancelled",
    "terminated": "terminated",
}
"""State after an event, by the end of the event's name."""
_KINDS: Final[dict[str, StepKind]] = {
    WorkflowType.SUPERVISOR: "session",
    WorkflowType.CONVERSATION: "session",
    WorkflowType.SUBTASK: "subtask",
    ActivityType.TAKE_TURN: "turn",
    ActivityType.USE_TOOL: "tool",
}


class Draft(Step):
    """A step as far as its history is read."""

    model_config = Step.model_config | {"frozen": False}

    written: str = ""
    """What an agent has written in a turn so far, where that is followed."""
    problem: str = ""
    """Why the reply of a turn, or the answer of a tool, was of no use, such as `refused`; empty if it was."""

    @classmethod
    def of(cls, session_id: str) -> "Draft":
        """Begin with a session at the root."""
        return cls(id=session_id, kind="other", name=session_id, agent=SUPERVISOR)

    @classmethod
    def below(cls, parent: str, workflow_id: str, type_name: str, name: str = "") -> "Draft":
        """Begin with a child, whose id is `<session>/<run>/<agent>/<fingerprint>`; that of others names no agent."""
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
        """Begin again, to read its own history."""
        return self.replace(started_at=None, ended_at=None, state="running")

    @property
    def activity_id(self) -> str:
        """Of a turn or a tool call: its name within its workflow."""
        return self.id.rpartition("#")[2]

    def end(self, state: StepState, at: datetime, attributes: Any) -> None:
        self.state, self.ended_at, self.error = state, at, error_in(attributes)

    def describe_pending(self, now: PendingActivityInfo) -> None:
        """Note how an activity does whose start is not yet in the history."""
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
    """The text of a report, or of a reply, as it is from now on, of which a follower gives what is new."""

    at: datetime
    text: str
    subtask: str = ""
    """That writes a reply; empty for the report."""
    turn: Draft | None = None
    """That answers for an agent; None for a report or a reply."""


@dataclass
class Scope:
    """The workflow whose history is read, and its own steps."""

    decoder: Decoder
    session: str
    """Id of the session at the root."""
    draft: Draft
    """The workflow itself, as a step."""
    subtask: str = ""
    """Path of the subtask that it does; empty for the session at the root."""
    has_contents: bool = False
    """Whether steps get arguments and results of tools, which may have to be fetched from storage."""
    live_text: LiveTexts = "report"
    """Whose text is read while it is written."""
    first_run: str = field(default="", init=False)
    run: str = field(default="", init=False)
    """Id of the run that is read."""
    state: SessionState | None = field(default=None, init=False)
    failure: FailureCause | None = field(default=None, init=False)
    steps: list[Draft] = field(default_factory=list[Draft], init=False)

    def about(self, at: datetime, subtask: str = "") -> dict[str, Any]:
        """Return what all events have, of one about a subtask that is planned here."""
        path = "/".join(part for part in (self.subtask, subtask) if part)
        return {"session": self.session, "subtask": path, "at": at}

    @property
    def calls(self) -> list[Draft]:
        """Its turns and tool calls."""
        return [step for step in self.steps if step.kind in ("turn", "tool")]

    def add(self, id_: str, kind: StepKind, name: str) -> Draft:
        self.steps.append(
            Draft(id=f"{self.draft.id}#{id_}", parent=self.draft.id, kind=kind, name=name, agent=self.draft.agent)
        )
        return self.steps[-1]

    def keep(self, value: JsonValue, event: HistoryEvent) -> Recorded | None:
        """Keep a value, or say where it stands if it is large; None if it could not be read."""
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
    """Tell the kind of step from the type of its workflow or activity."""
    return _KINDS.get(type_name, "other")


def end_state(kind: str, prefix: str) -> StepState | None:
    """Return the state after an event of this kind; None if it ends nothing."""
    return _END_STATES.get(kind.removeprefix(f"{prefix}_"))


def error_in(attributes: Any) -> str:
    """Name the failure that an event carries, if any."""
    failure = getattr(attributes, "failure", None)
    return error_of(failure) if isinstance(failure, Failure) else ""


def error_of(failure: Failure) -> str:
    """Name a failure by its type; its message may contain user text, and is left out."""
    innermost = failure
    while innermost.HasField("cause") and not innermost.HasField("application_failure_info"):
        innermost = innermost.cause
    if innermost.HasField("timeout_failure_info"):
        name = TimeoutType.Name(innermost.timeout_failure_info.timeout_type)
        return "".join(word.capitalize() for word in name.removeprefix("TIMEOUT_TYPE_").split("_")) + "Timeout"
    return innermost.application_failure_info.type


def time_of(stamp: Timestamp) -> datetime | None:
    """Read a time; None if it is not set."""
    return stamp.ToDatetime(UTC) if stamp.seconds else None
