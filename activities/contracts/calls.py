"""A tool call as requested by the workflow, and the check of its arguments."""

from datetime import datetime

from pydantic import JsonValue

from activities.contracts.rounds import InputOutcome, ToolCall
from chargehand.contracts import Capability, Contract, left_out


class ToolRequest(Contract):
    session: str
    step: str
    crew: str
    agent: str
    subtask: str = left_out("")
    """For an acting tool: path of the planned subtask, whose attempts together make a call once."""
    call: ToolCall
    decision: str = left_out("")
    """A person's decision about it and who made it, if any."""
    decided_at: datetime | None = left_out(None)
    """When a person decided to repeat a call of unknown outcome; None if none did."""
    outcome: InputOutcome | None = left_out(None)
    """The outcome that the tool `recall` reads."""
    known: tuple[str, ...] = left_out(())
    """Ids of the outcomes that the agent may recall."""
    private: tuple[str, ...] = ()
    """For an agent that reaches out: its private text, which no address may contain."""
    public: tuple[str, ...] = ()
    """Text that may be sent even if `private` contains it."""
    documents: tuple[str, ...] = ()
    documents_may_leave: bool = left_out(False)
    """Whether the caller vouches for all documents, so that their text may be sent out."""
    answers: dict[str, dict[str, JsonValue]] = left_out({})
    """A person's answers to its server, by question key."""
    lost_workers: int = left_out(0)
    """Workers that were lost while the call may have been made within a turn."""
    tenant: str = left_out("default")
    reads: tuple[Capability, ...] = left_out(())
    """For an acting tool: kinds of text that its agent reads and is given."""
    credentials: dict[str, str] = left_out({})
    """The calling user's sealed credentials."""


class CallCheck(Contract):
    session: str
    tool: str
    arguments: dict[str, JsonValue]


class CallProblems(Contract):
    """The problems of arguments, each with its path; empty if they are valid."""

    problems: tuple[str, ...] = ()
