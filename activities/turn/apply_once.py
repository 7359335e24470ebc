"""Calls that change something in the world, each applied once.

The intent is recorded by a synchronous heartbeat before the tool is called, and the answer after it. An attempt that
finds an answer returns it. One that finds an intent alone follows a lost worker: whether the tool was called is unknown
then, so the tool is asked, and is not called again unless it says that nothing was applied, or that it is idempotent.
"""

import hashlib
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from pydantic import JsonValue
from temporalio import activity
from temporalio.service import RPCError

from activities.contracts.calls import ToolRequest
from activities.contracts.tool import LooksUp, Tool, ToolAnswer, ToolContext
from activities.heartbeat import pulse
from chargehand.contracts import Contract

_logger: Final = logging.getLogger("chargehand.tools")


class Entry(Contract):
    """The state of a call that acts."""

    begun: bool = False
    """Whether the tool may have been called."""
    answer: ToolAnswer | None = None


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
) -> ToolAnswer | None:
    """Apply a call that acts, unless an earlier attempt did; None if it is unknown whether it was applied.

    Args:
        tool: what acts.
        arguments: of the call.
        context: of the call.
        use: calls the tool.
    """
    recorded = activity.info().heartbeat_details
    entry = Entry.model_validate(recorded[0]) if recorded else Entry()
    if entry.answer is not None:
        return entry.answer
    is_repeatable = tool.spec.idempotent or isinstance(tool, LooksUp)
    if entry.begun:
        if not is_repeatable:
            return None
        found = await tool.look_up(arguments, context) if isinstance(tool, LooksUp) else None
        if found is not None:
            return found
    # Raises in an attempt that the server has given up: another one acts.
    await pulse().record(Entry(begun=True))
    try:
        answer = await use()
    except Exception as error:
        # A function that has outlived its time goes on in its thread, so it is not called again.
        if tool.spec.idempotent or (is_repeatable and not isinstance(error, TimeoutError)):
            raise
        _logger.exception("a tool that acts failed, and its outcome is unknown", extra={"tool": tool.spec.name})
        return await tool.look_up(arguments, context) if isinstance(tool, LooksUp) else None
    try:
        await pulse().record(Entry(begun=True, answer=answer))
    except RPCError:
        _logger.warning("the answer of a tool that acts is recorded by its completion alone")
    return answer
