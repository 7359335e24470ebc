"""A loopback server that speaks the part of E2B's protocol that the SDK uses for one run of code."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.policy import HTTP
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.loopback_http import LoopbackHandler, serve_http


@dataclass
class E2BServer:
    """The server's answers and the requests it received."""

    url: str = ""
    create_status: int = 201
    execute_status: int = 200
    kill_status: int = 204
    lines: list[dict[str, Any]] = field(default_factory=list)
    """Lines of the response to an execution."""
    flood_bytes: int = 0
    """If set, an execution answers one line of this size instead."""
    saved: dict[str, bytes | None] = field(default_factory=dict)
    """Files in the folder for artifacts, by name; None for anything but a regular file."""
    told_sizes: dict[str, int] = field(default_factory=dict)
    """False file sizes that the sandbox reports."""
    running: dict[str, dict[str, str]] = field(default_factory=dict)
    """Metadata of running sandboxes by id, for list requests."""
    asked_for: list[dict[str, list[str]]] = field(default_factory=list)
    """Query parameters of the list requests."""
    written: dict[str, bytes] = field(default_factory=dict)
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


class _Handler(LoopbackHandler):
    protocol_version = "HTTP/1.1"
    state: E2BServer

    def reply(self) -> None:
        {"GET": self._get, "POST": self._post, "DELETE": self._delete}[self.command]()

    def _body(self) -> dict[str, Any]:
        return json.loads(self.body() or b"{}")

    def _answer(self, status: int, body: bytes = b"", content_type: str = "application/json") -> None:
        self.answer(status, body, Content_Type=content_type)

    def _get(self) -> None:
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

    def _post(self) -> None:
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
        parts = message_from_bytes(head + self.body(), policy=HTTP).iter_parts()
        path = parse_qs(urlsplit(self.path).query).get("path")
        told: list[dict[str, str]] = []
        for part in parts:
            name = path[0] if path else str(part.get_filename())
            self.state.written[name] = part.get_payload(decode=True)  # pyright: ignore[reportArgumentType]  # of a leaf
            told.append({"name": name.rpartition("/")[2], "type": "file", "path": name})
        self._answer(200, json.dumps(told).encode())

    def _delete(self) -> None:
        sandbox = self.path.rsplit("/", 1)[-1]
        self.state.killed.append(sandbox)
        self.state.running.pop(sandbox, None)
        self._answer(self.state.kill_status)


def _listed(sandbox: str, metadata: dict[str, str]) -> dict[str, Any]:
    """Return the entry of a running sandbox in the list."""
    return {
        "sandboxID": sandbox, "templateID": "t", "clientID": "c", "startedAt": "2026-11-01T10:00:00Z",
        "endAt": "2026-11-01T10:05:00Z", "cpuCount": 2, "memoryMB": 512, "diskSizeMB": 1024, "state": "running",
        "envdVersion": "0.4.0", "metadata": metadata,
    }  # fmt: skip


@contextmanager
def serve_e2b() -> Generator[E2BServer]:
    state = E2BServer()
    with serve_http(type("Handler", (_Handler,), {"state": state})) as state.url:
        try:
            yield state
        finally:
            for held in (state.hold_execution, state.hold_creation):
                if held:
                    held.set()
