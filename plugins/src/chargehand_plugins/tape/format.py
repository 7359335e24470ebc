"""Version, size limits and turns of a tape's file, for workers and for commands without a worker."""

from typing import Final, Literal

from pydantic import ConfigDict, JsonValue

from chargehand.contracts import Contract

VERSION: Final = 1
MOST_BYTES: Final = 64_000_000
"""Maximum size of a tape; recording stops there, and longer tapes are not read."""
MOST_LINE_BYTES: Final = 4_000_000
MOST_LINE_VALUES: Final = 100_000
MOST_LINES: Final = 20_000


class Taped(Contract):
    """A part of a line; unknown fields are errors, since people write tapes by hand."""

    model_config = ConfigDict(extra="forbid")


class Use(Taped):
    """A tool call without the provider's id."""

    tool: str
    arguments: dict[str, JsonValue] = {}
    malformed: str = ""
    """Why the arguments were unreadable."""


class TurnAsked(Taped):
    kind: str
    """Kind of the task, such as `plan` or `work`."""
    agent: str
    about: str
    """The instruction, the question or the goal."""
    attempt: int = 0
    """Number of earlier attempts at the same decision, such as rejected plans."""
    of: tuple[str, ...] = ()
    """Ids of the outcomes that the task is based on."""
    round: int = 0
    """Number of rounds of the conversation so far."""
    after: tuple[Use, ...] = ()
    """The tool calls of the last round."""
    is_continued: bool = False
    """Whether the conversation continues another one from its summary."""
    is_correction: bool = False
    """Whether the last reply was unusable."""
    is_part: bool = False
    """Whether it covers only part of the outcomes."""
    must_answer: bool = False
    """Whether no more tools may be used."""


class TapedMessage(Taped):
    role: Literal["user", "assistant", "tools"]
    text: str = ""
    results: tuple[str, ...] = ()


class TapedPrompt(Taped):
    """The new part of a prompt since the last reply, for people; not used in replays."""

    system: str = ""
    messages: tuple[TapedMessage, ...]
