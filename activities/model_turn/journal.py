"""The journal of a paid call: what is known of it outlives the worker that made it.

A reply is recorded by a synchronous heartbeat the moment it arrives, so that the next attempt finds it and does not
pay again. Heartbeats in between keep the attempt alive and repeat what is recorded, for the last one wins.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

from temporalio import activity
from temporalio.client import AsyncActivityHandle
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from activities.model_turn.contracts import TurnResult
from activities.models.protocol import ProviderJob
from chargehand.contracts import Contract
from chargehand.visibility import describe, is_open

BEAT_SECONDS: Final = 0.8
"""A heartbeat's answer is how a cancel arrives: at the latest after this long, a paid call is stopped."""

_CALLING_OFF_SECONDS: Final = 30.0
_DESCRIBE_TIMEOUT: Final = timedelta(seconds=3)


class Entry(Contract):
    """What is known of a paid call."""

    provider_failures: int = 0
    """Attempts that the provider answered with an error; lost workers do not count."""
    provider_job: str = ""
    """What the provider calls the work that it does for this call by itself, if it does."""
    result: TurnResult | None = None


Step = tuple[str, str, str]
"""Workflow, run and step: the same for every attempt and repetition of one call."""


class Unrecorded:
    """Replies that were paid and that the server could not record, as while it is away.

    The next attempt finds them if it comes to the same process.
    """

    def __init__(self, most: int = 200) -> None:
        self._most = most
        self._entries: OrderedDict[Step, Entry] = OrderedDict()

    def keep(self, step: Step, entry: Entry) -> None:
        """Keep a reply until it is recorded or returned."""
        self._entries[step] = entry
        if len(self._entries) > self._most:
            self._entries.popitem(last=False)

    def forget(self, step: Step) -> None:
        """Let go of a reply that the server has."""
        self._entries.pop(step, None)

    def find(self, step: Step) -> Entry | None:
        """Give what is kept of a step."""
        return self._entries.get(step)


_unrecorded: Final = Unrecorded()
"""One for the process: attempts at one call share nothing else."""


class Journal:
    """The journal of the activity that is running."""

    def __init__(self, handle: AsyncActivityHandle, entry: Entry, step: Step) -> None:
        self._handle = handle
        self.entry = entry
        self._step = step
        self._has_beaten = False
        self._opened_at = time.monotonic()
        self._afterwards: list[Callable[[], Awaitable[None]]] = []

    async def record(self, entry: Entry) -> None:
        """Write an entry; on return it is stored on the server."""
        self.entry = entry
        if entry.result is not None:
            _unrecorded.keep(self._step, entry)
        await self._handle.heartbeat(entry)
        _unrecorded.forget(self._step)
        if self._has_beaten:
            # The SDK repeats the last of its own heartbeats when an attempt fails: no older entry must come back.
            activity.heartbeat(entry)

    def job(self) -> ProviderJob:
        """Give what is known of the provider's own work for this call, and the way to keep it."""

        async def remember(identity: str) -> None:
            await self.record(self.entry.model_copy(update={"provider_job": identity}))

        return ProviderJob(
            id=self.entry.provider_job,
            remember=remember,
            is_unwanted=_is_unwanted,
            patience_seconds=_patience_seconds(time.monotonic() - self._opened_at),
            afterwards=self._afterwards,
        )

    async def tidy_up(self) -> None:
        """Do what was left for when the attempt's end is in safety."""
        for act in self._afterwards:
            await act()

    async def confirm(self) -> None:
        """Return if the server still counts on this attempt.

        Raises:
            AsyncActivityCancelledError: it was cancelled.
            RPCError: it was given up; another may be under way.
        """
        await self._handle.heartbeat(self.entry)

    def beat(self) -> None:
        """Say that the attempt is alive, and repeat what is recorded."""
        self._has_beaten = True
        activity.heartbeat(self.entry)


def _patience_seconds(since_start: float) -> float | None:
    """How long a provider's job may take, if it is to be called off before the server gives this activity up."""
    info = activity.info()
    # Told by the server's clock alone: this one may be wrong.
    waited = info.started_time - info.scheduled_time
    ends = [info.start_to_close_timeout, info.schedule_to_close_timeout and info.schedule_to_close_timeout - waited]
    left = min((end.total_seconds() for end in ends if end is not None), default=None)
    if left is None:
        return None
    return max(0.0, left - since_start - min(_CALLING_OFF_SECONDS, left / 4))


async def _is_unwanted() -> bool:
    """Whether a cancelled attempt is the last. One that was given up, or whose worker shuts down, is not."""
    details = activity.cancellation_details()
    if details is None or details.cancel_requested:
        return details is not None
    return details.not_found and await _session_is_over()


async def _session_is_over() -> bool:
    """Whether the workflow that asked has ended; while that cannot be learnt, another attempt may come."""
    info = activity.info()
    if info.workflow_id is None:
        return False
    try:
        asking = await describe(activity.client(), info.workflow_id, info.workflow_run_id or "", _DESCRIBE_TIMEOUT)
    except RPCError:
        return False
    return not is_open(asking.workflow_execution_info)


@asynccontextmanager
async def journal() -> AsyncGenerator[Journal]:
    """Open the running activity's journal and keep the activity alive meanwhile."""
    info = activity.info()
    entry = Entry.model_validate(info.heartbeat_details[0]) if info.heartbeat_details else Entry()
    # A repetition after a lost attempt is an activity of its own: `turn-3.again-1` is the third turn once more.
    step = (info.workflow_id or "", info.workflow_run_id or "", info.activity_id.partition(".again-")[0])
    handle = activity.client().get_async_activity_handle(task_token=info.task_token)
    opened = Journal(handle, _unrecorded.find(step) or entry, step)
    beating = asyncio.create_task(_beat(opened))
    try:
        try:
            yield opened
        except ApplicationError:
            await opened.tidy_up()
            raise
        await opened.tidy_up()
    finally:
        beating.cancel()


async def _beat(opened: Journal) -> None:
    while True:
        await asyncio.sleep(BEAT_SECONDS)
        opened.beat()


@asynccontextmanager
async def kept_alive() -> AsyncGenerator[None]:
    """Send heartbeats while an activity works that has nothing to record."""

    async def beat() -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            activity.heartbeat()

    beating = asyncio.create_task(beat())
    try:
        yield
    finally:
        beating.cancel()
