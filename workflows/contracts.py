"""What a supervisor and the workflows of its subtasks exchange."""

from activities.contracts import AgentCard, InputOutcome, ModelCard
from chargehand.contracts import Contract, Dollars, Outcome, Subtask


class SubtaskRequest(Contract):
    """One subtask for one agent, with what it may spend."""

    session: str
    goal: str
    crew: str
    subtask: Subtask
    agent: AgentCard
    model: ModelCard
    documents: tuple[str, ...] = ()
    inputs: tuple[InputOutcome, ...] = ()
    """Outcomes of the subtasks it depends on."""
    turns: int
    usd: Dollars
    max_rounds: int


class LeaseRequest(Contract):
    """A child asks the supervisor above for more."""

    child: str
    """The child's workflow id."""
    number: int
    """1 for the child's first request."""
    turns: int
    usd: Dollars
    patient: bool
    """Whether the child would rather wait for it than go on without."""


class LeaseGrant(Contract):
    """The answer to a request: all that was asked, or nothing."""

    number: int
    turns: int
    usd: Dollars


class SubtaskResult(Contract):
    """How a subtask ended."""

    outcome: Outcome
