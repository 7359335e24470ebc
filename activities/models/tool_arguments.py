"""What a model wants of a tool: read with suspicion, so that it can break neither the tool nor the next request."""

import re
from collections.abc import Collection
from typing import Final, cast

from pydantic import JsonValue
from pydantic_core import from_json

from activities.contracts import ToolCall

MOST_CALLS: Final = 32
"""More calls than this in one reply are not carried out."""
LONGEST_ARGUMENTS: Final = 64_000
"""Characters of a call's arguments as JSON."""


def tool_call(position: int, identity: str, tool: str, arguments: object, offered: Collection[str]) -> ToolCall:
    """Read one call of a reply.

    Args:
        position: 0 for the first call of the reply.
        identity: the provider's id of the call.
        tool: the name that the model wrote.
        arguments: what the model wrote, as JSON text or already parsed.
        offered: the tools that the model may use.
    """
    if position >= MOST_CALLS:
        return _malformed(identity, tool, f"more than {MOST_CALLS} calls in one reply; ask for fewer at a time")
    if tool not in offered:
        known = ", ".join(sorted(offered)) or "none"
        return _malformed(identity, tool, f"there is no such tool; the tools are: {known}")
    if isinstance(arguments, str):
        if len(arguments) > LONGEST_ARGUMENTS:
            return _malformed(identity, tool, f"the arguments are longer than {LONGEST_ARGUMENTS} characters")
        try:
            # Strict JSON: no NaN, no lone surrogates, and nesting that a parser survives.
            arguments = from_json(arguments or "{}", allow_inf_nan=False)
        except ValueError as error:
            return _malformed(identity, tool, f"the arguments are not valid JSON: {str(error)[:120]}")
    if not isinstance(arguments, dict):
        return _malformed(identity, tool, "the arguments are not a JSON object")
    return ToolCall(id=identity, tool=tool, arguments=cast("dict[str, JsonValue]", arguments))


def _malformed(identity: str, tool: str, why: str) -> ToolCall:
    # The name goes back to the provider, which takes no other characters.
    return ToolCall(id=identity, tool=re.sub(r"[^A-Za-z0-9_-]", "_", tool)[:64] or "unnamed", malformed=why)
