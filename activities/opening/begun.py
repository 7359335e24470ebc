"""The ids of sessions that begin, in the record outside Temporal: a restored database may never have known them."""

import asyncio

from temporalio import activity

from activities.contracts.session import SessionFacts
from chargehand.contracts import SessionRequest
from chargehand.record import Record, SessionBegun


async def record_session(record: Record, request: SessionRequest, facts: SessionFacts) -> SessionFacts:
    """Record a session that no other one started, before it does anything."""
    if request.delegation is None:
        info = activity.info()
        begun = SessionBegun(
            session=info.workflow_id or "", run=info.workflow_run_id or "", at=info.current_attempt_scheduled_time
        )
        await asyncio.to_thread(record.begin_session, begun)
    return facts
