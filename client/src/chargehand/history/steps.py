"""Steps of a workflow under projection, among them its activities, and helpers for history events."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp
from pydantic import JsonValue
from pydantic_core import to_json
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import PendingActivityState, TimeoutType
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflow.v1 import PendingActivityInfo

from chargehand.contracts import (
    Event,
    FailureCause,
    LiveTexts,
    Recorded,
    SessionState,
    SpendEvent,
    StateEvent,
    Step,
    ToolEvent,
    TurnEvent,
    Usage,
)
from chargehand.contracts.events import StepKind, StepState
from chargehand.contracts.waits import call_title
from chargehand.history.records import Decoder, ReportText, ToolRequest, ToolResult, Turn
from chargehand.spans import SUPERVISOR
from chargehand.wire import ActivityType, ErrorType, WorkflowType

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
        """The activity id of a turn or a tool call."""
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
    """Which texts are read while they are being written."""
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
        """Its turns and tool calls, and other work that is being retried, such as the opening of a session."""
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


Outputs = list[Event | Written]

_WRITING: Final = "synthesis"
"""The purpose of the turn that writes the whole report."""
_REPLYING: Final = "converse"
"""The purpose of turns that reply to a message of a conversation."""
_REPORTING: Final = frozenset({_WRITING, "section", "summary", "outline", "critique", "compress", "grade", "output"})
"""Purposes of a supervisor's turns after its plan has been carried out."""
_USABLE: Final = frozenset({"", "answer", "tools"})
"""Stop reasons of replies that an agent can use."""
_UNCHARGED: Final = frozenset({ErrorType.CONVERSATION_MISSING, ErrorType.RESERVE_TOO_SMALL})
"""Errors of turns that did not reach their model."""


@dataclass
class Activities:
    scope: Scope
    paid: Usage = field(default_factory=Usage, init=False)
    """The cost of its turns so far."""
    writing: dict[str, Draft] = field(default_factory=dict[str, Draft], init=False)
    """Running turns whose text can be followed, by activity."""
    _open: dict[int, Draft] = field(default_factory=dict[int, Draft], init=False)
    """Running activities, by the event that scheduled them."""
    _turns: set[str] = field(default_factory=set[str], init=False)
    """Turns already counted."""

    def begin_run(self) -> None:
        """Forget the activities of the previous run, since event ids restart."""
        self._open.clear()

    def stop(self, at: datetime) -> Outputs:
        """End all running activities with the workflow."""
        outputs: Outputs = []
        for draft in self._open.values():
            draft.state, draft.ended_at = "cancelled", at
            if draft.kind == "tool":
                outputs.append(self._tool_event(draft, draft.state, at))
            elif draft.kind == "turn":
                outputs.append(self._turn_event(draft, draft.state, at))
        self._open.clear()
        self.writing.clear()
        return outputs

    async def read(self, event: HistoryEvent, kind: str, attributes: Any, at: datetime, *, is_idle: bool) -> Outputs:
        """Project an activity event; `is_idle` means that no child is running."""
        if kind == "activity_task_scheduled":
            return await self._schedule(event, attributes, at, is_idle=is_idle)
        draft = self._open.get(attributes.scheduled_event_id)
        if draft is None:
            return []
        if kind == "activity_task_started":
            draft.started_at, draft.attempts, draft.worker = at, attributes.attempt, attributes.identity
        state = end_state(kind, "activity_task")
        if state is None:
            return []
        del self._open[attributes.scheduled_event_id]
        draft.end(state, at, attributes)
        payloads = attributes.result.payloads if state == "completed" else ()
        match draft.kind:
            case "tool":
                return await self._end_tool(draft, event, payloads, at)
            case "turn":
                return await self._end_turn(draft, event, payloads, at)
            case _:
                return []

    async def _schedule(self, event: HistoryEvent, attributes: Any, at: datetime, *, is_idle: bool) -> Outputs:
        type_name = attributes.activity_type.name
        name = await self.scope.decoder.summary(event) or type_name
        draft = self._open[event.event_id] = self.scope.add(attributes.activity_id, kind_of(type_name), name)
        draft.scheduled_at = at
        if draft.kind == "tool":
            draft.tool = name.partition(": ")[0]
            if self.scope.has_contents:
                request = await self.scope.decoder.read(attributes.input.payloads, ToolRequest)
                draft.arguments = self.scope.keep(request.call.arguments if request else None, event)
            return [self._tool_event(draft, "started", at)]
        if draft.kind != "turn":
            return []
        agent, _, draft.purpose = name.partition(": ")
        if is_text_for_all(draft, self.scope) or self.scope.live_text == "agents":
            self.writing[draft.activity_id] = draft
        is_over = agent == SUPERVISOR and draft.purpose in _REPORTING and self.scope.state == "executing"
        entered = self.scope.enter("synthesising", at) if is_over and is_idle else []
        return [*entered, self._turn_event(draft, "started", at)]

    def _turn_event(self, draft: Draft, state: Any, at: datetime) -> TurnEvent:
        about = {**_attempt(draft), "agent": agent_of(draft), "purpose": draft.purpose, "model": draft.model}
        return TurnEvent(turn=draft.activity_id, state=state, **about, **self.scope.about(at))

    def _tool_event(self, draft: Draft, state: Any, at: datetime, *, ok: bool = True) -> ToolEvent:
        about = {**_attempt(draft), "tool": draft.tool, "title": draft.name, "ok": ok}
        return ToolEvent(call=draft.activity_id, state=state, **about, **self.scope.about(at))

    async def _end_tool(self, draft: Draft, event: HistoryEvent, payloads: Sequence[Payload], at: datetime) -> Outputs:
        result = await self.scope.decoder.read(payloads, ToolResult)
        if draft.state == "completed":
            draft.usage, draft.problem = Usage(tool_calls=1), _problem(result)
            draft.result = self.scope.keep(result.whole if result else None, event)
        return [self._tool_event(draft, draft.state, at, ok=result is None or result.ok)]

    async def _end_turn(self, draft: Draft, event: HistoryEvent, payloads: Sequence[Payload], at: datetime) -> Outputs:
        is_read = self.writing.pop(draft.activity_id, None) is not None
        turn = await self.scope.decoder.read(payloads, Turn) or Turn()
        draft.model, draft.usage = turn.model, self._count(draft, turn.usage)
        draft.problem = "" if turn.stop in _USABLE else turn.stop
        outputs: Outputs = [self._turn_event(draft, draft.state, at)]
        if draft.usage != Usage():
            self.paid += draft.usage
            about = {"agent": agent_of(draft), "purpose": draft.purpose, "model": turn.model, "usage": draft.usage}
            outputs.append(SpendEvent(**about, **self.scope.about(at)))
        if turn.model:
            draft.name = f"{draft.name} ({turn.model})"
        outputs += self._add_used(draft, turn, event, at)
        if is_read and turn.stop == "answer":
            text = ReportText.model_validate(turn.answer or {})
            of_agent = None if is_text_for_all(draft, self.scope) else draft
            outputs.append(Written(at, text.answer or text.content, self.scope.subtask, of_agent))
        return outputs

    def _count(self, draft: Draft, usage: Usage) -> Usage:
        """Count a turn once, however often its call is repeated, and only if it reached its model."""
        name = draft.activity_id.partition(".")[0]
        is_counted = name not in self._turns and draft.error not in _UNCHARGED
        if is_counted:
            self._turns.add(name)
        return usage.replace(turns=int(is_counted))

    def _add_used(self, turn_step: Draft, turn: Turn, event: HistoryEvent, at: datetime) -> Outputs:
        """Add the tools that were used within a turn."""
        outputs: Outputs = []
        for used in turn.used:
            call = turn.tool_calls[used.position]
            id_ = f"{turn_step.activity_id}/{used.position + 1}.{call.tool}"
            draft = self.scope.add(id_, "tool", call_title(call.tool, call.arguments))
            draft.tool, draft.state, draft.worker = call.tool, "completed", turn_step.worker
            draft.started_at, draft.ended_at, draft.usage = used.began_at, used.ended_at, Usage(tool_calls=1)
            draft.problem = _problem(used.result)
            draft.arguments = self.scope.keep(call.arguments, event)
            draft.result = self.scope.keep(used.result.whole, event)
            ended = self._tool_event(draft, "completed", at, ok=used.result.ok)
            outputs += [self._tool_event(draft, "started", at), ended]
        return outputs


def is_text_for_all(turn: Draft, scope: Scope) -> bool:
    """Whether a turn writes the session's report or a reply of a conversation."""
    return turn.purpose == _REPLYING or (turn.purpose == _WRITING and not scope.subtask)


def agent_of(turn: Draft) -> str:
    """Return the agent of a turn, including a turn that the session itself took with an agent of its crew."""
    return turn.name.partition(": ")[0]


def _problem(result: ToolResult | None) -> str:
    return "" if result is None or result.ok else "failed"


def _attempt(draft: Draft) -> dict[str, Any]:
    return {"attempts": draft.attempts, "error": draft.error}
