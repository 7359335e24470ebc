"""What agents ask of people, as histories tell it: questions, and tool calls that await approval."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from temporalio.api.common.v1 import Payload

from chargehand.contracts import CallEvent, Event, PendingCall, Question, QuestionEvent
from chargehand.history.records import CallReply, CallRequest, Envelope, OpenCall
from chargehand.history.steps import Draft, Scope
from chargehand.wire import SignalName


@dataclass
class Requests:
    """The requests that pass through one workflow: a subtask makes them, a session puts them to people."""

    scope: Scope
    questions: dict[str, Question] = field(default_factory=dict[str, Question], init=False)
    """Open ones, by subtask."""
    calls: dict[str, PendingCall] = field(default_factory=dict[str, PendingCall], init=False)
    """Open ones, by id."""
    _open: dict[tuple[str, int], CallRequest] = field(default_factory=dict[tuple[str, int], CallRequest], init=False)
    """Calls that a session was asked about and has not put to people."""
    _decisions: dict[int, Draft] = field(default_factory=dict[int, Draft], init=False)
    """About calls of this subtask, by the number of the request."""

    async def read_signal(self, kind: str, attributes: Any, at: datetime) -> None:
        """Note a request to decide about a call, or the reply."""
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
            words = [decision.name, message.verdict.replace("_", " "), message.reason]
            decision.name = ": ".join(word for word in words if word)
            decision.state, decision.ended_at = "completed", at

    async def read_memo(self, fields: Mapping[str, Payload], at: datetime) -> list[Event]:
        """Return what people are asked from now on, and what they no longer are."""
        events: list[Event] = []
        if (questions := await self.scope.decoder.field(fields, "questions", list[Question])) is not None:
            events += self._ask({question.subtask: question for question in questions}, at)
        if (calls := await self.scope.decoder.field(fields, "calls", list[OpenCall])) is not None:
            events += self._hold({call.id: call for call in calls}, at)
        return events

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
