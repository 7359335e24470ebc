"""A loopback server that speaks the part of E2B's protocol that the SDK uses for one run of code."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class E2BServer:
    """What the server answers, and what it was asked."""

    url: str = ""
    create_status: int = 201
    execute_status: int = 200
    kill_status: int = 204
    lines: list[dict[str, Any]] = field(default_factory=list)
    hold_execution: threading.Event | None = None
    """Set by the test to let an execution end; without it executions end at once."""
    hold_creation: threading.Event | None = None
    created: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    executed: list[dict[str, Any]] = field(default_factory=list)
    killed: list[str] = field(default_factory=list)
    creating: threading.Event = field(default_factory=threading.Event)
    executing: threading.Event = field(default_factory=threading.Event)


def _handler(state: E2BServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Say nothing."""

        def _body(self) -> dict[str, Any]:
            return json.loads(self.rfile.read(int(self.headers.get("content-length", "0"))) or b"{}")

        def _answer(self, status: int, body: bytes = b"", content_type: str = "application/json") -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self._answer(204)

        def do_POST(self) -> None:
            if self.path == "/v2/sandboxes":
                state.created.append(self._body())
                state.keys.append(self.headers.get("x-api-key"))
                state.creating.set()
                if state.hold_creation:
                    state.hold_creation.wait(30)
                if state.create_status >= 300:
                    self._answer(state.create_status, json.dumps({"code": 1, "message": "no"}).encode())
                    return
                made = {"sandboxID": "sb1", "templateID": "t", "clientID": "c", "envdVersion": "0.4.0"}
                self._answer(201, json.dumps(made).encode())
            else:
                state.executed.append(self._body())
                state.executing.set()
                if state.hold_execution:
                    state.hold_execution.wait(30)
                body = "".join(json.dumps(line) + "\n" for line in state.lines).encode()
                self._answer(state.execute_status, body, "application/x-ndjson")

        def do_DELETE(self) -> None:
            state.killed.append(self.path.rsplit("/", 1)[-1])
            self._answer(state.kill_status)

    return Handler


@contextmanager
def serve_e2b() -> Generator[E2BServer]:
    state = E2BServer()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(state))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield state
    finally:
        for held in (state.hold_execution, state.hold_creation):
            if held:
                held.set()
        server.shutdown()
        server.server_close()
        thread.join()
