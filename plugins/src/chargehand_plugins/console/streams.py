"""Server-sent events of a session, with cursors as event ids."""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from http import HTTPStatus
from typing import Final, TypeVar

from starlette.responses import StreamingResponse

from chargehand import ChargehandError
from chargehand_plugins.console.problems import Problem

T = TypeVar("T")

_KEEP_ALIVE_SECONDS: Final = 15
_FIRST_SECONDS: Final = 2
"""Time to wait for the first event before the response starts; until then, errors have their own status."""
_LINE_ENDS: Final = re.compile(r"\r\n|\r|\n")
"""Line ends of the protocol; `splitlines` has others, which JSON may contain."""
_HEADERS: Final = {"X-Accel-Buffering": "no"}


class Streams:
    """Counts open streams."""

    def __init__(self, most: int) -> None:
        self._left = most

    async def open(self, messages: AsyncGenerator[str]) -> StreamingResponse:
        """Respond with a stream of messages.

        Raises:
            Problem: too many are open.
            ChargehandError: there is nothing to stream.
        """
        if self._left <= 0:
            raise Problem(
                HTTPStatus.SERVICE_UNAVAILABLE, "Too many event streams are open.", headers={"Retry-After": "30"}
            )
        self._left -= 1
        ahead = _Ahead(messages)
        try:
            await ahead.prime()
        except BaseException:
            await ahead.close()
            self._left += 1
            raise
        return StreamingResponse(self._stream(ahead), media_type="text/event-stream", headers=_HEADERS)

    async def _stream(self, ahead: "_Ahead") -> AsyncIterator[str]:
        try:
            yield "retry: 2000\n\n"
            async for message in ahead.messages():
                yield message
        finally:
            self._left += 1
            await ahead.close()


def message(data: str, event: str = "", cursor: str = "") -> str:
    """Serialise one event, so that its data cannot end it early."""
    lines = [f"id: {cursor}"] if cursor and not set(cursor) & set("\r\n\0") else []
    lines += [f"event: {event}"] if event else []
    return "\n".join([*lines, *(f"data: {line}" for line in _LINE_ENDS.split(data)), "", ""])


class _Ahead:
    """Reads one message ahead, filling silences with comments that keep proxies connected."""

    def __init__(self, source: AsyncGenerator[str]) -> None:
        self._source = source
        self._next = asyncio.ensure_future(anext(source, None))

    async def prime(self) -> None:
        """Read the first message, so that immediate errors are raised here."""
        done, _ = await asyncio.wait({self._next}, timeout=_FIRST_SECONDS)
        if done:
            self._next.result()

    async def messages(self) -> AsyncIterator[str]:
        while True:
            done, _ = await asyncio.wait({self._next}, timeout=_KEEP_ALIVE_SECONDS)
            if not done:
                yield ": still here\n\n"
                continue
            try:
                event = self._next.result()
            except ChargehandError:
                return  # the client resumes from its last event and gets the error then
            if event is None:
                return
            yield event
            self._next = asyncio.ensure_future(anext(self._source, None))

    async def close(self) -> None:
        self._next.cancel()
        with suppress(asyncio.CancelledError, ChargehandError):
            await self._next
        await self._source.aclose()
