"""The child's side of a grant: ask the parent for more, and wait for its answer."""

import asyncio
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
        self._asked = 0
        self._answers: dict[int, Amount] = {}
        self.waited = timedelta(0)
        """Time spent waiting for answers."""

    def receive(self, grant: Grant) -> None:
        """Keep the answer to a request."""
        self._answers[grant.number] = Amount(grant.turns, grant.usd)

    async def ask(self, missing: Amount, *, patient: bool) -> Amount:
        """Ask for an amount; returns at least that amount, or nothing."""
        info = workflow.info()
        if info.parent is None:
            return Amount()
        self._asked += 1
        number = self._asked
        request = GrantRequest(
            child=info.workflow_id, number=number, turns=missing.turns, usd=missing.usd, patient=patient
        )
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
        await workflow.wait_condition(lambda: number in self._answers)
        self.waited += workflow.now() - asked_at
        raise_if_cancelled()
        return self._answers[number]
