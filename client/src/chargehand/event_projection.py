"""Projects the history of one workflow of a session to the events that `Session.follow()` gives.

A projection reads a history from its beginning, always to the same events, so that a follower that goes on in the
middle knows what it would know had it read everything.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, Literal, TypeVar, cast

from pydantic import JsonValue
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from chargehand.contracts import (
    CallEvent,
    Contract,
    EndEvent,
    Event,
    PendingCall,
    PlanEvent,
    PlannedSubtask,
    Question,
    QuestionEvent,
    SessionState,
    SpendEvent,
    SpendLine,
    StateEvent,
    StopReason,
    SubtaskEvent,
    SubtaskRecord,
    ToolEvent,
    TurnEvent,
    Usage,
)
from chargehand.contracts.calls import call_title
from chargehand.history import end_state, error_of, time_of
from chargehand.wire import ActivityType, SignalName, WorkflowType

_Payload = TypeVar("_Payload")
_FOLLOWED: Final = frozenset({WorkflowType.SUBTASK, WorkflowType.SUPERVISOR})
_NEVER: Final = datetime.min.replace(tzinfo=UTC)
_WRITING: Final = "synthesis"
"""The purpose of the turn that writes the whole report."""
_REPORTING: Final = frozenset({_WRITING, "section", "summary", "outline", "critique", "compress", "grade", "output"})
"""Purposes of turns that a supervisor takes once its plan is carried out."""


class _Answer(Contract):
    answer: str = ""


class _ToolCall(Contract):
    """The part of a tool's call that is read."""

    tool: str
    arguments: dict[str, JsonValue] = {}


class _Tool(Contract):
    """The part of a tool's result that is read."""

    ok: bool = True


class _Used(Contract):
    """The part of a call that is read which was made before its turn ended."""

    position: int
    result: _Tool


class _Turn(Contract):
    """The part of a turn's result that is read."""

    model: str = ""
    usage: Usage = Usage()
    stop: str = ""
    answer: JsonValue = None
    tool_calls: tuple[_ToolCall, ...] = ()
    used: tuple[_Used, ...] = ()


class _Ended(Contract):
    """The part of an outcome that is read."""

    kind: Literal["success", "partial", "failure", "escalation"]
    reason: str = ""
    confidence: int = 0
    spend: tuple[SpendLine, ...] = ()


class _Subtask(Contract):
    """The part of a subtask's result that is read."""

    outcome: _Ended


class _Session(Contract):
    """The part of a report that is read."""

    answer: str = ""
    stop_reason: StopReason
    confidence: int = 0
    usage: Usage = Usage()
    subtasks: tuple[SubtaskRecord, ...] = ()


class _Call(Contract):
    """A call in the memo."""

    id: str
    hash: str
    workflow_id: str
    open_until: datetime
    number: int


class _Requested(Contract):
    """The part of a request to decide about a call that is read."""

    child: str
    number: int
    subtask: str
    agent: str
    tool: str
    arguments: dict[str, JsonValue]
    is_doubtful: bool = False


@dataclass(frozen=True)
class Child:
    """A workflow that another one has started."""

    workflow_id: str
    run_id: str
    subtask: str
    """Its path."""
    number: int
    """Id of the event that initiated it."""


@dataclass(frozen=True)
class Written:
    """The report's text as it is from now on, of which a follower gives what is new."""

    at: datetime
    text: str


@dataclass
class Step:
    """What one event of a history comes to."""

    outputs: Sequence[Event | Written] = ()
    started: Child | None = None
    ended: int | None = None
    """The number of the child that has ended."""
    continued_as: str = ""
    """The run in which the workflow goes on."""


@dataclass
class _Attempt:
    """A child as its parent's history describes it."""

    workflow_id: str
    id: str
    agent: str
    title: str
    number: int


@dataclass
class _Activity:
    kind: str
    name: str
    agent: str
    title: str
    attempts: int = 1


@dataclass
class Projection:
    """The events of one workflow; `subtask` is its path, empty for the session that is followed."""

    client: Client
    session: str
    subtask: str = ""
    writing: set[str] = field(default_factory=set[str])
    """Turns under way that write the report."""
    _activities: dict[int, _Activity] = field(default_factory=dict[int, _Activity], init=False)
    _children: dict[int, _Attempt] = field(default_factory=dict[int, _Attempt], init=False)
    _attempts: dict[str, int] = field(default_factory=dict[str, int], init=False)
    """By subtask."""
    _plan: tuple[PlannedSubtask, ...] = field(default=(), init=False)
    _state: SessionState | None = field(default=None, init=False)
    _questions: dict[str, Question] = field(default_factory=dict[str, Question], init=False)
    _calls: dict[str, PendingCall] = field(default_factory=dict[str, PendingCall], init=False)
    _requests: dict[tuple[str, int], _Requested] = field(default_factory=dict[tuple[str, int], _Requested], init=False)

    async def read(self, event: HistoryEvent) -> Step:
        """Project the next event of the history."""
        kind = (event.WhichOneof("attributes") or "").removesuffix("_event_attributes")
        attributes: Any = getattr(event, f"{kind}_event_attributes", None)
        at = time_of(event.event_time) or _NEVER
        if kind.startswith("activity_task"):
            return Step(await self._activity(event, kind, attributes, at))
        if "child_workflow" in kind:
            if attributes.workflow_type.name not in _FOLLOWED:
                return Step()
            return await self._child(event, kind, attributes, at)
        step = Step()
        match kind:
            case "workflow_properties_modified":
                step = Step(await self._memo(attributes.upserted_memo.fields, at))
            case "workflow_execution_signaled" if attributes.signal_name == SignalName.REQUEST_CALL:
                requested = await self._decode(attributes.input.payloads, _Requested)
                if requested is not None:
                    self._requests[requested.child, requested.number] = requested
            case "workflow_execution_started":
                self._activities.clear()
                self._children.clear()
                is_session = attributes.workflow_type.name == WorkflowType.SUPERVISOR
                step = Step(self._enter("planning", at) if is_session and self._state is None else ())
            case "workflow_execution_continued_as_new":
                step.continued_as = attributes.new_execution_run_id
            case _ if (state := end_state(kind, "workflow_execution")) and not self.subtask:
                step = Step(await self._end(state, attributes, at))
            case _:
                pass
        return step

    def _about(self, at: datetime, subtask: str = "") -> dict[str, Any]:
        path = "/".join(part for part in (self.subtask, subtask) if part)
        return {"session": self.session, "subtask": path, "at": at}

    def _enter(self, state: SessionState, at: datetime) -> list[Event]:
        if state == self._state:
            return []
        self._state = state
        return [StateEvent(state=state, **self._about(at))]

    async def _activity(self, event: HistoryEvent, kind: str, attributes: Any, at: datetime) -> list[Event | Written]:
        if kind == "activity_task_scheduled":
            return await self._scheduled(event, attributes, at)
        found = self._activities.get(attributes.scheduled_event_id)
        if found is None:
            return []
        if kind == "activity_task_started":
            found.attempts = attributes.attempt
        state = end_state(kind, "activity_task")
        if not state or state in {"running", "terminated"}:
            return []
        del self._activities[attributes.scheduled_event_id]
        ended: dict[str, Any] = {**self._about(at), "state": state, "attempts": found.attempts}
        if isinstance(failure := getattr(attributes, "failure", None), Failure):
            ended["error"] = error_of(failure)
        payloads = attributes.result.payloads if state == "completed" else ()
        if found.kind == ActivityType.USE_TOOL:
            used = await self._decode(payloads, _Tool) or _Tool()
            return [ToolEvent(call=found.name, tool=found.agent, title=found.title, ok=used.ok, **ended)]
        self.writing.discard(found.name)
        turn = await self._decode(payloads, _Turn)
        asked = {"agent": found.agent, "purpose": found.title}
        given: list[Event | Written] = [TurnEvent(turn=found.name, model=turn.model if turn else "", **asked, **ended)]
        if turn is not None:
            given.append(SpendEvent(model=turn.model, usage=turn.usage, **asked, **self._about(at)))
            given += self._used(found.name, turn, at)
            if found.title == _WRITING and not self.subtask and turn.stop == "answer":
                given.append(Written(at, _Answer.model_validate(turn.answer or {}).answer))
        return given

    def _used(self, name: str, turn: _Turn, at: datetime) -> list[Event]:
        """Tell of the tools that were used before a turn ended."""
        given: list[Event] = []
        for used in turn.used:
            call = turn.tool_calls[used.position]
            about: dict[str, Any] = {
                "call": f"{name}/{used.position + 1}.{call.tool}",
                "tool": call.tool,
                "title": call_title(call.tool, call.arguments),
            } | self._about(at)
            given += [ToolEvent(state="started", **about), ToolEvent(state="completed", ok=used.result.ok, **about)]
        return given

    async def _scheduled(self, event: HistoryEvent, attributes: Any, at: datetime) -> list[Event | Written]:
        kind, name = attributes.activity_type.name, attributes.activity_id
        summary = await self._summary(event)
        if kind == ActivityType.USE_TOOL:
            tool = name.split(".", 2)[-1].removeprefix("again.")
            self._activities[event.event_id] = _Activity(kind, name, tool, summary)
            return [ToolEvent(call=name, tool=tool, title=summary, state="started", **self._about(at))]
        if kind != ActivityType.TAKE_TURN:
            return []
        agent, _, purpose = summary.partition(": ")
        self._activities[event.event_id] = _Activity(kind, name, agent, purpose)
        turn = TurnEvent(turn=name, agent=agent, purpose=purpose, state="started", **self._about(at))
        if purpose == _WRITING and not self.subtask:
            self.writing.add(name)
        is_over = agent == "supervisor" and purpose in _REPORTING and self._state == "executing"
        return [*(self._enter("synthesising", at) if is_over and not self._children else ()), turn]

    async def _child(self, event: HistoryEvent, kind: str, attributes: Any, at: datetime) -> Step:
        if kind == "start_child_workflow_execution_initiated":
            who, _, title = (await self._summary(event)).partition(": ")
            id_, _, agent = who.partition(" ")
            self._attempts[id_] = self._attempts.get(id_, 0) + 1
            self._children[event.event_id] = _Attempt(attributes.workflow_id, id_, agent, title, self._attempts[id_])
            return Step()
        number = getattr(attributes, "initiated_event_id", 0)
        found = self._children.get(number)
        if found is None:
            return Step()
        about: dict[str, Any] = {
            **self._about(at, found.id),
            "agent": found.agent,
            "title": found.title,
            "attempt": found.number,
            "workflow_id": found.workflow_id,
        }
        if kind == "child_workflow_execution_started":
            child = Child(found.workflow_id, attributes.workflow_execution.run_id, about["subtask"], number)
            return Step([SubtaskEvent(state="running", **about)], started=child)
        state = end_state(kind, "child_workflow_execution")
        if kind == "start_child_workflow_execution_failed":
            del self._children[number]
            return Step([SubtaskEvent(state="failure", reason="duplicate", **about)])
        if not state or state == "running":
            return Step()
        del self._children[number]
        if state == "completed":
            about |= await self._outcome(attributes.result.payloads)
        else:
            about["state"] = "failure" if state == "failed" else state
        return Step([SubtaskEvent(**about)], ended=number)

    async def _outcome(self, payloads: Sequence[Payload]) -> dict[str, Any]:
        """Read how a subtask ended; a nested session succeeded if it has come to its end."""
        if (subtask := await self._decode(payloads, _Subtask)) is not None:
            ended = subtask.outcome
            spent = _total(ended.spend)
            return {"state": ended.kind, "reason": ended.reason, "confidence": ended.confidence, "usage": spent}
        if (session := await self._decode(payloads, _Session)) is not None:
            is_whole = session.stop_reason == "completed"
            reason = "" if is_whole else session.stop_reason
            state = "success" if is_whole else "partial"
            return {"state": state, "reason": reason, "confidence": session.confidence, "usage": session.usage}
        return {"state": "success"}

    async def _memo(self, fields: Mapping[str, Payload], at: datetime) -> list[Event | Written]:
        given: list[Event | Written] = []
        if (plan := await self._field(fields, "plan", tuple[PlannedSubtask, ...])) is not None and plan != self._plan:
            self._plan = plan
            given.append(PlanEvent(subtasks=plan, **self._about(at)))
        if (state := await self._field(fields, "state", SessionState)) is not None:
            given += self._enter(state, at)
        if (questions := await self._field(fields, "questions", list[Question])) is not None:
            given += self._ask({question.subtask: question for question in questions}, at)
        if (calls := await self._field(fields, "calls", list[_Call])) is not None:
            given += self._hold({call.id: call for call in calls}, at)
        return given

    def _ask(self, questions: Mapping[str, Question], at: datetime) -> list[Event]:
        before, self._questions = self._questions, dict(questions)
        closed = [question for id_, question in before.items() if questions.get(id_) != question]
        opened = [question for id_, question in questions.items() if before.get(id_) != question]
        return [
            QuestionEvent(question=question, is_open=is_open, **self._about(at, question.subtask))
            for is_open, those in ((False, closed), (True, opened))
            for question in those
        ]

    def _hold(self, calls: Mapping[str, _Call], at: datetime) -> list[Event]:
        closed = [self._calls.pop(id_) for id_ in [*self._calls] if id_ not in calls]
        opened: list[PendingCall] = []
        for id_, call in calls.items():
            asked = self._requests.pop((call.workflow_id, call.number), None)
            if id_ not in self._calls and asked is not None:
                self._calls[id_] = PendingCall(**{**call.model_dump(), **asked.model_dump()})
                opened.append(self._calls[id_])
        return [
            CallEvent(call=call, is_open=is_open, **self._about(at, call.subtask))
            for is_open, those in ((False, closed), (True, opened))
            for call in those
        ]

    async def _end(self, state: str, attributes: Any, at: datetime) -> list[Event | Written]:
        if state != "completed":
            failure = getattr(attributes, "failure", None)
            error = error_of(failure) if isinstance(failure, Failure) else ""
            entered: SessionState = "cancelled" if state == "cancelled" else "failed"
            return [*self._enter(entered, at), EndEvent(state=cast("Any", state), error=error, **self._about(at))]
        report = await self._decode(attributes.result.payloads, _Session)
        given: list[Event | Written] = []
        if report is not None:
            given += [
                SubtaskEvent(state="skipped", reason=str(each.reason), agent=each.agent, **self._about(at, each.id))
                for each in report.subtasks
                if each.id not in self._attempts
            ]
            given.append(Written(at, report.answer))
        given += self._enter("finished", at)
        reason = report.stop_reason if report else None
        return [*given, EndEvent(state="completed", stop_reason=reason, **self._about(at))]

    async def _field(self, fields: Mapping[str, Payload], name: str, kind: Any) -> Any:
        payload = fields.get(name)
        return None if payload is None else await self._decode([payload], kind)

    async def _decode(self, payloads: Sequence[Payload], kind: type[_Payload]) -> _Payload | None:
        """Decode what is stored of a message; None if it is missing or unreadable: the event then says less."""
        if not payloads:
            return None
        try:
            return cast("_Payload", (await self.client.data_converter.decode(list(payloads[:1]), [kind]))[0])
        except Exception:  # noqa: BLE001  # whatever is wrong with it
            return None

    async def _summary(self, event: HistoryEvent) -> str:
        if not event.user_metadata.HasField("summary"):
            return ""
        return await self._decode([event.user_metadata.summary], str) or ""


def _total(spend: Sequence[SpendLine]) -> Usage:
    return sum((line.usage for line in spend), Usage(cost_usd=Decimal(0)))
