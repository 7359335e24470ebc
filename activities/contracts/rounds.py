"""What an agent has been told so far: its tool calls, their results, rounds, notes and inputs."""

import re
import unicodedata
from typing import Final

from pydantic import JsonValue

from chargehand.contracts import Contract, Issue, Outcome, Source, left_out
from chargehand.tools import ToolAnswer, failed

PASSAGE_GAP: Final = "\n[…]\n"
"""Stands between passages of one source that do not follow each other."""
MOST_PICTURES: Final = 4
"""Pictures that one call of a tool shows."""
PICTURE_TOKENS: Final = 4_000
"""More than any model that is known to see charges for one."""


class ToolCall(Contract):
    """A tool that the model wants used."""

    id: str
    tool: str
    arguments: dict[str, JsonValue] = {}
    malformed: str = ""
    """Why the model's arguments could not be read; the tool is then not used and the model is told."""

    def refuse(self, error: str) -> "ToolResult":
        """Answer it with an error in the tool's place."""
        return ToolResult(call_id=self.id, tool=self.tool, **dict(failed(error)))


class Elicitation(Contract):
    """What a tool's server asks a person in the middle of a call, which is made again with the answer."""

    key: str
    """Identifies the question in further calls."""
    asks: str
    """Who asks, and what."""
    form: dict[str, JsonValue]
    """JSON Schema of the answer: an object of plain values."""


class ToolResult(ToolAnswer):
    """What a tool gave back. It is data, never instruction."""

    call_id: str
    tool: str
    may_be_repeated: bool = left_out(False)
    """Whether the call was not made, and making it again later is no repetition."""
    elicitation: Elicitation | None = left_out(None)
    """What a person has to answer first."""
    is_unknown: bool = left_out(False)
    """Whether it is unknown if the call, which changes something in the world, was applied."""


MOST_CALLS: Final = 8
"""Tool calls of one round that are made, notes aside; the model is told to ask for the others again."""


class Round(Contract):
    """One exchange within a subtask: what the model asked for and what the tools answered."""

    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    provider_items: tuple[JsonValue, ...] = ()
    """The provider's own form of the model's reply, given back to it verbatim in the next turn."""
    correction: str = ""
    """What was wrong with a reply that could not be used; shown to the model instead of tool results."""
    answer: str = left_out("")
    """An answer that was not the last word, since the person who asked had written meanwhile."""
    told: tuple[str, ...] = left_out(())
    """What the person who asked has written after it."""
    said: str = left_out("")
    """In a conversation, the message that came after `answer`, and that the next rounds are about."""
    turns_left: int = left_out(0)
    """How many turns the agent has after this round; 0 if it is not told, since the next one has to answer."""
    spare_turns: int = left_out(0)
    """How many more it may get if other agents leave them."""

    def told_since(self, since: "Round") -> "Round":
        """Add what the agent is told after its tools were used."""
        told = {"told": since.told, "turns_left": since.turns_left, "spare_turns": since.spare_turns}
        return self.replace(**told)


class Note(Contract):
    """A claim that an agent keeps."""

    claim: str
    source: Source | None = left_out(None)
    """What it rests on, with the quoted words; None for a conclusion of the agent's own."""


class InputOutcome(Contract):
    id: str
    agent: str
    instruction: str
    outcome: Outcome

    @property
    def issues_by_id(self) -> dict[str, Issue]:
        """Its issues, by the names under which other agents read of them: `T2.1` is the first of T2."""
        return {f"{self.id}.{number}": issue for number, issue in enumerate(self.outcome.issues, start=1)}


_HYPHEN: Final = re.compile(r"[-‐‑‒–—−\u00ad]\s*")
_MARKS: Final = str.maketrans(dict.fromkeys("“”„‟«»″", '"') | dict.fromkeys("‘’‚‛′`´", "'"))


def as_compared(text: str) -> str:
    """Write a text as every typesetter's version of it reads: words that a line or page divides are whole again."""
    joined = _HYPHEN.sub("", unicodedata.normalize("NFKC", text).translate(_MARKS))
    return " ".join(joined.split())
