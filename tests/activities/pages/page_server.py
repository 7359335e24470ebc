"""A loopback web server whose answers are given byte for byte, and a network that leads to it."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from httpcore2 import AnyIOBackend, AsyncNetworkBackend, AsyncNetworkStream

from activities.http.guarded_get import SocketOption

PUBLIC = "93.184.216.34"

Page = Callable[[asyncio.StreamWriter], Awaitable[None]]
"""Writes one response."""


def answer(body: bytes = b"", status: str = "200 OK", content_type: str = "text/plain", **headers: str) -> Page:
    """Make an ordinary response; header names are written with `_` for `-`."""

    async def write(writer: asyncio.StreamWriter) -> None:
        named = {"Content-Type": content_type, "Content-Length": str(len(body))}
        named.update({name.replace("_", "-"): value for name, value in headers.items()})
        lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in named.items() if value), "", ""]
        writer.write("\r\n".join(lines).encode("latin-1") + body)
        await writer.drain()

    return write


@dataclass
class PageServer:
    """The pages served by path, and the requests received."""

    port: int = 0
    pages: dict[str, Page] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    """The head of each request."""

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def paths(self) -> list[str]:
        return [request.split(" ")[1] for request in self.requests]


@asynccontextmanager
async def serve_pages() -> AsyncGenerator[PageServer]:
    state = PageServer()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if (first := await reader.readexactly(1)) == b"\x16":
                return  # a TLS client would wait for a response that is not HTTP
            request = (first + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            state.requests.append(request)
            await state.pages.get(request.split(" ")[1], answer(status="404 Not Found"))(writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client went away, as some of the tests want
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    state.port = server.sockets[0].getsockname()[1]
    try:
        yield state
    finally:
        server.close()
        await server.wait_closed()


class Dial(AsyncNetworkBackend):
    """Connects to one server for any requested address, and records the addresses."""

    def __init__(self, port: int = 0) -> None:
        self.dialled: list[tuple[str, int]] = []
        self._port = port
        self._network = AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  # the signature is httpcore2's
        local_address: str | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> AsyncNetworkStream:
        self.dialled.append((host, port))
        assert self._port, "nothing may be dialled in this test"
        return await self._network.connect_tcp("127.0.0.1", self._port, timeout, local_address, socket_options)


class Names:
    """A resolver that gives preset answers in turn."""

    def __init__(self, *answers: tuple[str, ...]) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[str, int]] = []

    async def resolve(self, host: str, port: int) -> tuple[str, ...]:
        self.asked.append((host, port))
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
