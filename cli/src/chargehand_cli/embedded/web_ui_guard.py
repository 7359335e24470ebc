"""The only way to the embedded server's Web UI: a reverse proxy that refuses requests made by other web pages.

The Web UI itself accepts any `Host`, so a page whose name resolves to this machine could read and start sessions.
One request is checked and forwarded per connection. Standard library only; it runs in a thread of the keeper.
"""

import asyncio
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from chargehand_cli.embedded.server import HOST, ServerFailed, listening_socket

_MOST_HEAD_BYTES: Final = 65_536
_HEAD_SECONDS: Final = 10
_MOST_CONNECTIONS: Final = 200
_PIECE_BYTES: Final = 65_536
_REQUEST_LINE: Final = re.compile(r"([A-Z]{3,7}) (/[!-~]*) HTTP/1\.[01]")
_HEADER_LINE: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*+([\t -~\x80-\xff]*)")
_READING: Final = ("GET", "HEAD")
_HOP_BY_HOP: Final = ("connection", "keep-alive", "proxy-connection", "te", "trailer", "upgrade", "expect")


class Refused(Exception):  # noqa: N818  # reads as a statement: `except Refused`
    """A request that is not forwarded; the message is the response's status line."""


class WebUiGuard:
    """Listens at the address that users get, and forwards requests made by their own navigation."""

    def __init__(self, upstream: tuple[str, int], *, prefer: tuple[int, ...] = ()) -> None:
        """Listen on the first free port of these, or on any."""
        self.upstream = upstream
        """Address of the Web UI; updated when the server restarts."""
        listening = next(filter(None, (listening_socket(port) for port in (*prefer, 0))), None)
        if listening is None:
            raise ServerFailed(f"no free port on {HOST}")
        self._listening = listening
        self.port = int(listening.getsockname()[1])
        self._connections = 0

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def start(self) -> None:
        """Serve in a thread for as long as the process lives."""
        threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True).start()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._accept, sock=self._listening, limit=_MOST_HEAD_BYTES)
        await server.serve_forever()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            if self._connections <= _MOST_CONNECTIONS:
                await self._answer(reader, writer)
        except (OSError, EOFError, TimeoutError):
            pass  # one side has hung up
        finally:
            self._connections -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            passed_on, body_bytes = check_request(head, self.port)
            carried = await self._connect()
        except asyncio.LimitOverrunError:
            writer.write(_refusal("431 Request Header Fields Too Large", self.url))
        except Refused as refused:
            writer.write(_refusal(str(refused), self.url))
        else:
            await _carry(reader, writer, carried, passed_on, body_bytes)
        await writer.drain()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            return await asyncio.open_connection(*self.upstream)
        except OSError:
            raise Refused("502 Bad Gateway") from None


def check_request(head: bytes, port: int) -> tuple[bytes, int]:
    """Return a request's head as forwarded, and the length of its body.

    `Host` must be this guard's own address. A request that changes anything must come from a page of that address,
    and every other one must be made by such a page or by following a link.

    Raises:
        Refused: the request is malformed, or not for this address, or made by another page.
    """
    request_line, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    request = _REQUEST_LINE.fullmatch(request_line)
    matches = [_HEADER_LINE.fullmatch(line) for line in lines]
    if request is None or None in matches:
        raise Refused("400 Bad Request")
    headers = [(match[1].lower(), match[2].rstrip(" \t")) for match in matches if match]

    def values(name: str) -> list[str]:
        return [value for key, value in headers if key == name]

    hosts = values("host")
    if len(hosts) != 1 or hosts[0].lower() not in {f"{name}:{port}" for name in (HOST, "localhost")}:
        raise Refused("421 Misdirected Request")
    if not _is_own(values, request[1], f"http://{hosts[0].lower()}"):
        raise Refused("403 Forbidden")
    lengths = values("content-length")
    if (
        values("transfer-encoding")
        or len(lengths) > 1
        or not all(re.fullmatch("[0-9]{1,10}", each) for each in lengths)
    ):
        raise Refused("400 Bad Request")
    header_lines = [f"{name}: {value}" for name, value in headers if name not in _HOP_BY_HOP]
    passed_on = "\r\n".join([f"{request[1]} {request[2]} HTTP/1.1", *header_lines, "connection: close", "", ""])
    return passed_on.encode("latin-1"), int(lengths[0]) if lengths else 0


def _is_own(values: Callable[[str], list[str]], method: str, origin: str) -> bool:
    """Return whether a request comes from a page of this origin, or is a read that no page's script makes."""
    origins, sites = values("origin"), values("sec-fetch-site")
    if any(each.lower() != origin for each in origins) or not (origins or method in _READING):
        return False
    is_link = method in _READING and values("sec-fetch-mode") == ["navigate"]
    return is_link or all(each in ("same-origin", "none") for each in sites)


def _refusal(status: str, url: str) -> bytes:
    body = f"{status}\nThis Web UI is at {url} and answers only requests made there.\n".encode()
    head = f"HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    return head.encode() + body


async def _carry(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    upstream: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    head: bytes,
    body_bytes: int,
) -> None:
    """Forward a request and its response until one side hangs up."""
    replies, requests = upstream
    requests.write(head)

    async def send() -> None:
        missing = body_bytes
        while missing and (piece := await reader.read(min(missing, _PIECE_BYTES))):
            requests.write(piece)
            await requests.drain()
            missing -= len(piece)
        while await reader.read(_PIECE_BYTES):
            pass  # what follows is unchecked and dropped

    async def receive() -> None:
        while piece := await replies.read(_PIECE_BYTES):
            writer.write(piece)
            await writer.drain()

    directions = [asyncio.create_task(send()), asyncio.create_task(receive())]
    try:
        done, _ = await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            each.result()
    finally:
        for each in directions:
            each.cancel()
        with suppress(OSError):
            requests.close()
