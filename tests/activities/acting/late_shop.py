"""A service on loopback that commits a request some seconds after it came, and tools of three kinds that call it.

`python -m tests.activities.acting.late_shop ADDRESS QUEUE FOLDER` runs a worker of these tools.
"""

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import Request, urlopen

from temporalio.client import Client

from activities.turn.apply_once import CallTimes
from chargehand.converter import data_converter
from chargehand.tools import ToolContext, tool
from tests.activities.acting.acting_worker import acting_worker

SETTLES = timedelta(seconds=65)
_WAIT_SECONDS = 120


class LateService:
    """Commits the effects of requests `POST /<tool>/<seconds>/<key>`; `GET` of the same says whether it has."""

    def __init__(self) -> None:
        self.requests = Counter[str]()
        self.effects = Counter[str]()
        self.closing = threading.Event()
        self._changes = threading.Lock()
        self.url = ""

    def commit(self, path: str) -> None:
        """Note a request, and its effect when it is due; one of an idempotent tool has it once for each key."""
        with self._changes:
            self.requests[path] += 1
        if not self.closing.wait(float(path.split("/")[2])):
            with self._changes:
                self.effects[path] = 1 if path.startswith("/pay/") else self.effects[path] + 1


@contextmanager
def serve_late() -> Generator[LateService]:
    service = LateService()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            service.commit(self.path)
            self._say(200)

        def do_GET(self) -> None:
            self._say(200 if service.effects[self.path] else 204)

        def _say(self, status: int) -> None:
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - says nothing
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    service.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield service
    finally:
        service.closing.set()
        server.shutdown()
        server.server_close()


def _call(method: str, service: str, name: str, late: int, context: ToolContext) -> str | None:
    request = Request(f"{service}/{name}/{late}/{context.idempotency_key}", method=method)
    with urlopen(request, timeout=_WAIT_SECONDS) as answer:
        return f"Applied {name}." if answer.status == 200 else None


_LIMIT = timedelta(seconds=_WAIT_SECONDS)


@tool(capabilities=[], acts=True, settles_within=SETTLES, time_limit=_LIMIT)
def wire(service: str, late: int, context: ToolContext) -> str | None:
    """Wire money, at a bank that says how late it books."""
    return _call("POST", service, "wire", late, context)


@wire.lookup
def find_wire(service: str, late: int, context: ToolContext) -> str | None:
    return _call("GET", service, "wire", late, context)


@tool(capabilities=[], acts=True, time_limit=_LIMIT)
def enrol(service: str, late: int, context: ToolContext) -> str | None:
    """Enrol a pupil, at an office that does not say how late it files."""
    return _call("POST", service, "enrol", late, context)


@enrol.lookup
def find_enrolment(service: str, late: int, context: ToolContext) -> str | None:
    return _call("GET", service, "enrol", late, context)


@tool(capabilities=[], acts=True, idempotent=True, time_limit=_LIMIT)
def pay(service: str, late: int, context: ToolContext) -> str | None:
    """Pay a bill, at a bank that pays each key once."""
    return _call("POST", service, "pay", late, context)


@tool(capabilities=[], acts=True, time_limit=_LIMIT)
def pledge(service: str, late: int, context: ToolContext) -> str | None:
    """Pledge a sum; nothing can say afterwards whether it was pledged."""
    return _call("POST", service, "pledge", late, context)


LATE = (wire, enrol, pay, pledge)


async def _main(address: str, task_queue: str, folder: str) -> None:
    client = await Client.connect(address, data_converter=data_converter())
    async with acting_worker(client, task_queue, folder, LATE, CallTimes()):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
