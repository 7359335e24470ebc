"""The turn kind `work`. Carry out one subtask, a round at a time."""

from typing import Literal

from activities.contracts import InputOutcome, Round
from activities.turn_kinds.protocol import TurnAnswer
from chargehand.contracts import Contract, Severity, left_out


class WorkTask(Contract):
    """Carry out one subtask, a round at a time."""

    kind: Literal["work"] = "work"
    goal: str
    """The session's goal, for context only."""
    instruction: str
    inputs: tuple[InputOutcome, ...] = ()
    """Outcomes of the subtasks this one depends on; failures among them are gaps to be stated."""
    rounds: tuple[Round, ...] = ()
    """The conversation so far, or what is new in it since `earlier`."""
    earlier: str = left_out("")
    """Digest of the conversation before, as an earlier turn kept it; the other fields but `must_answer` are then there.
    """
    must_answer: bool = False
    """No tools any more: answer from what is there."""


class FindingDraft(Contract):
    """A claim as the model writes it, not yet checked."""

    claim: str
    source_refs: list[str]
    quote: str
    """Words copied from the first source; empty if there are none."""
    confidence: int


class IssueDraft(Contract):
    """Something wrong, as a reviewer writes it, not yet checked."""

    severity: Severity
    location: str
    message: str
    suggestion: str
    confidence: int


class AgentAnswer(TurnAnswer):
    """An agent's own account of its subtask, not yet checked."""

    status: Literal[
        "success", "partial", "no_answer", "ambiguous_input", "out_of_scope", "confidence_too_low", "too_big"
    ]
    content: str
    findings: list[FindingDraft]
    confidence: int
    gaps: list[str]
    message: str
    """Why, for anything but success."""


class WorkAnswer(AgentAnswer):
    """The answer of an agent that does not review."""

    kind: Literal["work"] = "work"


class WorkWithIssuesAnswer(AgentAnswer):
    """The answer of an agent that reviews: the account of its subtask, and what it found wrong."""

    kind: Literal["work_with_issues"] = "work_with_issues"
    issues: list[IssueDraft]
