"""What people decide, in the record outside Temporal, which a restored database does not forget."""

import asyncio
from dataclasses import dataclass

from temporalio import activity

from chargehand.record import Decision, Record
from chargehand.wire import ActivityType


@dataclass(frozen=True)
class DecisionActivities:
    record: Record

    @activity.defn(name=ActivityType.RECORD_DECISION)
    async def record_decision(self, decision: Decision) -> None:
        """Record a decision; an attempt that was made before has done so."""
        await asyncio.to_thread(self.record.add_decision, decision)
