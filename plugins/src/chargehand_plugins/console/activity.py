"""The activity of a session's agents as a tree, derived from its histories."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from chargehand.contracts import PendingCall, Status, SubtaskRecord, Usage
from chargehand.contracts.report import awaiting_records
from chargehand.failure_causes import error_words
from chargehand.history.projection import Child, Projection
from chargehand.history.steps import Draft
from chargehand.history.tree import status_of
from chargehand.spans import SUPERVISOR
from chargehand.state_words import Tone, reason_words
from chargehand_cli.rendering.escaping import safe_text
from chargehand_cli.rendering.page import recorded_text
from chargehand_cli.rendering.progress import record_reason, record_state, record_words, step_words
from chargehand_cli.rendering.text import count, dollars, duration, text_end

_MOST_ACTIONS: Final = 10
"""Maximum actions per agent; the trace has all."""
_MOST_WRITTEN: Final = 600
"""Number of final characters shown of text being written."""
_TONES: Final[dict[str, Tone]] = {"running": "running", "completed": "success"}


@dataclass(frozen=True)
class Action:
    """A turn or a tool call of an agent."""

    id: str
    words: str
    tone: Tone
    facts: tuple[str, ...]
    since: datetime | None = None
    """Its start, if it is running."""
    text: str = ""
    """The end of the text being written, if followed."""
    arguments: str = ""
    result: str = ""


@dataclass(frozen=True)
class Message:
    """A person's message to the agents."""

    text: str
    to: str
    at: datetime | None
    readers: tuple[str, ...]


@dataclass(frozen=True)
class AgentView:
    """An agent with its subtask, or a supervisor with the agents of its session."""

    path: str
    """Its workflow, by which the page identifies it."""
    id: str
    agent: str
    state: str
    words: str
    reason: str
    """Why it is in that state, if the state does not say so."""
    title: str
    since: datetime | None
    """Its start, if it is running."""
    spent: str
    """Its cost so far, including everything below it."""
    actions: tuple[Action, ...]
    """Its latest finished actions, newest last."""
    earlier: int
    """Number of earlier actions."""
    now: tuple[Action, ...]
    """Its running actions."""
    below: "tuple[AgentView, ...]" = ()


def supervisor_view(session: Projection, status: Status) -> AgentView:
    """Show a session that stands as its status says."""
    return _agent([session], None, status.subtasks, status.calls)


def messages_of(session: Projection) -> tuple[Message, ...]:
    """List people's messages to the agents of a session, with who read them in which turn."""
    read = sorted(
        (step.name, f"{path}, {step.purpose.replace('-', ' ')}")
        for path, projection in _everything("", session)
        if projection is not session
        for step in projection.scope.steps
        if step.kind == "message" and step.state == "completed"
    )
    return tuple(
        Message(step.name, step.subtask, step.started_at, tuple(by for text, by in read if text == step.name))
        for step in session.scope.steps
        if step.kind == "message"
    )


def _everything(path: str, projection: Projection) -> list[tuple[str, Projection]]:
    below = [(child.subtask, child.projection) for child in projection.children if child.projection]
    return [(path, projection), *(found for each in below for found in _everything(*each))]


def _agent(
    attempts: Sequence[Projection],
    record: SubtaskRecord | None,
    records: Sequence[SubtaskRecord],
    calls: Sequence[PendingCall],
) -> AgentView:
    """Build the view of an agent or supervisor, as far as its work is read."""
    steps = [step for attempt in attempts for step in attempt.scope.calls]
    over = [step for step in steps if step.state != "running"]
    work = attempts[-1] if attempts else None
    draft = work.scope.draft if work else None
    return AgentView(
        path=draft.id if draft else "",
        id=record.id if record else "",
        agent=record.agent if record else SUPERVISOR,
        state=record_state(record) if record else "",
        words=record_words(record) if record else "",
        reason=record_reason(record) if record else "",
        title=record.instruction if record else "",
        since=draft.started_at if draft and record and record_state(record) == "running" else None,
        spent=_spent(attempts),
        actions=tuple(map(_action, over[-_MOST_ACTIONS:])),
        earlier=max(0, len(over) - _MOST_ACTIONS),
        now=tuple(_action(step) for step in steps if step.state == "running"),
        below=tuple(_subtask(each, work.attempts(each.id) if work else (), calls) for each in records),
    )


def _subtask(record: SubtaskRecord, attempts: Sequence[Child], calls: Sequence[PendingCall]) -> AgentView:
    read = [each.projection for each in attempts if each.projection]
    is_session = bool(read) and read[-1].scope.draft.kind == "session"
    records = awaiting_records(status_of(read[-1]).subtasks, calls, f"{read[-1].scope.subtask}/") if is_session else ()
    return _agent(read, record, records, calls)


def _spent(attempts: Sequence[Projection]) -> str:
    spent = sum((each.spent for each in attempts), Usage())
    return " · ".join([count(spent.turns, "turn"), dollars(spent.cost_usd)]) if spent.turns else ""


def _action(step: Draft) -> Action:
    is_running = step.state == "running"
    began = step.started_at or step.scheduled_at
    facts = [
        "" if is_running or step.state == "completed" else step.state.replace("_", " "),
        count(step.attempts, "attempt") if step.attempts > 1 else "",
        error_words(step.error) or reason_words(step.problem),
        step.model,
        dollars(step.usage.cost_usd) if step.usage.cost_usd else "",
        duration(step.ended_at - began) if step.ended_at and began else "",
    ]
    return Action(
        id=step.id,
        words=step_words(step),
        tone="failure" if step.problem else _TONES.get(step.state, "failure"),
        facts=tuple(fact for fact in facts if fact),
        since=began if is_running else None,
        text=safe_text(text_end(step.written, _MOST_WRITTEN)) if is_running else "",
        arguments=recorded_text(step.arguments),
        result=recorded_text(step.result),
    )
