"""The service that a desk's tools call: one database per conversation, and a record of every effect.

It applies every request, so repeated calls become visible.
"""

import json
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from benchmarks.evaluation.desks.desk import Action, Desk, Task, Toolkit


class Request(BaseModel):
    """A request from a tool."""

    conversation: str
    key: str
    """The call's idempotency key."""
    action: Action
    is_lookup: bool = False
    """Whether to return only the outcome of an earlier call, if it was applied."""


class Answer(BaseModel):
    """The outcome of a request."""

    result: str | None = None
    """None for a lookup of a call that was not applied."""
    error: str = ""
    """Why the request was refused."""


@dataclass
class Books:
    """The record of one conversation."""

    kit: Toolkit
    effects: list[Action] = field(default_factory=list[Action])
    results: dict[str, str] = field(default_factory=dict[str, str])
    """Results of the acting calls that were applied, by key."""
    twice: list[str] = field(default_factory=list[str])
    """Tools with a call that was applied more than once."""


class Service:
    """Serves one desk."""

    def __init__(self, desk: Desk, answers_after: float) -> None:
        self.desk = desk
        self.address = ""
        self.acts = 0
        """Number of acting calls received."""
        self.lookups = 0
        """Number of calls that a worker looked up to learn whether they were applied."""
        self._answers_after = answers_after
        self._books: dict[str, Books] = {}
        self._lock = threading.Lock()

    def begin(self, conversation: str) -> None:
        """Open a database for a conversation."""
        with self._lock:
            self._books[conversation] = Books(self.desk.open())

    def end(self, conversation: str) -> Books:
        """Return the record of a conversation that has ended."""
        with self._lock:
            return self._books.pop(conversation)

    def answer(self, request: Request) -> Answer:
        """Apply a request; the answer to an acting call is delayed a little, so that its worker can be lost."""
        acts = request.action.name in self.desk.acting
        with self._lock:
            books = self._books[request.conversation]
            if request.is_lookup:
                self.lookups += 1
                return Answer(result=books.results.get(request.key))
            self.acts += acts
            try:
                returned = getattr(books.kit, request.action.name)(**request.action.arguments)
            except ValueError as error:
                return Answer(error=str(error))
            result = returned if isinstance(returned, str) else json.dumps(to_jsonable_python(returned))
            if acts:
                books.twice += [request.action.name] if request.key in books.results else []
                books.results[request.key] = result
                books.effects.append(request.action)
        if acts:
            time.sleep(self._answers_after)
        return Answer(result=result)


@contextmanager
def serve(desk: Desk, answers_after: float) -> Generator[Service]:
    """Serve a desk on the loopback interface, in threads."""
    service = Service(desk, answers_after)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # the library's name
            request = Request.model_validate_json(self.rfile.read(int(self.headers["Content-Length"])))
            body = service.answer(request).model_dump_json().encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the library's name
            """Write no log."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Log nothing about workers that were killed before they received their answer."""

    with Server(("127.0.0.1", 0), Handler) as server:
        service.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        thread.start()
        try:
            yield service
        finally:
            server.shutdown()
            thread.join()


def problems_of(desk: Desk, task: Task, books: Books, said: Sequence[str], *, is_oracle: bool) -> list[str]:
    """Compare the result of a conversation with a replay of the golden actions; empty if they match.

    An oracle must match the golden effects one by one; other agents may reach the same database in another way.
    """
    golden, due = desk.replay(task)
    problems: list[str] = []
    if books.kit.db.model_dump() != golden.model_dump():
        problems.append("The database is another one.")
    if books.twice:
        problems.append(f"Applied twice: {', '.join(books.twice)}.")
    if is_oracle and books.effects != due:
        problems.append(f"Applied {[each.name for each in books.effects]}, due {[each.name for each in due]}.")
    if task.told_counts and (missing := untold(task, said)):
        problems.append(f"Not told: {', '.join(missing)}.")
    return problems


def untold(task: Task, said: Sequence[str]) -> list[str]:
    """List what the agent should have told the customer but did not."""
    whole = " ".join(said).casefold().replace(",", "")
    return [each for each in task.tells if each.casefold().replace(",", "") not in whole]
