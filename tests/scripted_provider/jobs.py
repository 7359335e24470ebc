"""Jobs that the scripted provider runs on its own, fetched by id: message batches and background responses."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.scripted_provider.exchange import Exchange, ScriptedReply
from tests.scripted_provider.wires import Body, write, write_error

Decide = Callable[[Exchange], Awaitable[ScriptedReply]]

BATCHES = "/v1/messages/batches"
RESPONSES = "/v1/responses"


@dataclass
class Job:
    """A job and its state."""

    id: str
    exchange: Exchange
    custom_id: str = ""
    done: bool = False
    is_cancelled: bool = False
    is_deleted: bool = False
    working: "asyncio.Task[None] | None" = None


@dataclass
class Jobs:
    decide: Decide
    changed: Callable[[], None]
    all: dict[str, Job] = field(default_factory=dict[str, Job])
    looks: int = 0
    """Number of status requests for jobs."""
    lose: int = 0
    """Number of upcoming status requests that are answered with 503."""

    def begin(self, identity: str, exchange: Exchange, custom_id: str = "") -> Job:
        job = Job(identity, exchange, custom_id)
        job.working = asyncio.get_running_loop().create_task(self._work(job))
        self.all[identity] = job
        return job

    async def close(self) -> None:
        """Stop all work."""
        tasks = [job.working for job in self.all.values() if job.working]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def answer(self, method: str, path: str) -> tuple[int, Body | bytes] | None:
        """Answer a request about a job; None if it is not about a job."""
        base = next((base for base in (BATCHES, RESPONSES) if path.startswith(f"{base}/")), None)
        if base is None:
            return None
        identity, _, what = path.removeprefix(f"{base}/").partition("/")
        job = self.all.get(identity)
        wire = "anthropic" if base == BATCHES else "responses"
        if job is None or job.is_deleted:
            return 404, write_error(wire, 404)
        if method == "DELETE":
            job.is_deleted = job.done
            return (200, {"id": identity}) if job.done else (400, write_error(wire, 400))
        if method == "POST" and what == "cancel":
            if job.working and not job.done:
                job.working.cancel()
                job.is_cancelled = job.done = True
            self.changed()
        elif method == "GET" and not what:
            self.looks += 1
            self.changed()
            if self.lose:
                self.lose -= 1
                return 503, write_error(wire, 503)
        elif what == "results":
            return 200, _results(job)
        return 200, self.describe(job)

    def describe(self, job: Job) -> Body | bytes:
        """Describe the state of a job as its wire does."""
        if job.exchange.request.wire == "anthropic":
            status = "ended" if job.done else "canceling" if job.is_cancelled else "in_progress"
            return {"id": job.id, "type": "message_batch", "processing_status": status}
        reply = job.exchange.reply
        if job.done and reply is not None and reply.kind == "raw":
            return _raw(reply)
        return {**_response(job), "id": job.id, "background": True}

    async def _work(self, job: Job) -> None:
        reply = await self.decide(job.exchange)
        if reply.kind == "hang":
            await asyncio.Event().wait()
        await asyncio.sleep(reply.delay)
        job.done = True
        job.exchange.answered_at = time.time()
        self.changed()


def _results(job: Job) -> bytes:
    reply = job.exchange.reply
    result: Mapping[str, Any]
    if reply is not None and reply.kind == "raw":
        line = json.dumps({"custom_id": job.custom_id, "result": {"type": "succeeded", "message": "@"}}).encode()
        return line.replace(b'"@"', _raw(reply).replace(b"\n", b" ")) + b"\n"
    if job.is_cancelled or reply is None:
        result = {"type": "canceled"}
    elif reply.kind == "error" and reply.status == 410:
        result = {"type": "expired"}
    elif reply.kind == "error":
        result = {"type": "errored", "error": write_error("anthropic", reply.status)}
    else:
        result = {"type": "succeeded", "message": write(job.exchange.request, reply)}
    return json.dumps({"custom_id": job.custom_id, "result": result}).encode() + b"\n"


def _raw(reply: ScriptedReply) -> bytes:
    return reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()


def _response(job: Job) -> Body:
    reply = job.exchange.reply
    request = job.exchange.request
    pending: Body = {"object": "response", "model": request.model, "output": [], "usage": None, "error": None}
    if job.is_cancelled:
        return {**pending, "status": "cancelled"}
    if not job.done or reply is None:
        return {**pending, "status": "in_progress" if job.exchange.reply else "queued"}
    if reply.kind == "error":
        return {**pending, "status": "failed", "error": {"code": "server_error", "message": f"scripted {reply.status}"}}
    return write(request, reply)
