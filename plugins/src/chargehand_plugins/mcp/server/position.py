"""Where a session stands, as an assistant is told: enough to decide what to do next, and no more."""

from datetime import datetime
from typing import Final

from pydantic import BaseModel

from chargehand import (
    CallEvent,
    EndEvent,
    Event,
    PendingCall,
    Plan,
    Question,
    QuestionEvent,
    StateEvent,
    Status,
    SubtaskEvent,
    ToolEvent,
)
from chargehand_cli.rendering.escaping import one_safe_line

NEXT: Final = {
    "awaiting_approval": "decide_plan",
    "awaiting_answer": "answer",
    "awaiting_call_approval": "decide_call",
    "awaiting_message": "say or close",
    "paused": "raise_limits or finish_now",
}
"""What a session in a state waits for."""
ENDED: Final = "session_result"
_MOST_TASK: Final = 200


class Work(BaseModel):
    """A subtask of a session."""

    id: str
    agent: str
    task: str
    state: str


class Position(BaseModel):
    """Where a session stands."""

    session: str
    state: str
    next_tools: str
    """The tools that take it further; empty if it needs nothing."""
    plan: Plan | None = None
    """The plan, if it awaits approval."""
    questions: tuple[Question, ...] = ()
    calls: tuple[PendingCall, ...] = ()
    subtasks: tuple[Work, ...] = ()
    turns: int = 0
    max_turns: int = 0
    spent_usd: float = 0.0
    budget_usd: float = 0.0
    deadline_at: datetime | None = None


class Listed(BaseModel):
    """A session in a list."""

    session: str
    state: str
    started_at: datetime


def position_of(status: Status, ended: str) -> Position:
    tools = ENDED if ended else NEXT.get(status.state, "")
    state = status.state if not ended or status.state in {"finished", "failed", "cancelled"} else ended
    return Position(
        session=status.session,
        state=state,
        next_tools=tools,
        plan=status.plan if status.state == "awaiting_approval" and not ended else None,
        questions=() if ended else status.questions,
        calls=() if ended else status.calls,
        subtasks=tuple(
            Work(id=each.id, agent=each.agent, task=each.instruction[:_MOST_TASK], state=each.state)
            for each in status.subtasks
        ),
        turns=status.turns,
        max_turns=status.max_turns,
        spent_usd=float(status.spent_usd),
        budget_usd=float(status.budget_usd),
        deadline_at=status.deadline_at,
    )


def may_need_something(event: Event) -> bool:
    """Whether the session may wait for a decision, or have ended, since this event."""
    return isinstance(event, StateEvent | QuestionEvent | CallEvent | EndEvent)


def progress_words(event: Event) -> str:
    """Describe an event in one line; empty for those that are no news to an assistant."""
    match event:
        case StateEvent():
            return event.state
        case SubtaskEvent():
            return one_safe_line(f"{event.subtask} ({event.agent}): {event.state}")
        case ToolEvent(state="started"):
            return one_safe_line(f"{event.subtask}: {event.title}")
        case _:
            return ""
