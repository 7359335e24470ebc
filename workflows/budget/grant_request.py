"""The child's side of a grant: ask the parent for more, and wait for its reply."""

from collections.abc import Callable

from temporalio import workflow

from workflows.budget.ledger import Amount, Ledger
from workflows.mailbox.contracts import Grant, GrantRequest
from workflows.mailbox.mailbox import Mailbox
from workflows.mailbox.signals import ask


async def request_grant(
    mailbox: Mailbox,
    ledger: Ledger,
    needed: Amount,
    is_over: Callable[[], bool] = lambda: False,
    *,
    is_optional: bool = False,
) -> None:
    """Ask the parent workflow for what is missing of an amount, and wait while it may still become free."""
    parent, missing = workflow.info().parent, ledger.missing(needed)
    if parent is None or missing == Amount():
        return

    def take(grant: Grant) -> bool:
        """Take nothing, or at least what is missing and at most as much again beside it as was granted before."""
        amount = Amount(grant.turns, grant.usd)
        if amount != Amount() and not (amount.covers(missing) and (missing + ledger.granted).covers(amount)):
            return False
        ledger.grant(amount)
        return True

    request = GrantRequest(turns=missing.turns, usd=missing.usd, is_optional=is_optional)
    await ask(mailbox, parent.workflow_id, request, Grant, take=take, is_over=is_over)
