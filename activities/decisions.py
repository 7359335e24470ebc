"""People's decisions in the record outside Temporal, which survives a restored database."""

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
        """Record a decision, unless an earlier attempt has done so."""
        await asyncio.to_thread(self.record.add_decision, decision)
