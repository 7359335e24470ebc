"""The interface of a tool that an agent may use."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from pydantic import JsonValue

from activities.contracts.rounds import Elicitation
from chargehand.contracts import Capability, Contract, left_out
from chargehand.tools import LONGEST_RESULT, NotYetKnown, ToolAnswer, ToolContext

OUTPUT_CAP_CHARACTERS: Final = LONGEST_RESULT
"""Maximum text per call of a searching or computing tool, output and quotes together."""
READING_CHARACTERS: Final = 25_000
"""Maximum text per call of a reading tool."""


class NeedsInput(ToolAnswer):
    """The answer of a tool whose server has a question for a person; nothing was changed."""

    ok: bool = False
    elicitation: Elicitation


class CallContext(ToolContext):
    """The context of a call, with answers given since its first attempt."""

    answers: dict[str, dict[str, JsonValue] | None] = left_out({})
    """A person's answers by question key; None if declined."""


LookUpResult = ToolAnswer | NotYetKnown | None
"""The result that the call would have returned; None if it was not applied."""

READS_DOCUMENTS: Final[frozenset[Capability]] = frozenset({"reads_private"})
READS_THE_WEB: Final[frozenset[Capability]] = frozenset({"reads_untrusted", "reaches_out"})


def knows_documents(able: Collection[Capability]) -> bool:
    """Whether a model sees the list of documents: only if it can read them and cannot send anything out."""
    return "reads_private" in able and "reaches_out" not in able


class ToolSpec(Contract):
    """A tool as seen by a model."""

    name: str
    description: str
    parameters: dict[str, JsonValue]
    """JSON Schema of the arguments: an object whose properties are all required, with no additional ones."""
    stays_here: tuple[str, ...] = ()
    """Arguments that a tool with external access never sends, and that may therefore be private."""
    acts: bool = left_out(False)
    """Whether it has side effects; such a call is applied once."""
    own_step: bool = left_out(False)
    """Whether each call is a separate activity. Other tools may run within a turn, for a few seconds, if they
    do not act, cannot send out private text, and need no approval by policy or person."""
    idempotent: bool = left_out(False)
    """Whether an acting tool may be called again with the same idempotency key without further effect."""
    repeatable: bool = left_out(False)
    """Whether the same call may return another result at any time, so that it is never refused as a repetition."""
    approval: bool = left_out(False)
    """Whether each call needs a person's approval."""
    reads_elsewhere: bool = left_out(False)
    """Whether it reads private text other than the session's documents."""
    needs_documents: bool = left_out(False)
    """Whether it is useless in a session without documents."""
    without_documents: "ToolSpec | None" = left_out(None)
    """Shorter description for sessions without documents, if any."""
    reserved_bytes: int = left_out(0)
    """Bytes reserved in the prompt for a description not known yet."""
    time_limit_seconds: float | None = left_out(None)
    """Maximum duration of a call; None if only time without progress is limited."""
    credentials: tuple[str, ...] = left_out(())
    """Names of the calling user's credentials that it needs."""
    settles_within_seconds: float | None = left_out(None)
    """How long after its start a call may still be applied; None if unknown."""


class Tool(Protocol):
    """A tool. Faults that the agent can handle are answers with `ok` false; only infrastructure faults raise."""

    @property
    def spec(self) -> ToolSpec: ...

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What it lets an agent do, as configured in this installation."""
        ...

    async def use(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> ToolAnswer: ...


LookUp = Callable[[Mapping[str, JsonValue], ToolContext], Awaitable[LookUpResult]]


def look_up_of(tool: Tool) -> LookUp | None:
    """Return an acting tool's method `look_up`, which finds out whether a call was applied; None if it has none."""
    return getattr(tool, "look_up", None)


@dataclass(frozen=True)
class WrappedTool:
    """Base class of tool wrappers, which leave the tool's description unchanged."""

    tool: Tool

    @property
    def spec(self) -> ToolSpec:
        return self.tool.spec

    @property
    def capabilities(self) -> frozenset[Capability]:
        return self.tool.capabilities

    @property
    def look_up(self) -> LookUp | None:
        return look_up_of(self.tool)


def tool_capabilities(tools: Mapping[str, Tool]) -> dict[str, frozenset[Capability]]:
    return {name: tool.capabilities for name, tool in tools.items()}


def acting_tools(tools: Mapping[str, Tool]) -> frozenset[str]:
    return frozenset(name for name, tool in tools.items() if tool.spec.acts)


def object_schema(**arguments: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Build the JSON Schema of a tool's arguments, all required."""
    properties: dict[str, JsonValue] = {name: dict(schema) for name, schema in arguments.items()}
    return {"type": "object", "properties": properties, "required": [*arguments], "additionalProperties": False}
