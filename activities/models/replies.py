"""Reading the reply of any provider: untrusted data, whatever the SDK's types promise.

A tool call that cannot be read is kept as malformed, so that it breaks neither the tool nor the next request.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, TypeVar, cast

from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_core import from_json

from activities.contracts import ToolCall
from activities.models.failures import UnreadableReply

MOST_CALLS: Final = 32
"""The most calls of one reply that are executed."""
LONGEST_ARGUMENTS: Final = 64_000
"""The most characters of a call's arguments as JSON."""
_MOST_TOKENS: Final = 1_000_000_000
ReplyType = TypeVar("ReplyType", bound=BaseModel)


def parse(content: bytes) -> JsonValue:
    """Parse a reply's body, or one event of it. Raises `UnreadableReply` if it is not JSON."""
    try:
        return from_json(content, allow_inf_nan=False)
    except ValueError:
        # The parser's message would quote the body.
        raise UnreadableReply("it is not JSON; a proxy may have answered in the provider's place") from None


def shaped(body: JsonValue, shape: type[ReplyType]) -> ReplyType:
    """Validate a reply. Raises `UnreadableReply` if it has another shape."""
    try:
        return shape.model_validate(body)
    except ValidationError as error:
        fields = ", ".join(".".join(map(str, problem["loc"])) or "the whole" for problem in error.errors()[:3])
        raise UnreadableReply(f"unexpected form of: {fields}") from None


def within(value: object, *path: str) -> Any:  # JSON from outside; callers check what they find
    """Follow a path into nested objects; None where it ends early."""
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = cast("Mapping[str, object]", value).get(name)
    return value


def token_count(usage: object, *path: str, absent: int | None = None) -> int | None:
    """Read a number of tokens: `absent` if it is missing, None if it is implausible."""
    value = within(usage, *path)
    if value is None:
        return absent
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS:
        return value
    return None


def tool_call(position: int, identity: str, tool: str, arguments: object, offered: Collection[str]) -> ToolCall:
    """Read one tool call of a reply.

    Args:
        position: 0 for the first call of the reply.
        identity: the provider's id of the call.
        tool: the name that the model wrote.
        arguments: JSON text, or already parsed.
        offered: the tools that the model may call.
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


def tool_calls(uses: Iterable[tuple[object, object, object]], offered: Collection[str]) -> tuple[ToolCall, ...]:
    """Read the tool calls of a reply, each an id, a name and arguments, of a model that was offered these tools."""
    return tuple(
        tool_call(position, str(identity or ""), str(tool or ""), arguments, offered)
        for position, (identity, tool, arguments) in enumerate(uses)
    )


def arguments_text(call: ToolCall) -> str:
    """Write a call's arguments as JSON; unreadable ones are left out."""
    arguments: Mapping[str, JsonValue] = {} if call.malformed else call.arguments
    return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))


def _malformed(identity: str, tool: str, why: str) -> ToolCall:
    # The name is sent back to the provider, which accepts no other characters.
    return ToolCall(id=identity, tool=re.sub(r"[^A-Za-z0-9_-]", "_", tool)[:64] or "unnamed", malformed=why)
