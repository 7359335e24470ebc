"""Acting calls, each of which is applied only once.

The intent is recorded before the tool is called, and the answer after it: by a synchronous heartbeat, and in the record
outside Temporal, which survives a restored database. An attempt that finds an answer returns it. If it finds only an
intent, because of a lost worker, a fault or a restore, it is unknown whether the tool was called. The tool is then
asked, and is called again only if nothing was applied, it is idempotent, or a person decided so. If two workers record
the same attempt, only one calls the tool.
"""

import asyncio
import hashlib
import json
import logging
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from pydantic import JsonValue
from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from activities.contracts.rounds import ToolRequest
from activities.contracts.tool import LookUpResult, Tool, ToolAnswer, ToolContext, look_up_of
from activities.heartbeat import pulse
from chargehand.contracts import Contract
from chargehand.errors import ChargehandError
from chargehand.record import Call, CallBegun, CallEnded, Decision, Record
from chargehand.tools import NOT_YET_KNOWN
from chargehand.wire import ActivityType, ErrorType

SHORTEST_DOUBT: Final = timedelta(seconds=15)
"""Minimum time between two lookups of a call, used until the process has called the tool itself."""
_CALLS: Final = 20  # the latest durations of a tool
_logger: Final = logging.getLogger("chargehand.tools")


class Entry(Contract):
    begun_at: datetime | None = None
    """The earliest time at which the tool may have been called, by the server's clock."""
    answer: ToolAnswer | None = None


@dataclass
class CallTimes:
    """Durations of calls of acting tools in this process, used to estimate settling times."""

    shortest_doubt: timedelta = SHORTEST_DOUBT
    pause: Callable[[float], Awaitable[object]] = asyncio.sleep
    _calls: dict[str, deque[timedelta]] = field(default_factory=dict[str, deque[timedelta]])

    def note(self, tool: str, time: timedelta) -> None:
        self._calls.setdefault(tool, deque(maxlen=_CALLS)).append(time)

    def doubt(self, tool: str) -> timedelta:
        """Return how long the answer “not applied” is in doubt: twice the longest recent call."""
        return max(self.shortest_doubt, *(2 * time for time in self._calls.get(tool, ())), timedelta(0))


def idempotency_key(request: ToolRequest) -> str:
    """Build an acting call's key from subtask, tool and arguments, the same in every attempt and after a reset."""
    session_run = (activity.info().workflow_id or "").rsplit("/", 2)[0]
    named = json.dumps([session_run, request.subtask, request.call.tool, request.call.arguments], sort_keys=True)
    return hashlib.sha256(named.encode()).hexdigest()


@dataclass(frozen=True)
class ActingCalls:
    """State shared by a worker's acting calls."""

    record: Record
    times: CallTimes = field(default_factory=CallTimes)

    async def begin(self, begun: CallBegun) -> bool:
        return await asyncio.to_thread(self.record.begin_call, begun)

    async def last(self, context: ToolContext) -> Call | None:
        return await asyncio.to_thread(self.record.last_call, context.session, context.idempotency_key)

    async def end(self, begun: CallBegun, answer: ToolAnswer) -> None:
        """Record the answer; without it, the outcome counts as unknown after a restore."""
        try:
            await asyncio.to_thread(self.record.end_call, begun, CallEnded(answer=answer, at=pulse().now()))
        except (OSError, ChargehandError):
            _logger.exception("the answer of a tool that acts is not in the record", extra={"tool": begun.tool})

    @activity.defn(name=ActivityType.RECORD_DECISION)
    async def record_decision(self, decision: Decision) -> None:
        """Record a person's decision, unless an earlier attempt has done so."""
        await asyncio.to_thread(self.record.add_decision, decision)


async def apply_once(
    calls: ActingCalls, tool: Tool, request: ToolRequest, context: ToolContext, use: Callable[[], Awaitable[ToolAnswer]]
) -> ToolAnswer | None:
    """Apply an acting call unless an earlier attempt did; None if it is unknown whether it was applied."""
    arguments = request.call.arguments
    recorded = activity.info().heartbeat_details
    entry = Entry.model_validate(recorded[0]) if recorded else Entry()
    if entry.answer is not None:
        return entry.answer
    last = await calls.last(context) if entry.begun_at else None
    while True:
        if last and last.answer and last.answer.ok:
            return last.answer
        doubt = _doubtful_since(entry, last, request.decided_at)
        if doubt is not None:
            outcome = await _find_outcome(tool, arguments, context, doubt, calls.times)
            if last and not last.answer and isinstance(outcome, ToolAnswer):
                await calls.end(last.begun, outcome)
            if outcome is not None:
                return _answer(outcome)
        begun = CallBegun(
            session=context.session,
            agent=context.agent,
            tool=tool.spec.name,
            arguments=arguments,
            key=context.idempotency_key,
            decision=request.decision,
            number=last.begun.number + 1 if last else 0,
            attempt=secrets.token_hex(8),
            at=pulse().now(),
        )
        # Raises if the server has given up this attempt, so that only another one acts.
        await pulse().record(Entry(begun_at=begun.at))
        try:
            is_begun = await calls.begin(begun)
        except (OSError, ChargehandError):
            if last is None:
                await pulse().record(entry)
            raise
        if is_begun:
            return await _make(calls, begun, tool, context, use)
        last = await calls.last(context)


@contextmanager
def certain_failures() -> Generator[None]:
    """Distinguish failures before the tool was called, by this or an earlier attempt, from those of unknown outcome.

    Raises:
        ApplicationError: `ToolNotCalled`.
    """
    try:
        yield
    except Exception as error:
        if (known := pulse().details()) and Entry.model_validate(known[0]).begun_at:
            raise
        why = getattr(error, "strerror", "") or type(error).__name__
        words = f"the call was not made, since the worker could not prepare or record it ({why})"
        is_final = getattr(error, "non_retryable", False)
        raise ApplicationError(words, type=ErrorType.TOOL_NOT_CALLED, non_retryable=is_final) from error


def _doubtful_since(entry: Entry, last: Call | None, decided_at: datetime | None) -> datetime | None:
    """Return the start of the last call of unknown outcome about which no person has decided since."""
    begun = [entry.begun_at, last.begun.at if last and last.answer is None else None]
    return max((at for at in begun if at and (decided_at is None or at > decided_at)), default=None)


async def _make(
    calls: ActingCalls, begun: CallBegun, tool: Tool, context: ToolContext, use: Callable[[], Awaitable[ToolAnswer]]
) -> ToolAnswer | None:
    began = time.monotonic()
    try:
        answer = await use()
    except Exception as error:
        # A function that timed out continues in its thread, so it is not called again.
        if tool.spec.idempotent or (look_up_of(tool) and not isinstance(error, TimeoutError)):
            raise
        _logger.exception("a tool that acts failed, and its outcome is unknown", extra={"tool": tool.spec.name})
        outcome = await _find_outcome(tool, begun.arguments, context, begun.at, calls.times)
        if isinstance(outcome, ToolAnswer):
            await calls.end(begun, outcome)
        return _answer(outcome)
    calls.times.note(tool.spec.name, timedelta(seconds=time.monotonic() - began))
    await calls.end(begun, answer)
    try:
        await pulse().record(Entry(begun_at=begun.at, answer=answer))
    except RPCError:
        _logger.warning("the answer of a tool that acts is recorded by its completion alone")
    return answer


async def _find_outcome(
    tool: Tool, arguments: Mapping[str, JsonValue], context: ToolContext, begun_at: datetime, times: CallTimes
) -> LookUpResult:
    """Determine the outcome of a started call; None if it may be made again.

    Its request may still be in flight, so “not applied” is final only after `settles_within`.
    """
    spec, look_up = tool.spec, look_up_of(tool)
    if look_up is None:
        return None if spec.idempotent else NOT_YET_KNOWN
    settles_within = spec.settles_within_seconds
    if settles_within is not None:
        await times.pause(settles_within - max(0.0, (pulse().now() - begun_at).total_seconds()))
    outcome = await look_up(arguments, context)
    if spec.idempotent:
        return _answer(outcome)
    if settles_within is None and not isinstance(outcome, ToolAnswer):
        await times.pause(times.doubt(spec.name).total_seconds())
        return await look_up(arguments, context) or NOT_YET_KNOWN
    return outcome


def _answer(outcome: LookUpResult) -> ToolAnswer | None:
    return outcome if isinstance(outcome, ToolAnswer) else None
