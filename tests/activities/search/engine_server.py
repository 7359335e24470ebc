"""A loopback server whose answers are given, for engines that are asked by GET or by a form."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit


@dataclass
class EngineServer:
    """What the server answers, and what it was asked."""

    url: str = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b'{"results": []}'
    hold: threading.Event | None = None
    """Answers wait for it."""
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    """Method, path and parameters of each request."""
    seen: list[dict[str, str]] = field(default_factory=list)
    """Its headers, by names in lower case."""


@contextmanager
def serve_engine() -> Generator[EngineServer]:
    state = EngineServer()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Say nothing."""

        def do_GET(self) -> None:
            self._answer(urlsplit(self.path).query)

        def do_POST(self) -> None:
            self._answer(self.rfile.read(int(self.headers["content-length"])).decode())

        def _answer(self, parameters: str) -> None:
            state.asked.append((self.command, urlsplit(self.path).path, dict(parse_qsl(parameters))))
            state.seen.append({name.lower(): value for name, value in self.headers.items()})
            if state.hold is not None:
                state.hold.wait(30)
            try:
                self.send_response(state.status)
                for name, value in state.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(state.body)))
                self.end_headers()
                self.wfile.write(state.body)
            except ConnectionError:
                pass  # the client went away, as some of the tests want

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield state
    finally:
        if state.hold is not None:
            state.hold.set()
        server.shutdown()
        server.server_close()
        thread.join()
