"""A reply as it comes: server-sent events, read one by one, so that a connection gone silent is noticed in seconds.

The lines are read here and not by the SDKs, which drop the very events that say that a thinking model is alive.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from pydantic import JsonValue

from activities.models.failures import UnreadableReply
from activities.models.replies import parse

_LONGEST_REPLY_BYTES: Final = 32 * 1024 * 1024
"""Far above what the output tokens of any turn come to."""
_DRAIN_SECONDS: Final = 0.25
"""How long a connection may take to end properly, so that it can be used again."""


@dataclass(frozen=True)
class Patience:
    """How long a provider may be silent before a call is given up, as long as the call's own time lasts."""

    first_seconds: float
    """Until the first word of the answer, which models on slow machines prepare in silence."""
    gap_seconds: float
    """Between two lines of the answer: events, or what only says that the provider is still there."""


STEADY: Final = Patience(first_seconds=60.0, gap_seconds=60.0)
"""For providers that say every 15 to 30 seconds that they are still there: two such words may be missed."""
SLOW_TO_BEGIN: Final = Patience(first_seconds=3_600.0, gap_seconds=60.0)
"""For one's own machine, which reads a long prompt in silence."""


class Response(Protocol):
    """What is needed of an SDK's response."""

    @property
    def headers(self) -> Mapping[str, str]: ...

    def iter_bytes(self) -> AsyncIterator[bytes]: ...


class Fold(Protocol):
    """Puts the events of one wire together to the body that the provider would have sent at once."""

    def take(self, event: Mapping[str, JsonValue]) -> bool:
        """Take an event in; tell whether it was the last."""
        ...

    def is_complete(self) -> bool:
        """Whether the reply is whole although no event said so."""
        ...

    @property
    def body(self) -> JsonValue:
        """The reply; whole only at the end."""
        ...


async def receive(
    asking: AbstractAsyncContextManager[Response], fold: Fold, *, patience: Patience, whole_seconds: float
) -> JsonValue:
    """Ask, and give the body of the reply: from its events, or as it is if the provider does not stream.

    Raises:
        TimeoutError: it took too long as a whole, or fell silent.
        UnreadableReply: it is no such reply, or ended before its end.
    """
    whole = asyncio.timeout(whole_seconds)
    try:
        async with whole, _patient(patience) as heard, asking as response:
            heard()
            return await _body(response, fold, heard)
    except TimeoutError:
        if not whole.expired():
            raise
        raise TimeoutError(f"it was not done after {whole_seconds:g} seconds.") from None


async def _body(response: Response, fold: Fold, heard: Callable[[], None]) -> JsonValue:
    async with aclosing(_lines(response, heard)) as lines:
        if "text/event-stream" not in response.headers.get("content-type", ""):
            return parse(b"".join([line async for line in lines]))
        async for event in _events(lines):
            if fold.take(event):
                await _drain(lines)
                return fold.body
    if not fold.is_complete():
        raise UnreadableReply("it broke off before its end")
    return fold.body


@asynccontextmanager
async def _patient(patience: Patience) -> AsyncGenerator[Callable[[], None]]:
    """Give up after a silence; what is given is to be called at every word."""
    loop = asyncio.get_running_loop()
    allowed = patience.first_seconds

    def heard() -> None:
        nonlocal allowed
        allowed = patience.gap_seconds
        quiet.reschedule(loop.time() + allowed)

    quiet = asyncio.timeout(allowed)
    try:
        async with quiet:
            yield heard
    except TimeoutError:
        if not quiet.expired():
            raise
        raise TimeoutError(f"it said nothing for {allowed:g} seconds.") from None


async def _lines(response: Response, heard: Callable[[], None]) -> AsyncGenerator[bytes]:
    """Read line by line, the line's end included. Dripping bytes are no word until they are a line."""
    length = 0
    begun = bytearray()
    async for chunk in response.iter_bytes():
        length += len(chunk)
        if length > _LONGEST_REPLY_BYTES:
            raise UnreadableReply(f"it is longer than {_LONGEST_REPLY_BYTES} bytes")
        if b"\n" not in chunk:
            begun += chunk
            continue
        heard()
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            yield bytes(begun) + line + b"\n"
            begun.clear()
        begun += rest
    if begun:
        yield bytes(begun)


async def _events(lines: AsyncIterator[bytes]) -> AsyncIterator[Mapping[str, JsonValue]]:
    """Read events up to the end, or to the word by which OpenAI's wire ends."""
    data: list[bytes] = []
    async for line in lines:
        field = line.rstrip(b"\r\n")
        if field.startswith(b"data:"):
            data.append(field.removeprefix(b"data:").removeprefix(b" "))
        if field or not data:
            continue
        if data == [b"[DONE]"]:
            return
        yield _event(data)
        data.clear()
    if data and data != [b"[DONE]"]:
        yield _event(data)


def _event(data: list[bytes]) -> Mapping[str, JsonValue]:
    event = parse(b"\n".join(data))
    if not isinstance(event, dict):
        raise UnreadableReply("an event of it is not a JSON object")
    return event


async def _drain(lines: AsyncIterator[bytes]) -> None:
    """Read what is left, so that the connection can be used again; the reply is there, whatever goes wrong now."""
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for _ in lines:
                pass
    except Exception:  # noqa: BLE001, S110  # nothing that happens behind the reply may cost it
        pass
