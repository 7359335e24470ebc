"""The version, the bounds and the turns of a tape's file, for workers and for commands without one."""

from typing import Final, Literal

from pydantic import ConfigDict, JsonValue

from chargehand.contracts import Contract

VERSION: Final = 1
MOST_BYTES: Final = 64_000_000
"""Of a tape. Recording stops there, and a longer tape is not read."""
MOST_LINE_BYTES: Final = 4_000_000
MOST_LINE_VALUES: Final = 100_000
MOST_LINES: Final = 20_000


class Taped(Contract):
    """A part of a line; a field that is not known is an error, since people write tapes by hand."""

    model_config = ConfigDict(extra="forbid")


class Use(Taped):
    """A tool call without the id that a provider gave it."""

    tool: str
    arguments: dict[str, JsonValue] = {}
    malformed: str = ""
    """Why the arguments could not be read."""


class TurnAsked(Taped):
    kind: str
    """Kind of the task, such as `plan` or `work`."""
    agent: str
    about: str
    """The instruction, the question or the goal."""
    attempt: int = 0
    """Earlier attempts at the same decision, such as rejected plans."""
    of: tuple[str, ...] = ()
    """Ids of the outcomes that the task rests on."""
    round: int = 0
    """Rounds that the conversation has had."""
    after: tuple[Use, ...] = ()
    """The tool calls of the last round."""
    is_continued: bool = False
    """Whether the conversation continues another one from its summary."""
    is_correction: bool = False
    """Whether the last reply could not be used."""
    is_part: bool = False
    """Whether it is about a part of the outcomes only."""
    must_answer: bool = False
    """Whether no more tools may be used."""


class TapedMessage(Taped):
    role: Literal["user", "assistant", "tools"]
    text: str = ""
    results: tuple[str, ...] = ()


class TapedPrompt(Taped):
    """What is new in a prompt since the reply before it, for people to read; nothing is replayed by it."""

    system: str = ""
    messages: tuple[TapedMessage, ...]
