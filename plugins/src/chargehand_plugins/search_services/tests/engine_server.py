"""A loopback search engine with preset answers, queried by GET, by a form or in JSON."""

import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.loopback_http import LoopbackHandler, serve_http


@dataclass
class EngineServer:
    """The server's answers and the requests it received."""

    url: str = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b'{"results": []}'
    below: str = ""
    """The key that contains the results; empty if they are at the top level."""
    results_for: Callable[[str], list[dict[str, Any]]] | None = None
    """Returns the results for a query, if they depend on it."""
    hold: threading.Event | None = None
    """An event that answers wait for."""
    asked: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    """Method, path and parameters of each request."""
    tokens: list[str | None] = field(default_factory=list)
    """`X-Subscription-Token` of each request."""
    authorizations: list[str | None] = field(default_factory=list)


@contextmanager
def serve_engine() -> Generator[EngineServer]:
    state = EngineServer()

    class Handler(LoopbackHandler):
        def reply(self) -> None:
            parameters: dict[str, Any] = dict(parse_qsl(urlsplit(self.path).query))
            if body := self.body():
                is_json = "json" in self.headers["content-type"]
                parameters = json.loads(body) if is_json else dict(parse_qsl(body.decode()))
            state.asked.append((self.command, urlsplit(self.path).path, parameters))
            state.authorizations.append(self.headers.get("authorization"))
            state.tokens.append(self.headers.get("x-subscription-token"))
            query = parameters.get("query", "")
            body = state.body
            if state.results_for:
                found = {"results": state.results_for(query)}
                body = json.dumps({state.below: found} if state.below else found).encode()
            if state.hold is not None:
                state.hold.wait(30)
            self.answer(state.status, body, **state.headers)

    with serve_http(Handler) as state.url:
        try:
            yield state
        finally:
            if state.hold is not None:
                state.hold.set()
