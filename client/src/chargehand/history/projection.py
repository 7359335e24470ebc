"""Projects the history of one workflow of a session to typed events and steps, as a pure function.

A projection reads a history from its beginning and always yields the same events. A follower that resumes in the middle
therefore has the same state as one that has read everything.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from temporalio.api.common.v1 import Payload
from temporalio.api.history.v1 import HistoryEvent
from temporalio.converter import decode_typed_search_attributes

from chargehand.contracts import (
    CallEvent,
    DecisionRecord,
    EndEvent,
    Event,
    FailureCause,
    PendingCall,
    PlanEvent,
    PlannedSubtask,
    Question,
    QuestionEvent,
    Route,
    SessionState,
    SpendEvent,
    SubtaskEvent,
    TurnEvent,
    Usage,
    UserMessage,
)
from chargehand.contracts.events import StepState
from chargehand.history.records import (
    RUNNING,
    Asked,
    CallReply,
    CallRequest,
    Ending,
    Envelope,
    OpenCall,
    SessionResult,
    SubtaskResult,
    Told,
    ToldBefore,
)
from chargehand.history.steps import Activities, Draft, Scope, Written, end_state, kind_of, time_of
from chargehand.messages import Messages
from chargehand.search_attributes import DOLLARS, TURNS
from chargehand.wire import SignalName

_NEVER: Final = datetime.min.replace(tzinfo=UTC)
_RESULTS: Final[Mapping[str, type[SubtaskResult | SessionResult]]] = {
    "session": SessionResult,
    "subtask": SubtaskResult,
}


@dataclass
class Child:
    """A child workflow as described by its parent's history."""

    draft: Draft
    number: int
    """Id of the event that initiated it."""
    subtask: str
    """Path of its subtask."""
    title: str
    attempt: int
    run: str = ""
    """Its first run; empty until it has started."""
    how: Ending = RUNNING
    """Whether it is running, or how it ended."""
    cost: Usage | None = None
    """Its cost, if it has ended with a result."""
    projection: "Projection | None" = None
    """The projection of its own history, if that is read."""

    @property
    def is_work(self) -> bool:
        return self.draft.kind in _RESULTS

    def stop(self) -> "Sequence[Event | Written]":
        """End its projection at the same time, if its history, as read so far, has no end."""
        work, draft = self.projection, self.draft
        if work is None or draft.ended_at is None or work.scope.draft.ended_at:
            return ()
        work.scope.draft.state, work.scope.draft.ended_at = draft.state, draft.ended_at
        return work.stop(draft.ended_at)

    @property
    def spent(self) -> Usage:
        """Its cost so far, according to the histories that are read."""
        return (self.projection.spent if self.projection else self.cost) or Usage()


@dataclass
class Change:
    """The result of projecting one history event."""

    outputs: Sequence[Event | Written] = ()
    started: Child | None = None
    ended: Child | None = None
    continued_as: str = ""
    """The run in which the workflow continues."""


@dataclass
class Requests:
    """Requests that pass through one workflow: made by a subtask, or put to people by a session."""

    scope: Scope
    questions: dict[str, Question] = field(default_factory=dict[str, Question], init=False)
    """Open questions by subtask."""
    calls: dict[str, PendingCall] = field(default_factory=dict[str, PendingCall], init=False)
    """Open calls by id."""
    _open: dict[tuple[str, int], CallRequest] = field(default_factory=dict[tuple[str, int], CallRequest], init=False)
    """Call requests that the session has received but not yet put to people."""
    _decisions: dict[int, Draft] = field(default_factory=dict[int, Draft], init=False)
    """Decisions about calls of this subtask, by request number."""
    _unread: dict[int, Draft] = field(default_factory=dict[int, Draft], init=False)
    """Messages that this subtask's agent has not read, by number."""

    async def read_update(self, attributes: Any, at: datetime) -> None:
        """Add a step for a person's message to the agents of this session."""
        sent = attributes.accepted_request.input
        if self.scope.has_contents and sent.name == Messages.tell.name:
            message = await self.scope.decoder.read(sent.args.payloads, UserMessage)
            if message is not None:
                number = len([step for step in self.scope.steps if step.kind == "message"])
                draft = self.scope.add(f"message-{number + 1}", "message", message.text)
                draft.subtask, draft.state = message.subtask or "", "completed"
                draft.started_at = draft.ended_at = at

    def receive(self, told: Told, at: datetime) -> None:
        """Add a step for a message to this subtask."""
        if self.scope.has_contents and told.text and told.number not in self._unread:
            draft = self._unread[told.number] = self.scope.add(f"message-{told.number}", "message", told.text)
            draft.started_at = at

    def begin_turn(self, turn: str, at: datetime) -> None:
        """Mark unread messages as read by this turn."""
        for draft in self._unread.values():
            if draft.state == "running":
                draft.state, draft.ended_at, draft.purpose = "completed", at, turn

    async def read_signal(self, kind: str, attributes: Any, at: datetime) -> None:
        """Project a message, a request for approval of a call, or the reply."""
        if attributes.signal_name != SignalName.MAILBOX:
            return
        envelope = await self.scope.decoder.read(attributes.input.payloads, Envelope)
        if envelope is None:
            return
        number, message = envelope.number, envelope.body
        if isinstance(message, CallRequest):
            if kind == "workflow_execution_signaled":
                self._open[envelope.sender, number] = message
            elif self.scope.draft.kind == "subtask":
                draft = self.scope.add(f"decision-{number}", "decision", message.tool)
                self._decisions[number], draft.started_at = draft, at
        elif isinstance(message, CallReply) and (decision := self._decisions.get(number)):
            by = message.by and f"by {message.by}"
            words = [decision.name, message.verdict.replace("_", " "), message.reason, by]
            decision.name = ": ".join(word for word in words if word)
            decision.state, decision.ended_at = "completed", at
        elif isinstance(message, Told) and self.scope.draft.kind == "subtask":
            self.receive(message, at)

    async def read_memo(self, fields: Mapping[str, Payload], at: datetime) -> list[Event]:
        """Return events for the questions and calls that a memo opens or closes."""
        events: list[Event] = []
        if (questions := await self.scope.decoder.field(fields, "questions", list[Question])) is not None:
            events += self._ask({question.subtask: question for question in questions}, at)
        if (calls := await self.scope.decoder.field(fields, "calls", list[OpenCall])) is not None:
            events += self._hold({call.id: call for call in calls}, at)
        return events

    def close(self, at: datetime) -> list[Event]:
        """Close all questions and calls, since the workflow has ended."""
        for decision in self._decisions.values():
            if decision.state == "running":
                decision.state, decision.ended_at = "cancelled", at
        return [*self._ask({}, at), *self._hold({}, at)]

    def _ask(self, questions: Mapping[str, Question], at: datetime) -> list[Event]:
        before, self.questions = self.questions, dict(questions)
        closed = [question for id_, question in before.items() if questions.get(id_) != question]
        opened = [question for id_, question in questions.items() if before.get(id_) != question]
        return [
            QuestionEvent(question=question, is_open=is_open, **self.scope.about(at, question.subtask))
            for is_open, those in ((False, closed), (True, opened))
            for question in those
        ]

    def _hold(self, calls: Mapping[str, OpenCall], at: datetime) -> list[Event]:
        closed = [self.calls.pop(id_) for id_ in [*self.calls] if id_ not in calls]
        opened: list[PendingCall] = []
        for id_, call in calls.items():
            request = self._open.pop((call.workflow_id, call.number), None)
            if id_ not in self.calls and request is not None:
                self.calls[id_] = PendingCall(**{**call.model_dump(), **request.model_dump()})
                opened.append(self.calls[id_])
        return [
            CallEvent(call=call, is_open=is_open, **self.scope.about(at, call.subtask))
            for is_open, those in ((False, closed), (True, opened))
            for call in those
        ]


@dataclass
class Projection:
    """The projection of one workflow from its history so far."""

    scope: Scope
    children: list[Child] = field(default_factory=list[Child], init=False)
    """Started children."""
    activities: Activities = field(init=False)
    requests: Requests = field(init=False)
    result: SubtaskResult | SessionResult | None = field(default=None, init=False)
    _open: dict[int, Child] = field(default_factory=dict[int, Child], init=False)
    """Running children by the event that initiated them."""
    _attempts: dict[str, int] = field(default_factory=dict[str, int], init=False)
    """Number of attempts by subtask."""
    _latest: dict[str, Ending] = field(default_factory=dict[str, Ending], init=False)
    """State of subtasks according to their latest events."""
    _routes: int = field(default=0, init=False)
    _listed: Usage = field(default_factory=Usage, init=False)
    """The cost of the session in its search attributes."""

    def __post_init__(self) -> None:
        self.activities, self.requests = Activities(self.scope), Requests(self.scope)

    @property
    def spent(self) -> Usage:
        """The cost so far of the workflow and all below it: the sum of their `SpendEvent`s."""
        own = self.activities.paid + self.scope.draft.usage
        return sum((child.spent for child in self.children if child.is_work), own)

    def settle(self) -> SpendEvent | None:
        """Charge what an ended workflow reported beyond its answered calls, once everything below it is read."""
        draft = self.scope.draft
        if draft.ended_at is None:
            return None
        unanswered = _beyond(self.result.ending.usage if self.result else self._listed, self.spent)
        if not unanswered.turns and not unanswered.cost_usd:
            return None
        draft.usage = unanswered
        about = self.scope.about(draft.ended_at)
        return SpendEvent(agent=draft.agent, purpose="lost", model="", usage=unanswered, **about)

    async def read(self, event: HistoryEvent) -> Change:
        attribute = event.WhichOneof("attributes") or ""
        attributes: Any = getattr(event, attribute, None)
        kind = attribute.removesuffix("_event_attributes")
        at = time_of(event.event_time) or _NEVER
        if kind.startswith("activity_task"):
            outputs = await self.activities.read(event, kind, attributes, at, is_idle=not self._open)
            if any(isinstance(each, TurnEvent) and each.state == "started" for each in outputs):
                self.requests.begin_turn(attributes.activity_id, at)
            return Change(outputs)
        if "child_workflow" in kind:
            return await self._child(event, kind, attributes, at)
        if kind == "workflow_execution_continued_as_new":
            return Change(continued_as=attributes.new_execution_run_id)
        return Change(await self._own(event, kind, attributes, at))

    async def _own(self, event: HistoryEvent, kind: str, attributes: Any, at: datetime) -> Sequence[Event | Written]:
        outputs: Sequence[Event | Written] = ()
        match kind:
            case "workflow_execution_started":
                outputs = await self._begin(event, attributes, at)
            case "workflow_properties_modified":
                outputs = await self._memo(attributes.upserted_memo.fields, at)
            case "upsert_workflow_search_attributes":
                listed = decode_typed_search_attributes(attributes.search_attributes)
                spent = {"turns": listed.get(TURNS), "cost_usd": listed.get(DOLLARS)}
                known = {name: value for name, value in spent.items() if value is not None}
                self._listed = Usage.model_validate(self._listed.model_dump() | known)
            case "workflow_execution_signaled" | "signal_external_workflow_execution_initiated":
                await self.requests.read_signal(kind, attributes, at)
            case "workflow_execution_update_accepted":
                await self.requests.read_update(attributes, at)
            case "workflow_task_started":
                self.scope.draft.started_at = self.scope.draft.started_at or at
            case "workflow_task_completed":
                self.scope.draft.worker = attributes.identity
            case _ if state := end_state(kind, "workflow_execution"):
                outputs = await self._end(state, attributes, at)
            case _:
                pass
        return outputs

    async def _begin(self, event: HistoryEvent, attributes: Any, at: datetime) -> list[Event]:
        scope = self.scope
        self.activities.begin_run()
        self._open.clear()
        scope.run = attributes.original_execution_run_id
        scope.first_run = scope.first_run or scope.run
        scope.draft.attempts = max(1, attributes.attempt)
        if scope.draft.started_at is None:  # a run that continues another has no summary
            scope.draft.kind = kind_of(attributes.workflow_type.name)
            scope.draft.name = await scope.decoder.summary(event) or attributes.workflow_type.name
            if not scope.subtask and (request := await scope.decoder.read(attributes.input.payloads, Asked)):
                scope.live_text = request.live_text
            if scope.has_contents and scope.draft.kind == "subtask":
                subtask_input = await scope.decoder.read(attributes.input.payloads, ToldBefore)
                for message in subtask_input.messages if subtask_input else ():
                    self.requests.receive(message, at)
        return scope.enter("planning", at) if scope.draft.kind == "session" and scope.state is None else []

    async def _child(self, event: HistoryEvent, kind: str, attributes: Any, at: datetime) -> Change:
        if kind == "start_child_workflow_execution_initiated":
            await self._initiate(event, attributes)
            return Change()
        child = self._open.get(getattr(attributes, "initiated_event_id", 0))
        if child is None:
            return Change()
        if kind == "child_workflow_execution_started":
            child.run, child.draft.started_at = attributes.workflow_execution.run_id, at
            self.children.append(child)
            return self._change(child, at, child.how, started=child)
        if kind == "start_child_workflow_execution_failed":
            del self._open[child.number]
            return self._change(child, at, Ending("failure", "duplicate"))
        state = end_state(kind, "child_workflow_execution")
        if state is None:
            return Change()
        del self._open[child.number]
        child.draft.end(state, at, attributes)
        child.how = Ending("failure" if state == "failed" else "success" if state == "completed" else state)
        if child.is_work and state == "completed":
            result = await self.scope.decoder.read(attributes.result.payloads, _RESULTS[child.draft.kind])
            child.how, child.cost = (result.ending, result.ending.usage) if result else (child.how, None)
        return self._change(child, at, child.how, ended=child)

    async def _initiate(self, event: HistoryEvent, attributes: Any) -> None:
        workflow_id, type_name = attributes.workflow_id, attributes.workflow_type.name
        name = await self.scope.decoder.summary(event) or type_name
        draft = Draft.below(self.scope.draft.id, workflow_id, type_name, name)
        first, _, title = name.partition(": ")
        draft.subtask = first.partition(" ")[0]
        attempt = self._attempts[draft.subtask] = self._attempts.get(draft.subtask, 0) + 1
        path = self.scope.about(_NEVER, draft.subtask)["subtask"]
        self._open[event.event_id] = Child(draft, event.event_id, path, title, attempt)

    def _change(
        self, child: Child, at: datetime, how: Ending, *, started: Child | None = None, ended: Child | None = None
    ) -> Change:
        if not child.is_work:
            return Change()
        draft = child.draft
        self._latest[draft.subtask] = how
        agent = draft.name.partition(": ")[0].partition(" ")[2]
        about = {**how._asdict(), **self.scope.about(at, draft.subtask)}
        event = SubtaskEvent(agent=agent, title=child.title, attempt=child.attempt, workflow_id=draft.id, **about)
        return Change([event], started, ended)

    async def _memo(self, fields: Mapping[str, Payload], at: datetime) -> list[Event]:
        events: list[Event] = []
        decoder, draft = self.scope.decoder, self.scope.draft
        if (routes := await decoder.field(fields, "routes", list[Route])) is not None:
            self._route(routes, at)
        for each in await decoder.field(fields, "decisions", list[DecisionRecord]) or ():
            if each.kind == "call":  # the step belongs to its subtask
                continue
            name = f"{each.wait}: {each.decision}{f', by {each.by}' if each.by else ''}"
            step = self.scope.add(f"wait-{each.wait}", "decision", name)
            step.started_at = step.ended_at = each.at
            step.state = "completed"
        plan = await decoder.field(fields, "plan", tuple[PlannedSubtask, ...])
        if plan is not None and plan != draft.plan:
            draft.plan = plan
            events.append(PlanEvent(subtasks=plan, **self.scope.about(at)))
        self.scope.failure = await decoder.field(fields, "failure", FailureCause) or self.scope.failure
        if (state := await decoder.field(fields, "state", SessionState)) is not None:
            events += self.scope.enter(state, at)
        return [*events, *await self.requests.read_memo(fields, at)]

    def _route(self, routes: Sequence[Route], at: datetime) -> None:
        """Add new routes from a memo, which repeats earlier ones."""
        for number, route in enumerate(routes[self._routes :], start=self._routes + 1):
            name = f"{route.subtask} " if route.subtask else ""
            name += f"by {route.by}: {route.agent}{'' if route.used else ', not used'} ({route.reason})"
            draft = self.scope.add(f"route-{number}", "route", name)
            draft.started_at = draft.ended_at = at
            draft.state, draft.route, self._routes = "completed", route, number

    async def _end(self, state: StepState, attributes: Any, at: datetime) -> list[Event | Written]:
        scope = self.scope
        scope.draft.end(state, at, attributes)
        stopped = self.stop(at)
        kind = _RESULTS.get(scope.draft.kind)
        if state == "completed" and kind is not None:
            self.result = await scope.decoder.read(attributes.result.payloads, kind)
        report = self.result if isinstance(self.result, SessionResult) else None
        outputs: list[Event | Written] = [*stopped, *(self._corrections(report, at) if report else ())]
        if scope.subtask:
            return outputs
        end: Any = {"state": state, **scope.about(at)}
        if state not in ("completed", "running"):
            return [*outputs, *scope.enter(state, at), EndEvent(error=scope.draft.error, **end)]
        if report is not None and report.answer:
            outputs.append(Written(at, report.answer))
        reason = report.stop_reason if report else None
        return [*outputs, *scope.enter("finished", at), EndEvent(stop_reason=reason, **end)]

    def stop(self, at: datetime) -> list[Event | Written]:
        """End everything below an ended workflow, since its children were asked to stop when it ended."""
        ended = self.scope.draft.state
        state = ended if ended in ("terminated", "timed_out") else "cancelled"
        outputs: list[Event | Written] = [*self.activities.stop(at), *self.requests.close(at)]
        for child in self.children:
            if child.is_work and child.how == RUNNING:
                child.draft.state, child.draft.ended_at, child.how = state, at, Ending(state)
                outputs += [*child.stop(), *self._change(child, at, child.how).outputs]
        return outputs

    def attempts(self, subtask: str) -> Sequence[Child]:
        """List the workflows that worked on a subtask, latest last."""
        return [child for child in self.children if child.is_work and child.draft.subtask == subtask]

    def _corrections(self, report: SessionResult, at: datetime) -> Iterable[SubtaskEvent]:
        """Return events for subtasks whose state or reason in the report differs from their latest event."""
        for record in report.subtasks:
            how = Ending(record.state, str(record.reason), record.confidence)
            if (latest := self._latest.get(record.id)) is None or latest[:2] != how[:2]:
                about = {**how._asdict(), **self.scope.about(at, record.id)}
                yield SubtaskEvent(agent=record.agent, attempt=max(record.attempts, 1), **about)


def _beyond(total: Usage, known: Usage) -> Usage:
    """Return the turns and dollars of a total that are not otherwise known."""
    more = {name: max(getattr(total, name) - getattr(known, name), 0) for name in Usage.model_fields}
    return Usage.model_validate(more | {"tool_calls": 0})
