"""A loopback server that speaks the part of E2B's protocol that the SDK uses for one run of code."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass
class E2BServer:
    """What the server answers, and what it was asked."""

    url: str = ""
    create_status: int = 201
    execute_status: int = 200
    kill_status: int = 204
    lines: list[dict[str, Any]] = field(default_factory=list)
    """What the code's execution answers."""
    flood_bytes: int = 0
    """If set, an execution answers one line of this size instead."""
    retry_after: str = ""
    saved: dict[str, bytes | None] = field(default_factory=dict)
    """Files in the folder for artifacts, by name; None for what is no regular file."""
    told_sizes: dict[str, int] = field(default_factory=dict)
    """Sizes that the sandbox lies about."""
    running: dict[str, dict[str, str]] = field(default_factory=dict)
    """Metadata of sandboxes by id, for who asks which there are."""
    asked_for: list[dict[str, list[str]]] = field(default_factory=list)
    """What was asked of the list of sandboxes."""
    written: dict[str, bytes] = field(default_factory=dict)
    listings: int = 0
    read: list[str] = field(default_factory=list)
    hold_execution: threading.Event | None = None
    """Set by the test to let an execution end; without it executions end at once."""
    hold_creation: threading.Event | None = None
    created: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    executed: list[dict[str, Any]] = field(default_factory=list)
    killed: list[str] = field(default_factory=list)
    creating: threading.Event = field(default_factory=threading.Event)
    executing: threading.Event = field(default_factory=threading.Event)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state: E2BServer

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""

    def _body(self) -> dict[str, Any]:
        return json.loads(self.rfile.read(int(self.headers.get("content-length", "0"))) or b"{}")

    def _answer(self, status: int, body: bytes = b"", content_type: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        if self.state.retry_after:
            self.send_header("Retry-After", self.state.retry_after)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        if url.path == "/v2/sandboxes":
            self.state.asked_for.append(query)
            found = [_listed(name, metadata) for name, metadata in self.state.running.items()]
            self._answer(200, json.dumps(found).encode())
        elif url.path == "/files":
            path = query["path"][0]
            self.state.read.append(path)
            content = self.state.saved.get(path.rpartition("/")[2])
            if content is None:
                self._answer(404, b'{"code": 404, "message": "no such file"}')
            else:
                self._answer(200, content, "application/octet-stream")
        else:
            self._answer(204)

    def do_POST(self) -> None:
        if self.path == "/v2/sandboxes":
            self.state.created.append(self._body())
            self.state.keys.append(self.headers.get("x-api-key"))
            self.state.creating.set()
            if self.state.hold_creation:
                self.state.hold_creation.wait(30)
            if self.state.create_status >= 300:
                self._answer(self.state.create_status, json.dumps({"code": 1, "message": "no"}).encode())
                return
            made = {"sandboxID": "sb1", "templateID": "t", "clientID": "c", "envdVersion": "0.4.0"}
            self._answer(201, json.dumps(made).encode())
        elif self.path.startswith("/files"):
            self._write_files()
        elif "_listing" in (asked := self._body())["code"]:
            self.state.listings += 1
            listing = [
                (n, None if c is None else self.state.told_sizes.get(n, len(c))) for n, c in self.state.saved.items()
            ]
            line = {"type": "stdout", "text": json.dumps(listing) + "\n", "timestamp": 1}
            self._answer(200, json.dumps(line).encode() + b"\n", "application/x-ndjson")
        else:
            self.state.executed.append(asked)
            self.state.executing.set()
            if self.state.hold_execution:
                self.state.hold_execution.wait(30)
            if self.state.flood_bytes:
                self._flood()
                return
            body = "".join(json.dumps(line) + "\n" for line in self.state.lines).encode()
            self._answer(self.state.execute_status, body, "application/x-ndjson")

    def _flood(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(self.state.flood_bytes))
        self.end_headers()
        for _ in range(self.state.flood_bytes >> 16):
            self.wfile.write(b"x" * (1 << 16))

    def _write_files(self) -> None:
        head = f"Content-Type: {self.headers['content-type']}\r\n\r\n".encode()
        body = self.rfile.read(int(self.headers["content-length"]))
        parts = message_from_bytes(head + body, policy=HTTP).iter_parts()
        path = parse_qs(urlsplit(self.path).query).get("path")
        told: list[dict[str, str]] = []
        for part in parts:
            name = path[0] if path else str(part.get_filename())
            self.state.written[name] = part.get_payload(decode=True)  # pyright: ignore[reportArgumentType]  # of a leaf
            told.append({"name": name.rpartition("/")[2], "type": "file", "path": name})
        self._answer(200, json.dumps(told).encode())

    def do_DELETE(self) -> None:
        sandbox = self.path.rsplit("/", 1)[-1]
        self.state.killed.append(sandbox)
        self.state.running.pop(sandbox, None)
        self._answer(self.state.kill_status)


def _listed(sandbox: str, metadata: dict[str, str]) -> dict[str, Any]:
    """A running sandbox as the list of them shows it."""
    return {
        "sandboxID": sandbox, "templateID": "t", "clientID": "c", "startedAt": "2026-11-01T10:00:00Z",
        "endAt": "2026-11-01T10:05:00Z", "cpuCount": 2, "memoryMB": 512, "diskSizeMB": 1024, "state": "running",
        "envdVersion": "0.4.0", "metadata": metadata,
    }  # fmt: skip


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a client that has heard enough hangs up."""


@contextmanager
def serve_e2b() -> Generator[E2BServer]:
    state = E2BServer()
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"state": state}))
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
