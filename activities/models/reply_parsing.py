"""What is the same in reading every provider's reply: it is data from outside, whatever the SDK's types say."""

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_core import from_json

from activities.models.failures import UnreadableReply

_MOST_TOKENS = 1_000_000_000
ReplyType = TypeVar("ReplyType", bound=BaseModel)


def parse(content: bytes) -> JsonValue:
    """Read a reply's body, or an event of it.

    Raises:
        UnreadableReply: if it is not JSON.
    """
    try:
        return from_json(content, allow_inf_nan=False)
    except ValueError:
        # The parser's own words would quote the body.
        raise UnreadableReply("it is not JSON; a proxy may have answered in the provider's place") from None


def shaped(body: JsonValue, shape: type[ReplyType]) -> ReplyType:
    """Read a reply as what it must be.

    Raises:
        UnreadableReply: if it has another shape.
    """
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
    """Read a number of tokens: `absent` if it is not given, None if it is given and cannot be true."""
    value = within(usage, *path)
    if value is None:
        return absent
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS:
        return value
    return None
