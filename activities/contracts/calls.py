"""One tool call, as the workflow asks for it, and its check."""

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
    """Id of the planned subtask, for a tool that acts: its attempts make a call once."""
    call: ToolCall
    decision: str = left_out("")
    """What a person has decided about it, and who, if one has."""
    decided_at: datetime | None = left_out(None)
    """When a person decided that a call of unknown outcome is made again; None if none did."""
    outcome: InputOutcome | None = left_out(None)
    """What the tool `recall` reads."""
    known: tuple[str, ...] = left_out(())
    """Ids of the outcomes that the agent may recall."""
    private: tuple[str, ...] = ()
    """Private text that the agent was given, for an agent that reaches out: no address may carry any of it."""
    public: tuple[str, ...] = ()
    """Text that may go out although it stands in `private` too."""
    documents: tuple[str, ...] = ()
    documents_may_leave: bool = left_out(False)
    """Whether the caller vouches for all of them, so that their text may be sent out."""
    answers: dict[str, dict[str, JsonValue]] = left_out({})
    """What a person has answered to its server, by the key of the question."""
    tenant: str = left_out("default")
    reads: tuple[Capability, ...] = left_out(())
    """For a tool that acts: what kinds of text its agent reads and is given."""
    credentials: dict[str, str] = left_out({})
    """The calling user's, sealed."""


class CallCheck(Contract):
    session: str
    tool: str
    arguments: dict[str, JsonValue]


class CallProblems(Contract):
    """What keeps a tool from being called with them, each by its path; nothing if it can be."""

    problems: tuple[str, ...] = ()
