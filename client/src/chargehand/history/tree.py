"""Reads a session with everything below it back from its histories: as a trace, or for what it has spent."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from chargehand.contracts import Step, Trace, Usage
from chargehand.history.projection import Child, Projection
from chargehand.history.records import Decoder
from chargehand.history.runs import histories
from chargehand.history.steps import Draft, Scope
from chargehand.visibility import describe

_MAX_PARALLEL_READS: Final = 8
_SLOW: Final = timedelta(seconds=5)


async def read_trace(client: Client, session_id: str) -> Trace:
    """Read every step of a session, running or closed; needs a server, but no worker."""
    return trace_of(await TreeReader(client, session_id).read(Draft.of(session_id), None))


def trace_of(root: Projection) -> Trace:
    """Return the trace of a session of which everything is read."""
    scope = root.scope
    return Trace(session=scope.session, run=scope.first_run, exported_at=datetime.now(UTC), steps=tuple(_steps(root)))


def _steps(projection: Projection) -> Iterable[Step]:
    """List the steps of a workflow, and after them those of its children."""
    yield projection.scope.draft.step()
    yield from (draft.step() for draft in projection.scope.steps)
    for child in projection.children:
        yield from _steps(child.projection) if child.projection else (child.draft.step(),)


@dataclass
class TreeReader:
    """Reads a workflow of a session with what is below it."""

    client: Client
    session: str
    is_whole: bool = True
    """Whether everything is read, or only what has to be to know what was spent: of children that have ended, their
    parent knows it."""
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_MAX_PARALLEL_READS), init=False)

    async def read(self, draft: Draft, run_id: str | None, subtask: str = "") -> Projection:
        """Read a workflow from its first run, or from the newest and those before it, and what is below."""
        async with self._slots:
            runs = await histories(self.client, draft.id, run_id)
        scope = Scope(Decoder(self.client.data_converter), self.session, draft, subtask, has_contents=self.is_whole)
        projection = Projection(scope)
        for run in runs:
            for event in run.events:
                await projection.read(event)
        if self.is_whole and draft.state == "running":
            await _add_pending(self.client, scope)
        below = [child for child in projection.children if self.is_whole or (child.is_work and child.cost is None)]
        await asyncio.gather(*map(self._read_child, below))
        projection.settle()
        return projection

    async def _read_child(self, child: Child) -> None:
        try:
            child.projection = await self.read(child.draft.unread(), child.run, child.subtask)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            # The namespace no longer retains it: what its parent says of it stands.
            child.draft.usage = child.cost or Usage()


async def describe_running(client: Client, root: Projection) -> None:
    """Describe what takes long in a session and below it, such as calls that are tried again."""
    long_ago = datetime.now(UTC) - _SLOW
    below = [child.projection for child in root.children if child.projection and child.draft.state == "running"]
    if any(step.state == "running" and step.scheduled_at and step.scheduled_at < long_ago for step in root.scope.steps):
        await _add_pending(client, root.scope)
    await asyncio.gather(*(describe_running(client, each) for each in below))


async def _add_pending(client: Client, scope: Scope) -> None:
    """Describe running activities, whose start is not yet in the history."""
    description = await describe(client, scope.draft.id)
    pending = {each.activity_id: each for each in description.pending_activities}
    for draft in scope.steps:
        if draft.state == "running" and (now := pending.get(draft.activity_id)):
            draft.describe_pending(now)
