"""What the user gets, always, whatever went wrong; and where a session stands meanwhile."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field

from chargehand.contracts.base import Contract, Dollars, left_out
from chargehand.contracts.outcome import Artifact, Confidence, FailureReason, Issue, Source, SpendLine, Usage
from chargehand.contracts.plan import Plan

StopReason = Literal["completed", "deadline", "out_of_turns", "out_of_budget", "finish_now", "nothing_succeeded"]
"""Why the session stopped: `completed` means that the plan was carried out to its end."""


class Contradiction(Contract):
    """Two outcomes that cannot both be right."""

    about: str
    """The fact in question."""
    positions: tuple[str, ...]
    """What each side says, with its source."""
    resolution: str = ""
    """Which one the report follows and why; empty if it is left open."""
    confidence: Confidence = 0
    """How sure a judge is of the resolution: 0 (none was asked, or it could not decide) to 100 (certain)."""


SubtaskState = Literal["waiting", "running", "success", "partial", "failure", "escalation", "skipped"]


class SubtaskRecord(Contract):
    """Where one subtask stands, or how it ended."""

    id: str
    """The subtask's id in the plan."""
    agent: str
    """Agent that it was given to, or `supervisor` for a session below."""
    instruction: str
    """What was to be done."""
    depends_on: tuple[str, ...] = ()
    """Subtasks whose outcomes it is given."""
    state: SubtaskState = "waiting"
    """`waiting`, `running`, the kind of its outcome, or `skipped`."""
    reason: FailureReason | str = ""
    """Why it did not succeed."""
    attempts: int = 0
    """How often it was started."""
    workflow_id: str | None = None
    """The child workflow of the latest attempt."""
    started_at: datetime | None = None
    """When it was first started, by the session's clock."""
    ended_at: datetime | None = None
    """When its outcome came in."""
    confidence: Confidence = 0
    """The outcome's confidence: 0 (a guess) to 100 (certain)."""
    usage: Usage = Usage()
    """What it cost, all attempts together."""
    wasted: Usage = left_out(Usage())
    """Part of `usage` for attempts whose outcome was not used."""


class Question(Contract):
    """What a subtask wants a person to decide."""

    subtask: str
    """The subtask's id in the plan; the answer names it."""
    agent: str
    """Agent that asks."""
    text: str
    """What is to be decided."""
    open_until: datetime
    """When the work goes on without an answer."""


class Timing(Contract):
    """How long it took, by the workflow's own clock."""

    started_at: datetime
    """When the session's first step began."""
    ended_at: datetime
    """When the report was written."""
    wall: timedelta
    """From start to report."""
    subtasks_one_after_another: timedelta
    """Sum of the subtasks' own times."""
    critical_path: timedelta
    """The longest chain of dependent subtasks: no schedule is faster."""
    speed_up: Annotated[float, Field(ge=0)]
    """How many times faster the session was than the same steps one after another."""


class LimitUse(Contract):
    """How close the session came to one of its limits."""

    limit: str
    """Name of the limit, with its unit where that is not plain."""
    used: float
    """How much of it was used, in the unit of the limit."""
    allowed: float
    """How much was allowed, in the same unit."""


class Report(Contract):
    """The end of every session that ends by itself."""

    session: str
    """The session's id."""
    goal: str
    """What was asked."""
    answer: str
    """Markdown. `[S1]` refers to the first of `sources`."""
    sources: tuple[Source, ...] = ()
    """Only what agents of this session really read, in the order of their numbers."""
    gaps: tuple[str, ...] = ()
    """What was asked and is not answered, subtasks that came to nothing included."""
    contradictions: tuple[Contradiction, ...] = ()
    """Where agents disagree on a fact."""
    confidence: Confidence = 0
    """How sure the supervisor is of the answer: 0 (a guess) to 100 (certain)."""
    stop_reason: StopReason
    """Why the session stopped: `completed` means that the plan was carried out to its end."""
    brain: str = ""
    """Which models worked on it; says so when no language model was used."""
    usage: Usage = Usage()
    """What the whole session cost, everything below it included."""
    spend: tuple[SpendLine, ...] = ()
    """Usage by agent, model and purpose; sums to `usage`."""
    reserved_usd: Dollars = Decimal(0)
    """US dollars still set aside when the report was written: 0 unless something is wrong."""
    wasted: Usage = left_out(Usage())
    """Part of `usage` that came to nothing: attempts that were not used, rejected plans, calls that were lost."""
    limits: tuple[LimitUse, ...] = ()
    """How much of each limit was used."""
    timing: Timing
    """How long it took, and what working side by side gained."""
    subtasks: tuple[SubtaskRecord, ...] = ()
    """How each subtask of the plan ended, in the plan's order."""
    issues: tuple[Issue, ...] = left_out(())
    """What reviewers among the agents found wrong, the worst first."""
    artifacts: tuple[Artifact, ...] = left_out(())
    """Files that the agents' tools made, such as charts."""


SessionState = Literal[
    "planning",
    "awaiting_approval",
    "carrying_out",
    "awaiting_answer",
    "paused",
    "synthesising",
    "finished",
    "failed",
    "cancelled",
]


class Status(Contract):
    """Where a session stands, for people who watch it."""

    session: str
    """The session's id."""
    goal: str
    """What was asked."""
    state: SessionState
    """What the session is doing."""
    plan: Plan | None = None
    """The plan that is carried out; absent until there is one."""
    subtasks: tuple[SubtaskRecord, ...] = ()
    """Where each subtask of the plan stands, in the plan's order."""
    questions: tuple[Question, ...] = left_out(())
    """What waits for a person's answer."""
    turns: int = 0
    """LLM calls made so far, those of sessions below included once they have ended."""
    max_turns: int = 0
    """LLM calls allowed."""
    spent_usd: Dollars = Decimal(0)
    """US dollars spent so far."""
    reserved_usd: Dollars = Decimal(0)
    """US dollars set aside for what runs now and for the report."""
    budget_usd: Dollars = Decimal(0)
    """US dollars allowed."""
    started_at: datetime | None = None
    """When the session's first step began."""
    deadline_at: datetime | None = None
    """When the report is written at the latest."""
