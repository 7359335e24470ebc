"""An HTTP server on loopback in a separate thread, for tests with their own request handler; and free ports."""

import asyncio
import socket
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import SystemRandom
from typing import Any


def free_port() -> int:
    """Choose a free port outside the range from which the kernel assigns ports to connections."""
    while True:
        port = SystemRandom().randrange(12_000, 32_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


@dataclass
class Collector:
    """A server that answers nothing, and the number of connections to it."""

    host: str
    connections: int = 0


@asynccontextmanager
async def collecting() -> AsyncGenerator[Collector]:
    """Count connections to a loopback port, whether or not anything is sent over them."""

    async def count(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        collector.connections += 1
        writer.close()

    async with await asyncio.start_server(count, "127.0.0.1", 0) as server:
        collector = Collector(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
        yield collector


class LoopbackHandler(BaseHTTPRequestHandler):
    """A handler that logs nothing and answers with a length."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Log nothing."""

    def do_GET(self) -> None:
        self.reply()

    def do_POST(self) -> None:
        self.reply()

    def do_DELETE(self) -> None:
        self.reply()

    def reply(self) -> None:
        """Answer the request; `self.command` is its method."""
        raise NotImplementedError

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("content-length", "0")))

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Send a whole response; header names are written with `_` for `-`."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that hang up, as some tests have them do."""


@contextmanager
def serve_http(handler: type[LoopbackHandler]) -> Generator[str]:
    """Serve until the block ends; yields the server's URL."""
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
