"""The child's side of a grant: ask the parent for more, and wait for its answer."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import FailureError, is_cancelled_exception

from chargehand.wire import SignalName
from workflows.budget.ledger import Amount
from workflows.contracts import Grant, GrantRequest


def raise_if_cancelled() -> None:
    """Stop a workflow that was cancelled while a signal was being sent: the SDK does not raise there.

    Raises:
        CancelledError: it was cancelled.
    """
    if workflow.cancellation_reason() is not None:
        raise asyncio.CancelledError


class BudgetClient:
    """Asks the parent workflow for a larger grant. Every request is answered, if only with nothing."""

    def __init__(self) -> None:
        self.asked = 0
        """Requests sent, which number the next ones."""
        self._open: dict[int, _Open] = {}
        self.waited = timedelta(0)
        """Time spent waiting for answers."""
        self.ignored = 0
        """Grants that answered no open request, or that no parent would give."""

    def resume(self, asked: int, waited: timedelta) -> None:
        """Go on where the run before this one stopped, whose requests are all answered."""
        self.asked, self.waited = asked, waited

    def receive(self, grant: Grant) -> None:
        """Keep the answer to an open request; anything else is ignored and counted."""
        request = self._open.get(grant.number)
        if request is None or not request.take(grant.token, Amount(grant.turns, grant.usd)):
            self.ignored += 1

    async def ask(self, missing: Amount, held: Amount, is_over: Callable[[], bool] = lambda: False) -> Amount:
        """Ask for an amount, and wait while it may still become free; returns at least that amount, or nothing.

        Args:
            missing: what is asked for.
            held: what was granted before. A parent gives at most as much again beside what is missing.
            is_over: whether an answer is of no use any more.
        """
        info = workflow.info()
        if info.parent is None:
            return Amount()
        self.asked += 1
        number = self.asked
        request = GrantRequest(
            child=info.workflow_id,
            number=number,
            token=str(workflow.uuid4()),
            turns=missing.turns,
            usd=missing.usd,
        )
        waiting = _Open(request.token, missing, missing + held)
        for other in self._open.values():
            before = waiting.most
            waiting.allow_more(other.most)
            other.allow_more(before)
        self._open[number] = waiting
        try:
            # By id alone: after a reset of the supervisor, its newest run is the one that grants.
            await workflow.get_external_workflow_handle(info.parent.workflow_id).signal(
                SignalName.REQUEST_GRANT, request
            )
        except FailureError as error:
            if is_cancelled_exception(error):
                raise asyncio.CancelledError from error
            return Amount()
        asked_at = workflow.now()
        await workflow.wait_condition(lambda: waiting.answer is not None or is_over())
        if waiting.answer is not None:
            del self._open[number]
        self.waited += workflow.now() - asked_at
        raise_if_cancelled()
        return waiting.answer or Amount()


@dataclass
class _Open:
    """A request that waits for its answer."""

    token: str
    least: Amount
    most: Amount
    answer: Amount | None = None

    def allow_more(self, granted: Amount) -> None:
        """Allow for another request being answered before: a parent may double what that one is granted, too."""
        self.most += granted

    def take(self, token: str, amount: Amount) -> bool:
        """Take the parent's answer: nothing, or an amount between the two; False if this cannot be it."""
        is_possible = amount == Amount() or (amount.covers(self.least) and self.most.covers(amount))
        if self.answer is not None or token != self.token or not is_possible:
            return False
        self.answer = amount
        return True
