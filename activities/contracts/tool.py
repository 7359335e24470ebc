"""The interface of a tool that an agent may use."""

from collections.abc import Collection, Mapping
from typing import Final, Protocol, runtime_checkable

from pydantic import JsonValue

from activities.contracts.rounds import Elicitation
from chargehand.contracts import Capability, Contract, left_out
from chargehand.tools import NotYetKnown, ToolAnswer, ToolContext

OUTPUT_CAP_CHARACTERS: Final = 8_000
"""The most text that one call of a tool that finds or computes hands to a model, output and quotes together."""
READING_CHARACTERS: Final = 25_000
"""The most text that one call of a tool that reads hands to a model."""


class NeedsInput(ToolAnswer):
    """The answer of a tool whose server asks a person; nothing was changed."""

    ok: bool = False
    elicitation: Elicitation


class CallContext(ToolContext):
    """The context of a call, with what has been answered since it was made first."""

    answers: dict[str, dict[str, JsonValue]] = left_out({})
    """What a person has answered, by the key of the question."""


LookUpResult = ToolAnswer | NotYetKnown | None
"""What the call would have returned; None if it was not applied."""

READS_DOCUMENTS: Final[frozenset[Capability]] = frozenset({"reads_private"})
READS_THE_WEB: Final[frozenset[Capability]] = frozenset({"reads_untrusted", "reaches_out"})


def knows_documents(able: Collection[Capability]) -> bool:
    """Whether a model is told what stands in the list of documents: it could open them, and can tell no one."""
    return "reads_private" in able and "reaches_out" not in able


class ToolSpec(Contract):
    """A tool as a model sees it."""

    name: str
    description: str
    parameters: dict[str, JsonValue]
    """JSON Schema of the arguments: an object whose properties are all required, with no additional ones."""
    stays_here: tuple[str, ...] = ()
    """Arguments that a tool that reaches out never sends anywhere: they may name what is private."""
    acts: bool = left_out(False)
    """Whether it changes something in the world; such a call is applied once."""
    own_step: bool = left_out(False)
    """Whether a call is always an activity of its own. A turn may use others before it ends, for a few seconds, if they
    do not act, could take nothing private out, and neither a policy nor a person binds them."""
    idempotent: bool = left_out(False)
    """Whether an acting tool may be called again with the same idempotency key, which changes nothing more."""
    repeatable: bool = left_out(False)
    """Whether the same call may get another result at any time, so that it is never refused as repeated."""
    approval: bool = left_out(False)
    """Whether a person must approve each call."""
    reads_elsewhere: bool = left_out(False)
    """Whether what it reads in private is not, or not only, the session's documents."""
    needs_documents: bool = left_out(False)
    """Whether it can do nothing in a session without documents."""
    without_documents: "ToolSpec | None" = left_out(None)
    """How it is described in such a session instead, if that is shorter."""
    reserved_bytes: int = left_out(0)
    """Room in the prompt for a description that is not known yet."""
    time_limit_seconds: float | None = left_out(None)
    """The most that one call may take; None if only its silence is limited."""
    credentials: tuple[str, ...] = left_out(())
    """Names of the calling user's credentials that it needs."""
    settles_within_seconds: float | None = left_out(None)
    """How long after its begin a call may still be applied; None if that is unknown."""


class Tool(Protocol):
    """One tool. Faults that the agent can act on are answers with `ok` false; only infrastructure faults raise."""

    @property
    def spec(self) -> ToolSpec: ...

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What it lets an agent do, as configured in this installation."""
        ...

    async def use(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> ToolAnswer: ...


@runtime_checkable
class LooksUp(Tool, Protocol):
    """A tool that acts, and can find out whether a call was applied."""

    async def look_up(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> LookUpResult:
        """Find out whether a call was applied."""
        ...


class ForwardsLookUp:
    """Part of a class that stands before a tool which looks up its calls."""

    tool: Tool

    async def look_up(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> LookUpResult:
        assert isinstance(self.tool, LooksUp)
        return await self.tool.look_up(arguments, context)


def tool_capabilities(tools: Mapping[str, Tool]) -> dict[str, frozenset[Capability]]:
    return {name: tool.capabilities for name, tool in tools.items()}


def acting_tools(tools: Mapping[str, Tool]) -> frozenset[str]:
    return frozenset(name for name, tool in tools.items() if tool.spec.acts)


def object_schema(**arguments: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Describe a tool's arguments, which are all required, as JSON Schema."""
    properties: dict[str, JsonValue] = {name: dict(schema) for name, schema in arguments.items()}
    return {"type": "object", "properties": properties, "required": [*arguments], "additionalProperties": False}
