"""Receives a streamed reply event by event, which makes a silent connection noticeable within seconds.

Lines are read here rather than by the SDKs, which drop the keep-alive events of a thinking model.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from typing import Final, Protocol

from pydantic import JsonValue

from activities.http.response_limits import BodyRefused
from activities.models.failures import ReportedError, UnreadableReply
from activities.models.replies import parse
from activities.processes.stall_timeout import stall_limit

_LONGEST_EVENT_BYTES: Final = 4_000_000
"""Far above the output of any turn; parsing an event blocks everything else."""
_EVENTS_AT_ONCE: Final = 100
"""Number of events processed before yielding to the event loop."""
_USUAL_OUTPUT_TOKENS: Final = 8_000
"""The output cap up to which patience is as configured."""
_DRAIN_SECONDS: Final = 0.25
"""Time for a response to end properly, so that its connection can be reused."""


@dataclass(frozen=True)
class Patience:
    """Maximum silence of a provider before a call is abandoned; the call's own timeout applies too."""

    first_seconds: float
    """Until the first line; slow machines send nothing before it."""
    gap_seconds: float
    """Between two lines: events or keep-alives."""

    def for_output(self, tokens: int) -> "Patience":
        """Return more patience for a call with a larger output cap, since the model may think longer."""
        factor = max(1.0, tokens / _USUAL_OUTPUT_TOKENS)
        return Patience(self.first_seconds * factor, self.gap_seconds * factor)


STEADY: Final = Patience(first_seconds=60.0, gap_seconds=60.0)
"""For providers that send a keep-alive every 15 to 30 seconds, two of which may be missed."""
SLOW_TO_BEGIN: Final = Patience(first_seconds=180.0, gap_seconds=60.0)
"""For a local model, which sends nothing while it processes a long prompt."""


class Response(Protocol):
    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def stream(self) -> AsyncIterable[bytes]: ...


class Fold(Protocol):
    """Assembles the events of one API into the body of an unstreamed reply."""

    def take(self, event: Mapping[str, JsonValue]) -> bool: ...

    def is_complete(self) -> bool:
        """Whether the reply is complete, even without a last event."""
        ...

    @property
    def has_begun(self) -> bool:
        """Whether the model has written anything, including thoughts and tool calls."""
        ...

    @property
    def body(self) -> JsonValue:
        """The reply so far; complete only at the end."""
        ...

    @property
    def text(self) -> str:
        """The text so far, without thoughts and tool calls."""
        ...


async def receive(
    request: AbstractAsyncContextManager[Response],
    fold: Fold,
    *,
    patience: Patience,
    whole_seconds: float,
    on_event: Callable[[Fold], None],
) -> JsonValue:
    """Send a request and return the body of the reply, assembled from its events if streamed.

    Raises:
        TimeoutError: it took too long as a whole, or sent nothing for too long.
        UnreadableReply: it is malformed or incomplete.
    """
    whole = asyncio.timeout(whole_seconds)
    try:
        silence = stall_limit(patience.first_seconds, patience.gap_seconds)
        async with whole, silence as on_line, request as response:
            on_line()
            return await _body(response, fold, on_line, on_event)
    except TimeoutError:
        if not whole.expired():
            raise
        raise TimeoutError(f"it was not done after {whole_seconds:g} seconds.") from None


async def _body(
    response: Response, fold: Fold, on_line: Callable[[], None], on_event: Callable[[Fold], None]
) -> JsonValue:
    async with aclosing(_lines(response, on_line)) as lines:
        if "text/event-stream" not in response.headers.get("content-type", ""):
            whole = bytearray()
            async for piece in lines:
                whole += b"".join(line + b"\n" for line in piece)
                _bound(len(whole))
            return await parse(bytes(whole))
        problem = ""
        read = 0
        async for data in _events(lines):
            read += 1
            if read % _EVENTS_AT_ONCE == 0:  # one network read may contain thousands
                await asyncio.sleep(0)
            try:
                is_last = fold.take(await _event(data))
            except ReportedError:
                raise
            except Exception as error:  # noqa: BLE001  # bad events must not stop the reading: the end has the price
                described = str(error) if isinstance(error, UnreadableReply | BodyRefused) else type(error).__name__
                problem, is_last = problem or described, False
            if is_last:
                await _drain(lines)
                break
            on_event(fold)
        else:
            if not problem and not fold.is_complete():
                raise UnreadableReply("it ended too early")
    if problem:
        raise UnreadableReply(problem, fold.body)
    return fold.body


async def _lines(response: Response, on_line: Callable[[], None]) -> AsyncGenerator[Sequence[bytearray]]:
    """Yield the lines of each piece; single bytes count as progress only when they complete a line."""
    begun = bytearray()
    async for chunk in response.stream:
        begun += chunk
        if b"\n" not in chunk:
            _bound(len(begun))
            continue
        on_line()
        *whole, begun = begun.split(b"\n")
        yield whole
    if begun:
        yield [begun]


async def _events(pieces: AsyncIterator[Sequence[bytearray]]) -> AsyncIterator[bytes]:
    """Yield the data of events until the stream ends or OpenAI's end marker arrives."""
    data: list[bytearray] = []
    length = 0
    async for lines in pieces:
        for line in lines:
            field = line.rstrip(b"\r\n")
            if field.startswith(b"data:"):
                _bound(length := length + len(field))
                data.append(field.removeprefix(b"data:").removeprefix(b" "))
            if field or not data:
                continue
            if data == [b"[DONE]"]:
                return
            yield b"\n".join(data)
            data.clear()
            length = 0
    if data and data != [b"[DONE]"]:
        yield b"\n".join(data)


def _bound(length: int) -> None:
    if length > _LONGEST_EVENT_BYTES:
        raise BodyRefused(f"a part of it is larger than {_LONGEST_EVENT_BYTES / 1_000_000:g} MB")


async def _event(data: bytes) -> Mapping[str, JsonValue]:
    event = await parse(data)
    if not isinstance(event, dict):
        raise UnreadableReply("an event of it is not a JSON object")
    return event


async def _drain(lines: AsyncIterator[Sequence[bytearray]]) -> None:
    """Read the rest so that the connection can be reused; errors are ignored, since the reply is complete."""
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for _ in lines:
                pass
    except Exception:  # noqa: BLE001, S110  # an error after the reply must not lose it
        pass
