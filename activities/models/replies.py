"""Parsing of any provider's reply, which is untrusted data despite the SDK's types.

Everything is bounded here before further processing. An unreadable tool call is kept as
malformed, so that it breaks neither the tool nor the next request.
"""

import asyncio
import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar, cast

from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_core import from_json

from activities.contracts.rounds import ToolCall
from activities.http.response_limits import BodyRefused
from activities.models.failures import UnreadableReply
from activities.models.protocol import Content
from chargehand.contracts.problems import describe_problems, join_problems
from chargehand.strict_json import depth

MOST_CALLS: Final = 32
"""Maximum executed calls of one reply."""
MOST_DEPTH: Final = 32
"""Maximum nesting of a call's arguments."""
LONGEST_ARGUMENTS: Final = 64_000
"""Maximum bytes of a call's arguments as JSON."""
_MOST_ARGUMENTS: Final = 256_000
"""Maximum bytes of the arguments of all calls of a reply."""
_MOST_ITEMS: Final = 1_000
_LARGEST_ITEMS: Final = 1_000_000
"""Maximum bytes of a reply in the provider's own format; with everything else it fits into one payload."""
_MOST_LEVELS: Final = 64
"""Maximum nesting of a whole reply."""
_MOST_VALUES: Final = 300_000
"""Maximum lists and objects of a reply or event, since parsing them blocks everything else."""
_SMALL: Final = 50_000
"""Size up to which processing is faster than switching to a thread and back."""
_MOST_DIGITS: Final = 400
_MOST_TOKENS: Final = 20_000_000
"""Twice the largest existing context window; higher counts are wrong."""
_IDENTITY: Final = re.compile(r"[!-~]{1,1000}")
_MODEL_NAME: Final = re.compile(r"[ -~]{1,200}")
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_STRING_OR_BRACKET: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
ReplyType = TypeVar("ReplyType", bound=BaseModel)


async def parse(content: bytes) -> JsonValue:
    """Parse a reply's body or one of its events.

    The reply is paid for, so its usage is read even if parts are unusable.

    Raises:
        BodyRefused: it has very many lists or objects.
        UnreadableReply: it is not JSON.
    """
    if _is_dense(content):
        raise BodyRefused(f"a part of it has more than {_MOST_VALUES:,} lists and objects")
    try:
        return from_json(content, allow_inf_nan=False)
    except ValueError:
        # In a thread, since it is slow.
        return await asyncio.to_thread(_parse_broken, content)


def _is_dense(content: bytes) -> bool:
    """Whether a text has too many lists and objects; brackets in strings are only excluded if needed."""
    if _brackets(content) <= _MOST_VALUES:
        return False
    outside, texts = _STRING.subn(b"", content, count=_MOST_VALUES)
    return texts == _MOST_VALUES or _brackets(outside) > _MOST_VALUES


def _brackets(content: bytes) -> int:
    return content.count(b"[") + content.count(b"{")


def _parse_broken(content: bytes) -> JsonValue:
    """Parse JSON with NaN, overlong numbers, lone surrogates or excessive depth, replacing these."""
    try:
        value = json.loads(
            "".join(_shallow_parts(content.decode(errors="replace"))),
            strict=False,
            parse_constant=lambda _: None,
            parse_int=lambda digits: int(digits) if len(digits) <= _MOST_DIGITS else None,
            parse_float=lambda digits: number if math.isfinite(number := float(digits)) else None,
        )
        return from_json(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
    except (ValueError, RecursionError):
        # The parser's message would quote the body.
        raise UnreadableReply("it is not JSON; a proxy may have answered in the provider's place") from None


def _shallow_parts(text: str) -> Iterator[str]:
    """Yield JSON text with everything deeper than `_MOST_LEVELS` replaced by null."""
    depth = start = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        if match[0] in "[{":
            depth += 1
            if depth == _MOST_LEVELS + 1:
                yield text[start : match.start()]
                yield "null"
        elif match[0] in "]}":
            if depth == _MOST_LEVELS + 1:
                start = match.end()
            depth -= 1
    if depth <= _MOST_LEVELS:
        yield text[start:]


def shaped(body: JsonValue, shape: type[ReplyType]) -> ReplyType:
    """Validate a reply. Raises `UnreadableReply` if it has another shape."""
    try:
        return shape.model_validate(body)
    except ValidationError as error:
        raise UnreadableReply(f"unexpected form of: {join_problems(describe_problems(error)[:3])}") from None


def within(value: object, *path: str) -> Any:  # JSON from outside; callers check what they find
    """Follow a path into nested objects; None if it ends early."""
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


def model_name(body: JsonValue, asked: str) -> str:
    """Read the name of the model that answered; the requested name if it is missing or implausible."""
    name = within(body, "model")
    return name if isinstance(name, str) and _MODEL_NAME.fullmatch(name) else asked


def read_content(
    stop: Literal["truncated", "refused"] | None,
    text: str,
    uses: Sequence[tuple[object, object, object]],
    offered: Collection[str],
    items: Callable[[Sequence[ToolCall]], tuple[JsonValue, ...]],
) -> Content:
    """Return the content of a reply: its text, and its calls unless its stop reason makes them unusable.

    `items` builds the provider's own form of a reply with these calls.
    """
    # If no tools may be used, calls are ignored: the turn must answer.
    calls = tool_calls(uses, offered) if stop is None and offered else ()
    return Content(
        stop=stop or ("tools" if calls else "answer" if text.strip() else "empty"),
        text=text,
        tool_calls=calls,
        provider_items=items(calls) if calls else (),
    )


def own_items(items: Sequence[JsonValue], types: Collection[str]) -> list[dict[str, Any]]:
    """Return the items if this provider wrote them, else none: other items are rendered from our own fields."""
    is_own = all(str(within(item, "type")) in types for item in items)
    return [dict(cast("Mapping[str, Any]", item)) for item in items] if is_own else []


def tool_calls(uses: Sequence[tuple[object, object, object]], offered: Collection[str]) -> tuple[ToolCall, ...]:
    """Read the tool calls of a reply in order.

    If there are too many, the first excess call reports that to the model, and the others are dropped. `uses` holds
    each call's id, name and arguments, which are JSON text or already parsed.
    """
    uses = uses[: MOST_CALLS + 1]
    calls: list[ToolCall] = []
    room = _MOST_ARGUMENTS
    for position, (identity, (_, tool, arguments)) in enumerate(zip(_identities(uses), uses, strict=True)):
        call = tool_call(position, identity, str(tool or "")[:200], arguments, offered)
        room -= _size(call.arguments) or 0
        if room < 0:
            call = _malformed_call(identity, call.tool, f"all calls together have more than {_MOST_ARGUMENTS} bytes")
        calls.append(call)
    return tuple(calls)


def tool_call(position: int, identity: str, tool: str, arguments: object, offered: Collection[str]) -> ToolCall:
    if position >= MOST_CALLS:
        return _malformed_call(identity, tool, f"more than {MOST_CALLS} calls in one reply; ask for fewer at a time")
    if tool not in offered:
        known = ", ".join(sorted(offered)) or "none"
        return _malformed_call(identity, tool, f"there is no such tool; the tools are: {known}")
    read = _arguments(arguments)
    return (
        _malformed_call(identity, tool, read)
        if isinstance(read, str)
        else ToolCall(id=identity, tool=tool, arguments=read)
    )


def _arguments(written: object) -> dict[str, JsonValue] | str:
    """Parse the arguments of a call, or return why they are unusable."""
    too_long = f"the arguments are longer than {LONGEST_ARGUMENTS} bytes"
    if isinstance(written, str):
        if len(written) > LONGEST_ARGUMENTS:
            return too_long
        try:
            # Strict JSON: no NaN, no lone surrogates, and nesting that a parser survives.
            written = from_json(written or "{}", allow_inf_nan=False)
        except ValueError as error:
            return f"the arguments are not valid JSON: {str(error)[:120]}"
    if not isinstance(written, dict):
        return "the arguments are not a JSON object"
    arguments = cast("dict[str, JsonValue]", written)
    if depth(arguments) > MOST_DEPTH:
        return f"the arguments are nested deeper than {MOST_DEPTH} levels"
    size = _size(arguments)
    if size is None:
        return "the arguments are not valid JSON: a number is too large"
    return arguments if size <= LONGEST_ARGUMENTS else too_long


def returnable(items: Sequence[JsonValue]) -> tuple[JsonValue, ...]:
    """Return a reply in the provider's own format, or nothing if it is too large to keep.

    In that case it is sent back to the provider in our own format.
    """
    if len(items) > _MOST_ITEMS or depth(list(items)) > _MOST_LEVELS:
        return ()
    size = _size(items)
    return () if size is None or size > _LARGEST_ITEMS else tuple(items)


def is_small(*values: object) -> bool:
    """Whether untrusted values are small enough to process in the event loop."""
    room = _SMALL
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            room -= len(value)
        elif isinstance(value, Mapping):
            held = cast("Mapping[str, object]", value)
            room -= sum(map(len, held))
            waiting += held.values()
        elif isinstance(value, list | tuple):
            waiting += cast("Sequence[object]", value)
        room -= 1
        if room < len(waiting):
            return False
    return True


def _size(value: object) -> int | None:
    """Return the bytes of a value as JSON; None if it has a number that is invalid in JSON, such as 1e999."""
    try:
        return len(json.dumps(value, ensure_ascii=False, allow_nan=False).encode())
    except ValueError:
        return None


def arguments_text(call: ToolCall) -> str:
    """Write a call's arguments as JSON; unreadable ones are omitted."""
    arguments: Mapping[str, JsonValue] = {} if call.malformed else call.arguments
    return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))


def _identities(uses: Sequence[tuple[object, object, object]]) -> list[str]:
    """Return a unique id for each call; some servers send none, or the same for all."""
    identities = [identity for identity, _, _ in uses if isinstance(identity, str) and _IDENTITY.fullmatch(identity)]
    if len(set(identities)) == len(uses):
        return identities
    return [f"call_{position}" for position in range(1, len(uses) + 1)]


def _malformed_call(identity: str, tool: str, why: str) -> ToolCall:
    # The name is sent back to the provider, which accepts no other characters.
    return ToolCall(id=identity, tool=re.sub(r"[^A-Za-z0-9_-]", "_", tool)[:64] or "unnamed", malformed=why)
