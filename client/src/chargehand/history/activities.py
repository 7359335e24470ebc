"""Model turns and tool calls of one workflow, projected from its history."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from temporalio.api.common.v1 import Payload
from temporalio.api.history.v1 import HistoryEvent

from chargehand.contracts import Event, SpendEvent, ToolEvent, TurnEvent, Usage
from chargehand.contracts.waits import call_title
from chargehand.history.records import ReportText, ToolRequest, ToolResult, Turn
from chargehand.history.steps import Draft, Scope, Written, end_state, kind_of
from chargehand.spans import SUPERVISOR
from chargehand.wire import ErrorType

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
        """Forget the activities of the previous run, since event ids start anew."""
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
    """Return the agent of a turn, also of one that the session itself took with an agent of its crew."""
    return turn.name.partition(": ")[0]


def _problem(result: ToolResult | None) -> str:
    return "" if result is None or result.ok else "failed"


def _attempt(draft: Draft) -> dict[str, Any]:
    return {"attempts": draft.attempts, "error": draft.error}
