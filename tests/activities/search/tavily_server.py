"""A loopback server that speaks Tavily's search endpoint."""

import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class TavilyServer:
    """What the server answers, and what it was asked."""

    url: str = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    headers_by_query: dict[str, dict[str, str]] = field(default_factory=dict)
    body: bytes = b'{"query": "", "results": []}'
    results_for: Callable[[str], list[dict[str, Any]]] | None = None
    """What is found for a query, if that is not always the same."""
    asked: list[dict[str, Any]] = field(default_factory=list)
    authorizations: list[str | None] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    def answer(self, results: list[dict[str, Any]]) -> None:
        self.body = json.dumps({"query": "", "results": results}).encode()


@contextmanager
def serve_tavily() -> Generator[TavilyServer]:
    state = TavilyServer()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Say nothing."""

        def do_POST(self) -> None:
            state.paths.append(self.path)
            state.authorizations.append(self.headers.get("authorization"))
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            state.asked.append(asked)
            self.send_response(state.status)
            more = state.headers_by_query.get(asked["query"], {})
            for name, value in {"Content-Type": "application/json", **state.headers, **more}.items():
                self.send_header(name, value)
            if state.results_for:
                state.answer(state.results_for(asked["query"]))
            body = state.body
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
