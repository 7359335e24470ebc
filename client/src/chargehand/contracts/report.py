"""What the user gets, always, whatever went wrong; and where a session stands meanwhile."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field

from chargehand.contracts.base import Contract, Dollars
from chargehand.contracts.outcome import Confidence, FailureReason, Source, SpendLine, Usage
from chargehand.contracts.plan import Plan

StopReason = Literal["completed", "deadline", "out_of_turns", "out_of_budget", "finish_now", "nothing_succeeded"]
"""Why the session stopped: `completed` means that the plan was carried out to its end."""


class Contradiction(Contract):
    """Two outcomes that cannot both be right."""

    about: str
    positions: tuple[str, ...]
    """What each side says, with its source."""
    resolution: str = ""
    """Which one the report follows and why; empty if it is left open."""


SubtaskState = Literal["waiting", "running", "success", "partial", "failure", "escalation", "skipped"]


class SubtaskRecord(Contract):
    """Where one subtask stands, or how it ended."""

    id: str
    agent: str
    instruction: str
    depends_on: tuple[str, ...] = ()
    state: SubtaskState = "waiting"
    reason: FailureReason | str = ""
    """Why it did not succeed."""
    attempts: int = 0
    workflow_id: str | None = None
    """The child workflow of the latest attempt."""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    confidence: Confidence = 0
    usage: Usage = Usage()


class Timing(Contract):
    """How long it took, by the workflow's own clock."""

    started_at: datetime
    ended_at: datetime
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
    used: float
    allowed: float


class Report(Contract):
    """The end of every session that ends by itself."""

    session: str
    goal: str
    answer: str
    """Markdown. `[S1]` refers to the first of `sources`."""
    sources: tuple[Source, ...] = ()
    """Only what agents of this session really read, in the order of their numbers."""
    gaps: tuple[str, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()
    confidence: Confidence = 0
    stop_reason: StopReason
    brain: str = ""
    """Which models worked on it; says so when no language model was used."""
    usage: Usage = Usage()
    spend: tuple[SpendLine, ...] = ()
    """Usage by agent, model and purpose; sums to `usage`."""
    limits: tuple[LimitUse, ...] = ()
    timing: Timing
    subtasks: tuple[SubtaskRecord, ...] = ()


SessionState = Literal[
    "planning",
    "awaiting_approval",
    "carrying_out",
    "synthesising",
    "finished",
    "failed",
    "cancelled",
]


class Status(Contract):
    """Where a session stands, for people who watch it."""

    session: str
    goal: str
    state: SessionState
    plan: Plan | None = None
    subtasks: tuple[SubtaskRecord, ...] = ()
    turns: int = 0
    max_turns: int = 0
    spent_usd: Dollars = Decimal(0)
    reserved_usd: Dollars = Decimal(0)
    budget_usd: Dollars = Decimal(0)
    started_at: datetime | None = None
    deadline_at: datetime | None = None
