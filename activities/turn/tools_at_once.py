"""Quick tools, used within the turn that asks for them: they take no activity and no workflow task of their own.

The reply is recorded meanwhile, so nothing that happens here loses what was paid. Which tools may be used, the workflow
says; whatever is not used here, fails or takes long is used by an activity of its own, with its retries.
"""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from activities.contracts.calls import ToolRequest
from activities.contracts.rounds import MOST_CALLS, ToolCall
from activities.tools.note import NOTE
from activities.turn.contracts import TurnRequest, TurnResult, UsedTool
from activities.turn.tool_use import ToolActivities
from activities.turn_kinds.registry import Task
from activities.turn_kinds.work import WorkTask

_MOST_SECONDS: Final = 5.0
_MOST_BYTES: Final = 256 * 1024
"""Of all results together: a turn whose result is too large would be lost with its reply."""


async def use_at_once(
    uses: ToolActivities, request: TurnRequest, result: TurnResult, chosen: Sequence[int], patience_seconds: float
) -> tuple[UsedTool, ...]:
    """Make the chosen calls of a reply; return those that have ended well."""
    if not chosen:
        return ()
    using = [asyncio.create_task(_use(uses, request, position, result.tool_calls[position])) for position in chosen]
    try:
        done, _ = await asyncio.wait(using, timeout=min(_MOST_SECONDS, patience_seconds))
    finally:
        for each in using:
            each.cancel()
    used = tuple(each.result() for each in using if each in done and not each.cancelled() and each.exception() is None)
    is_large = sum(len(each.model_dump_json().encode()) for each in used) > _MOST_BYTES
    return () if is_large else used


async def _use(uses: ToolActivities, request: TurnRequest, position: int, call: ToolCall) -> UsedTool:
    began_at = datetime.now(UTC)
    used = await uses.use_tool(
        ToolRequest(
            session=request.session,
            step=f"{request.step}/{position + 1}.{call.tool}",
            crew=request.crew,
            agent=request.agent,
            call=call,
            documents=request.documents,
        )
    )
    return UsedTool(position=position, result=used, began_at=began_at, ended_at=datetime.now(UTC))


def choose_at_once(request: TurnRequest, task: Task, result: TurnResult) -> Sequence[int]:
    """Choose the positions of the calls to be made; none if one of them is left to the workflow, which waits for it."""
    if result.stop != "tools" or not isinstance(task, WorkTask) or task.must_answer:
        return ()
    calls = {position: call for position, call in enumerate(result.tool_calls) if call.tool != NOTE.name}
    made = [(call.tool, call.arguments) for past in task.rounds for call in past.calls]
    may_be_used = all(
        call.tool in request.at_once and not call.malformed and (call.tool, call.arguments) not in made
        for call in calls.values()
    )
    return tuple(calls) if may_be_used and len(calls) <= MOST_CALLS else ()
