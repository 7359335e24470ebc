"""The parent's side of grants: what a supervisor has granted to its children. Pure."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from chargehand.contracts import Failure, FailureReason, Outcome, SpendLine, Usage
from workflows.budget.ledger import Amount, Ledger, Reservation
from workflows.rules.plan_validation import SUPERVISOR
from workflows.rules.report_content import usage_of

_SPEND_UNKNOWN: Final[frozenset[FailureReason]] = frozenset({"terminated", "internal"})
"""Failures after which a child does not report its spend."""


class Grants:
    """The open grants of one supervisor, by the child's workflow id."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._open: dict[str, Reservation] = {}
        self._waiting: list[tuple[str, bool]] = []
        """Children waiting for a larger grant, in request order, and whether each can continue without it."""
        self.lost_spend: list[SpendLine] = []
        """Charged for children that did not report their spend."""
        self.closed = 0
        """Number of grants closed so far; a change means that budget may have been returned."""

    @property
    def amounts(self) -> Mapping[str, Amount]:
        return {child: reservation.amount for child, reservation in self._open.items()}

    @property
    def all_wait(self) -> bool:
        """Whether no budget can be returned: no running child can continue without a larger grant."""
        return set(self._open) <= {child for child, is_optional in self._waiting if not is_optional}

    def reserve(
        self, least: Amount, most: Amount, not_started: int, most_usd: Decimal | None = None
    ) -> Reservation | None:
        """Reserve a subtask's share of the unspent budget; None if the budget does not cover even the minimum.

        All subtasks that have not started, including this one, get equal shares, up to `most_usd` each.
        """
        fair = self._ledger.unspent.share(not_started)
        share = most.at_most(Amount(max(least.turns, fair.turns), max(least.usd, fair.usd)))
        return self._ledger.reserve(share, most_usd) or self._ledger.reserve(least, most_usd)

    def open(self, child: str, reservation: Reservation) -> bool:
        """Grant a reservation to a child; False, without effect, if that child already holds one."""
        if child in self._open:
            return False
        self._open[child] = reservation
        return True

    def enlarge(self, child: str, asked: Amount, sharers: int) -> Amount:
        """Enlarge a child's grant; return by how much: zero, or at least the requested amount.

        The grant is doubled if that is within the child's share, so that a busy child asks less often.
        """
        grant = self._open.get(child)
        left = self._ledger.unspent
        if grant is None or not left.covers(asked) or not grant.may_grow(asked):
            return Amount()
        more = asked + grant.amount.at_most((left - asked).share(max(sharers, 1)))
        more = more if grant.may_grow(more) else asked
        extended = self._ledger.extend(grant, more)
        if extended is None:
            return Amount()
        self._open[child] = extended
        return more

    def close(self, child: str, agent: str, outcome: Outcome) -> Outcome:
        """Settle a child's grant; an outcome without its spend is charged the whole grant."""
        grant = self._open.pop(child)
        unknown = _SPEND_UNKNOWN | {"cancelled"} if agent == SUPERVISOR else _SPEND_UNKNOWN
        if isinstance(outcome, Failure) and outcome.reason in unknown and not outcome.spend:
            outcome = outcome.replace(spend=(_full_charge(agent, grant.amount),))
        usage = usage_of(outcome.spend)
        self._ledger.settle(grant, Amount(usage.turns, usage.cost_usd))
        self.closed += 1
        return outcome

    def release(self, reservation: Reservation) -> None:
        self._ledger.settle(reservation, Amount())

    def charge_lost(self) -> Decimal:
        """Charge in full the grants of children that did not end; return the dollars charged."""
        charged = sum((grant.amount.usd for grant in self._open.values()), Decimal(0))
        for child, grant in self._open.items():
            self.lost_spend.append(_full_charge(child.split("/")[-2], grant.amount))
            self._ledger.settle(grant, grant.amount)
        self._open.clear()
        return charged

    def queue(self, child: str, *, is_optional: bool) -> None:
        self._waiting.append((child, is_optional))

    def dequeue(self, child: str, *, is_optional: bool) -> None:
        self._waiting.remove((child, is_optional))

    def may_grow(self, child: str, more: Amount) -> bool:
        """Return whether a child's grant may grow by an amount, budget permitting."""
        return child in self._open and self._open[child].may_grow(more)

    def is_hopeless(self, child: str, *, is_optional: bool) -> bool:
        """Return whether waiting is pointless: all running children wait, and this is the one to be refused.

        The last to ask is refused first, and those that can continue without it before all others.
        """
        if child not in self._open:
            return True
        if not set(self._open) <= {waiting for waiting, _ in self._waiting}:
            return False
        optional = [waiting for waiting in self._waiting if waiting[1]]
        return (optional or self._waiting)[-1] == (child, is_optional)


def _full_charge(agent: str, grant: Amount) -> SpendLine:
    usage = Usage(turns=grant.turns, cost_usd=grant.usd, possibly_billed_twice_usd=grant.usd)
    return SpendLine(agent=agent, model="unknown", purpose="lost", usage=usage)
