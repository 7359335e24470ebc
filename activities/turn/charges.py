"""The charge of a turn in the record outside Temporal, which survives a restored database."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, TypeVar

from temporalio import activity

from activities.models.protocol import ModelReply
from activities.turn.contracts import TurnRequest, TurnResult
from chargehand.contracts import Usage
from chargehand.record import Activity, Charge, Record, charge_id

_T = TypeVar("_T")
_logger: Final = logging.getLogger("chargehand.turns")


async def record_charge(record: Record, request: TurnRequest, reply: ModelReply) -> Usage | None:
    """Record the charge of a call.

    Return the unbooked cost of the same turn from before a restore of the database.
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
    """Return a stored reply to the running turn, which books its charge if the paying history is lost.

    If the session was already told of the charge, it is booked, and the reply costs nothing more.
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
