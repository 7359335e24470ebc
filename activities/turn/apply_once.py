"""Calls that change something in the world, each applied once.

The intent is recorded by a synchronous heartbeat before the tool is called, and the answer after it. An attempt that
finds an answer returns it. One that finds an intent alone follows a lost worker or a fault: whether the tool was called
is unknown then, so the tool is asked, and is not called again unless it says that nothing was applied, or that it is
idempotent.
"""

import asyncio
import hashlib
import json
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from pydantic import JsonValue
from temporalio import activity
from temporalio.service import RPCError

from activities.contracts.calls import ToolRequest
from activities.contracts.tool import LooksUp, LookUpResult, Tool, ToolAnswer, ToolContext
from activities.heartbeat import pulse
from chargehand.contracts import Contract
from chargehand.tools import NOT_YET_KNOWN

SHORTEST_DOUBT: Final = timedelta(seconds=15)
"""The least time between two lookups of a call; a process that has not called the tool yet knows no better."""
_CALLS: Final = 20  # the last of a tool, which show how long it usually takes
_logger: Final = logging.getLogger("chargehand.tools")


class Entry(Contract):
    begun_at: datetime | None = None
    """From when on the tool may have been called, by the server's clock."""
    answer: ToolAnswer | None = None


@dataclass
class CallTimes:
    """How long the calls of each tool that acts took in this process, and how long is waited for them to settle."""

    shortest_doubt: timedelta = SHORTEST_DOUBT
    pause: Callable[[float], Awaitable[object]] = asyncio.sleep
    _calls: dict[str, deque[timedelta]] = field(default_factory=dict[str, deque[timedelta]])

    def note(self, tool: str, time: timedelta) -> None:
        self._calls.setdefault(tool, deque(maxlen=_CALLS)).append(time)

    def doubt(self, tool: str) -> timedelta:
        """Return how long “not applied” is doubted: twice the longest of the last calls."""
        return max(self.shortest_doubt, *(2 * time for time in self._calls.get(tool, ())), timedelta(0))


def idempotency_key(request: ToolRequest) -> str:
    """Name an acting call by its subtask, tool and arguments: the same in every attempt and after a reset."""
    session_run = (activity.info().workflow_id or "").rsplit("/", 2)[0]
    named = json.dumps([session_run, request.subtask, request.call.tool, request.call.arguments], sort_keys=True)
    return hashlib.sha256(named.encode()).hexdigest()


async def apply_once(
    tool: Tool,
    arguments: Mapping[str, JsonValue],
    context: ToolContext,
    use: Callable[[], Awaitable[ToolAnswer]],
    times: CallTimes,
) -> ToolAnswer | None:
    """Apply a call that acts, unless an earlier attempt did; None if it is unknown whether it was applied."""
    recorded = activity.info().heartbeat_details
    entry = Entry.model_validate(recorded[0]) if recorded else Entry()
    if entry.answer is not None:
        return entry.answer
    if entry.begun_at is not None:
        outcome = await _find_outcome(tool, arguments, context, entry.begun_at, times)
        if outcome is not None:
            return _answer(outcome)
    begun_at = pulse().now()
    # Raises in an attempt that the server has given up: another one acts.
    await pulse().record(Entry(begun_at=begun_at))
    began = time.monotonic()
    try:
        answer = await use()
    except Exception as error:
        # A function that has outlived its time goes on in its thread, so it is not called again.
        if tool.spec.idempotent or (isinstance(tool, LooksUp) and not isinstance(error, TimeoutError)):
            raise
        _logger.exception("a tool that acts failed, and its outcome is unknown", extra={"tool": tool.spec.name})
        return _answer(await _find_outcome(tool, arguments, context, begun_at, times))
    times.note(tool.spec.name, timedelta(seconds=time.monotonic() - began))
    try:
        await pulse().record(Entry(begun_at=begun_at, answer=answer))
    except RPCError:
        _logger.warning("the answer of a tool that acts is recorded by its completion alone")
    return answer


async def _find_outcome(
    tool: Tool, arguments: Mapping[str, JsonValue], context: ToolContext, begun_at: datetime, times: CallTimes
) -> LookUpResult:
    """Find out what became of a call that began; None if it may be made again.

    Its request may still be under way, so “not applied” counts once it has settled.
    """
    spec = tool.spec
    if not isinstance(tool, LooksUp):
        return None if spec.idempotent else NOT_YET_KNOWN
    settles_within = spec.settles_within_seconds
    if settles_within is not None:
        await times.pause(settles_within - max(0.0, (pulse().now() - begun_at).total_seconds()))
    found = await tool.look_up(arguments, context)
    if spec.idempotent:
        return _answer(found)
    if settles_within is None and not isinstance(found, ToolAnswer):
        await times.pause(times.doubt(spec.name).total_seconds())
        found = await tool.look_up(arguments, context)
    return found


def _answer(outcome: LookUpResult) -> ToolAnswer | None:
    return outcome if isinstance(outcome, ToolAnswer) else None
