"""What a supervisor and the workflows of its subtasks exchange."""

from datetime import timedelta
from typing import Literal

from activities.contracts import AgentCard, InputOutcome, ModelCard
from chargehand.contracts import Contract, Dollars, Outcome, Subtask, Usage, left_out


class SubtaskRequest(Contract):
    """One subtask for one agent, with what it may spend."""

    session: str
    goal: str
    crew: str
    subtask: Subtask
    agent: AgentCard
    model: ModelCard
    documents: tuple[str, ...] = left_out(())
    inputs: tuple[InputOutcome, ...] = left_out(())
    """Outcomes of the subtasks it depends on."""
    turns: int
    usd: Dollars
    max_rounds: int
    deadline: timedelta | None = left_out(None)
    """The attempt's own time, without what it waits for a larger grant; None if only the session's deadline holds."""
    urgency: Literal["now", "batch"] = left_out("now")
    turns_queue: str | None = left_out(None)
    waits_for_means: bool = left_out(False)
    """Whether it would rather wait for a larger grant than answer early."""
    has_private_inputs: bool = left_out(False)
    """Whether what it is given rests on the user's own documents."""
    goal_is_public: bool = left_out(False)
    """Whether the goal may go out although private text says it too: it is the user's own words, not a model's."""
    public: tuple[str, ...] = left_out(())
    """The goal, if it is public, as older releases wrote it."""


class GrantRequest(Contract):
    """A child asks the supervisor above for more."""

    child: str
    """The child's workflow id."""
    number: int
    """1 for the child's first request."""
    turns: int
    usd: Dollars
    patient: bool
    """Whether the child would rather wait for it than go on without."""


class Grant(Contract):
    """The answer to a request: all that was asked, or nothing."""

    number: int
    turns: int
    usd: Dollars


class SubtaskResult(Contract):
    """How a subtask ended."""

    outcome: Outcome
    wasted: Usage = left_out(Usage())
    """Part of what it spent that came to nothing."""
    rounds: int = left_out(0)
    """Rounds of thinking and tool use."""
    waited: timedelta = left_out(timedelta(0))
    """Time spent waiting for a larger grant."""
