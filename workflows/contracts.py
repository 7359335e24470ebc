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


class SubtaskResult(Contract):
    """How a subtask ended."""

    outcome: Outcome
