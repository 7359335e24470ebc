"""The content of an agent's conversation: tool calls, results, rounds, notes and inputs."""

from datetime import datetime
from typing import Final, Literal

from pydantic import JsonValue

from chargehand.contracts import Capability, Contract, Issue, Outcome, Source, left_out
from chargehand.tools import ToolAnswer, failed

TurnStop = Literal["answer", "tools", "truncated", "refused", "empty", "malformed"]
MOST_PICTURES: Final = 4
"""Maximum pictures per tool call."""
PICTURE_TOKENS: Final = 4_000
"""Upper bound of what known vision models charge for a picture."""


class ToolCall(Contract):
    """A tool call requested by the model."""

    id: str
    tool: str
    arguments: dict[str, JsonValue] = {}
    malformed: str = ""
    """Why the model's arguments were unreadable; the tool is then not called and the model is told."""

    def refuse(self, error: str) -> "ToolResult":
        """Return an error as the result of this call."""
        return ToolResult(call_id=self.id, tool=self.tool, **dict(failed(error)))


class Elicitation(Contract):
    """A question from a tool's server to a person; the call is repeated with the answer."""

    key: str
    """Identifies the question in repeated calls."""
    asks: str
    """Who is asking, and what they ask."""
    form: dict[str, JsonValue]
    """JSON Schema of the answer: an object of plain values."""


class ToolResult(ToolAnswer):
    """A tool's result, which is always treated as data and never as instructions."""

    call_id: str
    tool: str
    may_be_repeated: bool = left_out(False)
    """Whether the call was not made, which means that a later one is not a repetition."""
    elicitation: Elicitation | None = left_out(None)
    """A question that a person has to answer first."""
    is_unknown: bool = left_out(False)
    """Whether it is unknown if the acting call was applied."""


MOST_CALLS: Final = 8
"""Maximum tool calls per round besides notes; the model is told to request the others again."""


class Round(Contract):
    """One exchange within a subtask: the model's requests and the tools' answers."""

    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    provider_items: tuple[JsonValue, ...] = ()
    """The reply in the provider's own format, returned verbatim in the next turn."""
    correction: str = ""
    """What was wrong with an unusable reply; shown to the model instead of tool results."""
    answer: str = left_out("")
    """A preliminary answer, because the person had written in the meantime; with a correction, a reply in prose."""
    told: tuple[str, ...] = left_out(())
    """What the person wrote after this round."""
    said: str = left_out("")
    """In a conversation, the message after `answer`, which starts the next rounds."""
    turns_left: int = left_out(0)
    """Turns left after this round; 0 if not stated, since the next turn has to answer."""
    spare_turns: int = left_out(0)
    """Additional turns that it may get if other agents do not need them."""

    def told_since(self, since: "Round") -> "Round":
        """Return this round with the messages to the agent and the turn counts of another version of it."""
        fields = {"told": since.told, "turns_left": since.turns_left, "spare_turns": since.spare_turns}
        return self.replace(**fields)


class Note(Contract):
    """A claim noted by an agent."""

    claim: str
    source: Source | None = left_out(None)
    """Its source with the quoted words; None for the agent's own conclusion."""


class InputOutcome(Contract):
    id: str
    agent: str
    instruction: str
    outcome: Outcome

    @property
    def issues_by_id(self) -> dict[str, Issue]:
        """Its issues by the ids that other agents see: `T2.1` is the first of T2."""
        return {f"{self.id}.{number}": issue for number, issue in enumerate(self.outcome.issues, start=1)}


class ToolRequest(Contract):
    session: str
    step: str
    crew: str
    agent: str
    subtask: str = left_out("")
    """For an acting tool: path of the planned subtask; its attempts together make a call only once."""
    call: ToolCall
    decision: str = left_out("")
    """A person's decision about it and who made it, if any."""
    decided_at: datetime | None = left_out(None)
    """When a person decided to repeat a call of unknown outcome; None without such a decision."""
    outcome: InputOutcome | None = left_out(None)
    """The outcome that the tool `recall` reads."""
    known: tuple[str, ...] = left_out(())
    """Ids of the outcomes that the agent may recall."""
    private: tuple[str, ...] = ()
    """For an agent that can send data out: its private text, which must not appear in any address."""
    public: tuple[str, ...] = ()
    """Text that may be sent even if `private` contains it."""
    documents: tuple[str, ...] = ()
    documents_may_leave: bool = left_out(False)
    """Whether the caller vouches for all documents, so that their text may be sent out."""
    answers: dict[str, dict[str, JsonValue] | None] = left_out({})
    """A person's answers to its server, by question key; None if declined."""
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
