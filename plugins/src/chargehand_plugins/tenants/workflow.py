"""The workflow of one tenant's ledger: it admits the tenant's sessions and counts their spend.

It runs from the first session of a day until a midnight at which no session runs or waits.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from temporalio import workflow
from temporalio.common import VersioningBehavior

with workflow.unsafe.imports_passed_through():
    from chargehand.wire import SignalName, WorkflowType
    from chargehand_plugins.tenants.activities import TenantActivities
    from chargehand_plugins.tenants.contracts import CountQuery, EndedQuery, EndedSession, Entry
    from chargehand_plugins.tenants.ledger import LedgerRequest, TenantLedger
    from chargehand_plugins.tenants.limits import USAGE, TenantLimits, TenantUsage
    from workflows import options
    from workflows.mailbox.contracts import Admission, AdmissionRequest, Envelope, Idling, Leaving
    from workflows.mailbox.mailbox import Mailbox
    from workflows.mailbox.signals import answer
    from workflows.run_end import is_continue_as_new_due

_FIRST_LOOK: Final = timedelta(seconds=1)
_LAST_LOOK: Final = timedelta(minutes=5)
"""Interval of checking running sessions while others wait, since they may have ended silently."""
_MOST_ANSWERS: Final = 100
"""Maximum at once, since servers refuse workflow tasks with 2,000 pending signals."""


@workflow.defn(name=WorkflowType.TENANT)
class TenantWorkflow:
    """Admits the sessions of one tenant in order and within its limits."""

    @workflow.init
    def __init__(self, request: LedgerRequest) -> None:
        self._tenant = request.tenant
        # Anyone with access may start a ledger with an arbitrary state.
        state = request.state if workflow.info().continued_run_id else None
        self._ledger = state or TenantLedger(day=workflow.now().date(), limits=request.limits)
        self._mailbox = Mailbox(address=workflow.info().workflow_id)
        self._messages: list[tuple[str, Callable[[], None]]] = []
        """Received messages that have not been applied, in order, with their session's key."""
        self._counted_at: datetime | None = None
        self._answers: list[tuple[Entry, str]] = []
        """Unsent answers, each with a refusal reason."""
        self._looked_at: datetime | None = None
        """When running sessions were last checked, or others began to wait; None while none waits."""
        self._look_after = _FIRST_LOOK

    @workflow.run
    async def run(self, request: LedgerRequest) -> None:
        """Admit sessions while any runs or waits, at least until the end of the day."""
        while True:
            if self._counts_at() <= workflow.now():
                await self._count()
            self._apply()
            if self._answers:
                await self._answer()
            elif self._ledger.is_idle and workflow.now().date() > self._ledger.day:
                return
            elif is_continue_as_new_due():
                workflow.continue_as_new(request.replace(state=self._ledger))
            else:
                await self._wait()

    @workflow.query(name=USAGE, description="How much of its limits the tenant uses.")
    def usage(self) -> TenantUsage:
        ledger = self._ledger
        return TenantUsage(
            tenant=self._tenant,
            limits=ledger.limits,
            running=tuple(entry.session for entry in ledger.running.values()),
            queued=tuple(ledger.queued()),
            day=ledger.day,
            spent_usd=ledger.spent,
            reserved_usd=ledger.reserved,
        )

    @workflow.signal(name=SignalName.MAILBOX, description="A session asks to begin or for more dollars, or has ended.")
    def receive(self, envelope: Envelope) -> None:
        """Receive a session's request for admission or a larger budget, or the notice of its end."""
        if self._mailbox.receive(envelope) and isinstance(envelope.body, AdmissionRequest | Idling | Leaving):
            self._messages.append((envelope.body.key, partial(self._take, envelope, envelope.body)))

    @workflow.signal(name=SignalName.SET_LIMITS, description="The operator has set other limits.")
    def set_limits(self, limits: TenantLimits) -> None:
        self._messages.append(("", lambda: self._ledger.use(limits)))

    @workflow.signal(name=SignalName.COUNT_ANEW, description="A worker has started: the database may be another one.")
    def count_anew(self, limits: TenantLimits) -> None:
        self.set_limits(limits)
        self._ledger.is_doubtful = True

    def _take(self, envelope: Envelope, body: AdmissionRequest | Idling | Leaving) -> None:
        """Apply a session's message about its own place; ignore all others."""
        place = self._ledger.place(body.key)
        if place is not None and place.session != envelope.sender:
            return
        match body:
            case AdmissionRequest():
                self._ask(body, _entry_of(envelope, body))
            case Idling():
                self._ledger.idle(body.key, is_idle=body.is_idle)
            case Leaving() if place is not None:
                self._ledger.leave(body.key, body.spent_usd)
            case Leaving():
                self._ledger.is_doubtful = self._ledger.is_doubtful or body.spent_usd > 0

    def _ask(self, request: AdmissionRequest, entry: Entry) -> None:
        if request.is_larger:
            self._answers.append((entry, self._ledger.enlarge(entry.key, entry.usd)))
        elif problem := self._ledger.ask(entry):
            self._answers.append((entry, problem))
        elif running := self._ledger.running.get(entry.key):
            self._answers.append((running, ""))  # it did not get the reply

    def _counts_at(self) -> datetime:
        """Return when the ledger recounts: immediately the first time, then at most once per `COUNT_AGAIN`."""
        if not self._ledger.is_doubtful:
            return datetime.max.replace(tzinfo=UTC)
        return workflow.now() if self._counted_at is None else self._counted_at + options.COUNT_AGAIN

    async def _count(self) -> None:
        """Recount the spend, since this ledger may know less than the record and the histories.

        Earlier messages about sessions whose end was counted are included.
        """
        self._ledger.begin_day(workflow.now().date())
        named = dict.fromkeys([*self._ledger.running, *self._ledger.queue, *(key for key, _ in self._messages if key)])
        query = CountQuery(tenant=self._tenant, day=self._ledger.day, keys=tuple(named))
        self._ledger.is_doubtful = False  # one that arrives in the meantime triggers another recount
        count = await workflow.execute_activity_method(
            TenantActivities.count_spent, query, summary="count what was spent", **options.COUNT_SPENT
        )
        self._counted_at = workflow.now()
        self._messages = [(key, apply) for key, apply in self._messages if key not in count.ended]
        strange = [entry for entry in count.running if entry.key not in self._ledger.running]
        self._ledger.correct(count)
        if strange:  # their final messages may have been lost
            await workflow.sleep(_FIRST_LOOK, summary="until sessions that end have ended")
            await self._look(strange)

    def _apply(self) -> None:
        """Apply received messages, then admit or refuse waiting sessions."""
        now = workflow.now()
        if self._messages or not self._ledger.is_idle:
            self._ledger.begin_day(now.date())
        messages, self._messages = self._messages, []
        for _, apply in messages:
            apply()
        self._answers += self._ledger.refuse()
        while len(self._answers) < _MOST_ANSWERS and (entry := self._ledger.admit(now)):
            self._answers.append((entry, ""))

    async def _answer(self) -> None:
        """Send decisions; a session that cannot be reached has probably ended."""
        answers, self._answers = self._answers[:_MOST_ANSWERS], self._answers[_MOST_ANSWERS:]
        were_told = await asyncio.gather(
            *(answer(self._mailbox, entry, Admission(refusal=refusal)) for entry, refusal in answers)
        )
        untold = {entry.key for (entry, _), was_told in zip(answers, were_told, strict=True) if not was_told}
        if unknown := [entry for key, entry in self._ledger.running.items() if key in untold]:
            await self._look(unknown)

    async def _wait(self) -> None:
        """Wait for a message, or for the next change by time."""
        now = workflow.now()
        until = min(self._ledger.next_change(now), self._counts_at())
        if not (self._ledger.queue and self._ledger.running):
            self._looked_at, self._look_after = None, _FIRST_LOOK
        else:
            self._looked_at = self._looked_at or now
            until = min(until, self._looked_at + self._look_after)
        with suppress(TimeoutError):
            await workflow.wait_condition(
                lambda: bool(self._messages) or self._counts_at() <= workflow.now(),
                timeout=max(until - now, options.NEXT_TASK),
                timeout_summary="ledger",
            )
        if self._looked_at is not None and workflow.now() >= self._looked_at + self._look_after:
            self._look_after = min(2 * self._look_after, _LAST_LOOK)
            await self._look(self._ledger.running.values())
            self._looked_at = workflow.now()

    async def _look(self, entries: Iterable[Entry]) -> None:
        """Find sessions that have ended silently."""
        query = EndedQuery(tenant=self._tenant, sessions=tuple(entries))
        looking = workflow.execute_activity_method(
            TenantActivities.find_ended, query, summary="look for ended sessions", **options.FIND_ENDED
        )
        result = await options.unless_failed(looking)
        if result is None or not result.ended:
            return  # checked again later
        self._look_after = _FIRST_LOOK
        # After messages received meanwhile, so that a session that reported its spend is not charged twice.
        self._messages += [(ended.key, partial(self._forget, ended)) for ended in result.ended]

    def _forget(self, ended: EndedSession) -> None:
        if ended.key in self._ledger.running:
            self._ledger.leave(ended.key, ended.spent_usd)


@workflow.defn(name=WorkflowType.TENANT, versioning_behavior=VersioningBehavior.AUTO_UPGRADE)
class UpgradingTenantWorkflow(TenantWorkflow):
    """The same for workers with Worker Versioning; it outlives the builds of its sessions."""

    @workflow.init
    def __init__(self, request: LedgerRequest) -> None:
        super().__init__(request)

    @workflow.run
    async def run(self, request: LedgerRequest) -> None:
        """Admit sessions on the newest build."""
        await super().run(request)


def _entry_of(envelope: Envelope, request: AdmissionRequest) -> Entry:
    return Entry(
        key=request.key,
        session=envelope.sender,
        usd=request.usd,
        priority=request.priority,
        since=workflow.now(),
        number=envelope.number,
        token=envelope.token,
    )
