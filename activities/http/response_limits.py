"""Limits of all HTTP clients: bodies are bounded for any status, and redirects are not followed.

Bodies are decoded here piece by piece, since the clients would decompress a small piece to any size.
"""

import ssl
import zlib
from collections.abc import AsyncIterator, Callable
from functools import cache
from typing import Any, Final, TypeVar

from activities.processes.stall_timeout import note_progress

MOST_ERROR_BYTES: Final = 64_000
"""Maximum length read of an unsuccessful response's body; beyond that, the status suffices."""
_NOT_ENCODED: Final = frozenset({"", "identity"})
_ENCODINGS: Final = frozenset({"gzip", "x-gzip", "deflate"})
_MISCONFIGURED: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL"})
Client = TypeVar("Client")
_Look = Callable[[bytes], None] | None


class BodyRefused(Exception):  # noqa: N818  # reads as a statement of fact
    """A response body is refused: it is too long, or uses a compression that was not requested."""


def limit_client(
    client: Client, most_bytes: int, check: Callable[[str], Callable[[bytes], None]] | None = None
) -> Client:
    """Bound the bodies received by an `AsyncClient` of httpx or httpx2, and disable redirects.

    `check` takes the content type, and returns a callback for each decoded part; it may raise `BodyRefused`.
    """

    async def limit_response(response: Any) -> None:
        encoding = response.headers.pop("content-encoding", "").strip().lower()
        room = most_bytes if response.is_success else MOST_ERROR_BYTES
        stream: Any = response.stream
        look = check(response.headers.get("content-type", "")) if check else None
        response.stream = _body_type(stream.__class__)(stream, encoding, room, response.is_success, look)

    untyped: Any = client  # the two libraries share no type
    untyped.follow_redirects = False
    untyped.headers["Accept-Encoding"] = "identity"
    hooks = untyped.event_hooks
    untyped.event_hooks = {**hooks, "response": [limit_response, *hooks["response"]]}
    return client


async def bounded_parts(
    chunks: AsyncIterator[bytes], encoding: str, *, wire_bytes: int, decoded_bytes: int
) -> AsyncIterator[bytes]:
    """Decode a body. Raises `BodyRefused` as soon as it exceeds its limit, encoded or decoded."""
    if encoding not in _NOT_ENCODED | _ENCODINGS:
        raise BodyRefused(f"it is compressed as {encoding[:40]}, which cannot be read")
    most = decoded_bytes
    inflater = zlib.decompressobj(zlib.MAX_WBITS | 32) if encoding in _ENCODINGS else None
    async for chunk in chunks:
        note_progress()
        try:
            # Never inflates beyond the limit, whatever a small chunk contains.
            part = inflater.decompress(chunk, decoded_bytes + 1) if inflater else chunk
        except zlib.error:
            raise BodyRefused("it is compressed in a way that cannot be read") from None
        wire_bytes -= len(chunk)
        decoded_bytes -= len(part)
        if wire_bytes < 0 or decoded_bytes < 0:
            raise BodyRefused(f"it is larger than {most / 1_000_000:g} MB")
        yield part


def describe_tls_error(error: BaseException) -> str:
    """Describe a permanent fault of a server's certificate or protocol; empty for other errors."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({cause.verify_message})"
        if isinstance(cause, ssl.SSLError) and cause.reason in _MISCONFIGURED:
            return "it does not speak TLS at this address"
        cause = cause.__cause__ or cause.__context__
    return ""


async def _readable(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield a body up to the limit, ignoring the rest."""
    try:
        async for part in parts:
            yield part
    except BodyRefused:
        pass


async def _inspect(parts: AsyncIterator[bytes], look: Callable[[bytes], None]) -> AsyncIterator[bytes]:
    async for part in parts:
        look(part)
        yield part


@cache
def _body_type(kind: type[Any]) -> type[Any]:
    base = next(each for each in kind.__mro__ if each.__name__ == "AsyncByteStream")
    return type("BoundedBody", (_BoundedBody, base), {})


class _BoundedBody:
    def __init__(self, stream: Any, encoding: str, room: int, is_success: bool, look: _Look) -> None:  # noqa: FBT001  # made in one place
        self._stream = stream
        self._encoding = encoding
        self._room = room
        self._is_success = is_success
        self._look = look

    def __aiter__(self) -> AsyncIterator[bytes]:
        parts = bounded_parts(aiter(self._stream), self._encoding, wire_bytes=self._room, decoded_bytes=self._room)
        if not self._is_success:
            return _readable(parts)
        return parts if self._look is None else _inspect(parts, self._look)

    async def aclose(self) -> None:
        await self._stream.aclose()
