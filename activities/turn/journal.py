"""The journal and the charge of a paid call, which are kept so that it is not paid again.

The journal outlives the worker that made the call. If work remains after a reply, the reply is recorded by a
synchronous heartbeat on arrival, so that the next attempt finds it and does not pay again. Later heartbeats repeat the
entry, because the server keeps only the last one. The charge is kept in the record outside Temporal, which survives a
restored database.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final, TypeVar
from zlib import crc32

from pydantic import JsonValue
from pydantic_core import from_json
from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from activities.heartbeat import LIVE_SECONDS, pulse
from activities.models.protocol import LONGEST_TEXT, ModelReply, ProviderJob
from activities.models.replies import within
from activities.single_flight import Newest
from activities.turn.contracts import TurnRequest, TurnResult
from activities.turn_kinds.registry import Task
from activities.turn_kinds.synthesis import SynthesisTask
from activities.turn_kinds.work import ConverseTask
from chargehand.contracts import Contract, LiveText, LiveTexts, Usage, left_out
from chargehand.record import Activity, Charge, Record, charge_id
from chargehand.visibility import describe, is_open

_T = TypeVar("_T")
_logger: Final = logging.getLogger("chargehand.turns")
_CANCEL_SECONDS: Final = 30.0
_DESCRIBE_TIMEOUT: Final = timedelta(seconds=3)
_LONGEST_LIVE: Final = 6_000
"""Maximum length of the end of the text in a heartbeat, below the size for external storage."""


class Entry(Contract):
    unbilled_failures: int = 0
    """Attempts that ended without a charge, not counting lost workers."""
    provider_job: str = ""
    """Id of the provider's background job for this call, if any."""
    is_waiting: bool = left_out(False)
    """Whether this attempt prepares its call or waits for the provider; neither crashes a worker."""
    result: TurnResult | None = None
    live: LiveText | None = left_out(None)
    """The followed text written so far; other attempts do not use it."""


Step = tuple[str, str, str]
"""Workflow, run and step, the same for all attempts and repetitions of a call."""


_unrecorded: Final = Newest[Step, Entry](200)
"""Paid replies that the server could not record, for instance because it was unreachable.

The next attempt finds them if it runs in the same process: attempts at one call share nothing else.
"""


class Journal:
    def __init__(self, entry: Entry, step: Step) -> None:
        self.entry = entry
        self._step = step
        self._pulse = pulse()
        self._pulse.details = self._details
        self._opened_at = time.monotonic()
        self._afterwards: list[Callable[[], Awaitable[None]]] = []

    def keep(self, result: TurnResult) -> None:
        """Keep a paid reply for further attempts in this process, in case the server cannot record it."""
        self.entry = self.entry.replace(result=result, live=None, is_waiting=False)
        _unrecorded[self._step] = self.entry

    async def record(self, entry: Entry) -> None:
        """Write an entry; when this returns, the server has stored it.

        Raises:
            AsyncActivityCancelledError: the attempt was cancelled.
            RPCError: the attempt timed out; another may be running.
        """
        self.entry = entry.replace(live=None)
        await self._pulse.record(self.entry)
        self._pulse.details = self._details  # with the text that is written from now on
        _unrecorded.pop(self._step, None)

    def _details(self) -> tuple[Entry]:
        return (self.entry,)

    def publish(self, live: LiveText) -> None:
        """Publish the text written so far with the next heartbeat."""
        self.entry = self.entry.replace(live=live)
        self._pulse.beat()

    def job(self) -> ProviderJob:
        """Return the provider's job for this call, with the callbacks that maintain it."""

        async def remember(identity: str) -> None:
            await self.record(self.entry.replace(provider_job=identity))

        return ProviderJob(
            id=self.entry.provider_job,
            remember=remember,
            is_unwanted=_is_unwanted,
            patience_seconds=self.patience_seconds,
            afterwards=self._afterwards,
        )

    @property
    def patience_seconds(self) -> float:
        """Time that a call may take and still be cancelled before this activity times out."""
        info = activity.info()
        # Both times are by the server's clock, since this host's may be wrong.
        waited = info.started_time - info.scheduled_time
        ends = [info.start_to_close_timeout, info.schedule_to_close_timeout and info.schedule_to_close_timeout - waited]
        left = min(end.total_seconds() for end in ends if end is not None)
        return max(0.0, left - (time.monotonic() - self._opened_at) - min(_CANCEL_SECONDS, left / 4))

    async def clean_up(self) -> None:
        """Run the clean-up actions that had to wait until the attempt's end was recorded."""
        for action in self._afterwards:
            await action()


async def _is_unwanted() -> bool:
    """Whether a cancelled attempt is the last: not if it timed out or its worker is shutting down."""
    details = activity.cancellation_details()
    if details is None or details.cancel_requested:
        return details is not None
    return details.not_found and await _session_is_over()


async def _session_is_over() -> bool:
    """Whether the calling workflow has ended; if unknown, another attempt may follow."""
    info = activity.info()
    if info.workflow_id is None:
        return False
    try:
        caller = await describe(activity.client(), info.workflow_id, info.workflow_run_id or "", _DESCRIBE_TIMEOUT)
    except RPCError:
        return False
    return not is_open(caller.workflow_execution_info)


@asynccontextmanager
async def open_journal() -> AsyncGenerator[Journal]:
    """Open the journal of the current activity, whose heartbeats repeat its entry."""
    info = activity.info()
    before = Entry.model_validate(info.heartbeat_details[0]) if info.heartbeat_details else Entry()
    entry = before.replace(live=None)
    # A repetition after a lost attempt is a separate activity: `turn-3.again-1` repeats `turn-3`.
    step = (info.workflow_id or "", info.workflow_run_id or "", info.activity_id.partition(".again-")[0])
    opened = Journal(_unrecorded.get(step, entry), step)
    try:
        yield opened
    except ApplicationError:
        await opened.clean_up()
        raise
    await opened.clean_up()


def live_report(task: Task, journal: Journal, texts: LiveTexts) -> Callable[[Callable[[], str]], None] | None:
    """Return a publisher of the text so far, for a turn that writes the report, a reply, or other followed text.

    It publishes a few times a second. The text is encrypted like every payload, adds nothing to the history, and only
    serves followers: it is discarded once the reply is recorded, and the next attempt starts from nothing.
    """
    is_read = texts == "agents" or isinstance(task, ConverseTask)
    is_read = is_read or (isinstance(task, SynthesisTask) and task.label == task.kind)
    if not is_read or not task.text_field:
        return None
    due, published = 0.0, ""

    def publish(written: Callable[[], str]) -> None:
        nonlocal due, published
        if time.monotonic() < due:
            return
        due = time.monotonic() + LIVE_SECONDS
        text = _text_of(written(), task.text_field)
        if text and text != published:
            published = text
            offset = max(0, len(text) - _LONGEST_LIVE)
            before = crc32(text[:offset].encode(errors="surrogatepass"))
            journal.publish(LiveText(offset=offset, before=before, text=text[offset:]))

    return publish


def _text_of(written: str, field: str) -> str:
    """Read a field from the beginning of a reply; empty if it has not started yet."""
    if len(written) > LONGEST_TEXT:
        return ""
    try:
        # Some models add a code fence around JSON.
        value: JsonValue = from_json(written[written.find("{") :], allow_partial="trailing-strings")
    except ValueError:
        return ""
    text = within(value, field)
    return text if isinstance(text, str) else ""


async def record_charge(record: Record, request: TurnRequest, reply: ModelReply) -> Usage | None:
    """Record the charge of a call.

    Return the cost of the same turn from before a restore of the database, if it is not booked yet.
    """
    info = activity.info()
    charge = Charge(
        session=request.session,
        workflow_id=info.workflow_id or "",
        run_id=info.workflow_run_id or "",
        activity_id=info.activity_id,
        scheduled_at=info.scheduled_time,
        attempt=info.attempt,
        agent=request.agent,
        purpose=request.task.kind,
        model=reply.model,
        usage=(reply.usage or Usage()).replace(turns=1),
        is_known=reply.usage is not None,
    )

    def write() -> Usage | None:
        lost = [each.usage for each in record.add_charge(charge) if record.book(each, charge_id(charge))]
        return sum(lost, Usage()) if lost else None

    return await asyncio.to_thread(_unless_it_fails, write)


async def take_over(record: Record, session: str, result: TurnResult) -> TurnResult:
    """Return a stored reply to the running turn, which books its charge if the history that paid it is lost.

    If the charge has been booked already, the reply costs nothing more.
    """
    info = activity.info()
    turn = Activity(info.workflow_id or "", info.workflow_run_id or "", info.activity_id)

    def write() -> list[bool]:
        lost = record.lost_charges(session, turn, info.scheduled_time)
        return [record.book(each, f"reply of {charge_id(each)}") for each in lost]

    books = await asyncio.to_thread(_unless_it_fails, write)
    return result.replace(usage=Usage()) if books and not books[-1] else result


def _unless_it_fails(write: Callable[[], _T]) -> _T | None:
    try:
        return write()
    except Exception:
        # The reply must not be lost.
        _logger.exception("a charge is not in the record")
        return None
