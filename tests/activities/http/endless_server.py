"""Servers on loopback whose answers never end, and servers whose certificates are not to be trusted."""

import threading
import zlib
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from tests.loopback_http import LoopbackHandler, serve_http

MOST_SENT = 256 << 20
"""Where the server gives up on a client that reads everything."""


@dataclass
class EndlessServer:
    """A server that answers `/<status>/…` with that status, and `/<status>-<encoding>/…` so compressed, for ever."""

    url: str = ""
    redirects_to: str = ""
    sent: int = 0
    """Bytes of bodies that the network took."""
    answering: int = 0
    """Answers that a client has not hung up on."""
    changed: threading.Condition = field(default_factory=threading.Condition)

    def wait(self) -> None:
        """Wait until the clients have hung up on every answer."""
        with self.changed:
            assert self.changed.wait_for(lambda: not self.answering, timeout=20), "a client did not hang up"

    def count(self, answers: int) -> None:
        """Count answers that begin or end."""
        with self.changed:
            self.answering += answers
            self.changed.notify_all()


@contextmanager
def serve_endlessly() -> Generator[tuple[EndlessServer, list[str]]]:
    """Serve until the block ends; yields the server and the requests that were redirected elsewhere."""
    server = EndlessServer()
    elsewhere: list[str] = []

    class Target(LoopbackHandler):
        def reply(self) -> None:
            elsewhere.append(f"{self.command} {self.path}")
            self.answer(404)

    class Endless(LoopbackHandler):
        protocol_version = "HTTP/1.1"

        def reply(self) -> None:
            server.count(1)
            self.close_connection = True
            self.body()
            status, _, encoding = self.path.split("/")[1].partition("-")
            self.send_response(int(status))
            self.send_header("Connection", "close")
            self.send_header("Content-Type", "application/json")
            if encoding:
                self.send_header("Content-Encoding", encoding)
            if status.startswith("3"):
                self.send_header("Location", server.redirects_to)
            self.end_headers()
            self._send_body(encoding)

        def do_PUT(self) -> None:  # noqa: N802  # the base class's name
            self.reply()

        def _send_body(self, encoding: str) -> None:
            deflater = zlib.compressobj(wbits=zlib.MAX_WBITS | 16) if encoding == "gzip" else None
            with suppress(OSError):
                while server.sent < MOST_SENT:
                    content = deflater.compress(bytes(1 << 20)) if deflater else b" " * 16_384
                    self.wfile.write(content)
                    server.sent += len(content)
            server.count(-1)

    with serve_http(Endless) as url, serve_http(Target) as other:
        server.url, server.redirects_to = url, f"{other}/target"
        yield server, elsewhere
