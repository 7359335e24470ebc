"""What is set aside for the turn that writes the report, and for those that fill and judge it. Pure."""

from typing import Final

from workflows.budget.ledger import Amount, Ledger, Reservation

_LARGEST_SHARE: Final = 3
"""At most 1 divided by this of the granted amount is reserved for the report."""


class ReportReserve:
    """The reservation for the turn that writes the report, made before anything else is paid."""

    def __init__(self, ledger: Ledger, worst: Amount) -> None:
        self._ledger = ledger
        self.worst = worst
        self._reservation: Reservation | None = None

    @property
    def is_held(self) -> bool:
        return self._reservation is not None

    @property
    def is_payable(self) -> bool:
        return self.is_held or self._ledger.unspent.covers(self.worst)

    def hold(self) -> bool:
        """Reserve the report's worst case once; False if the ledger does not cover it."""
        if self._reservation is None:
            self._reservation = self._ledger.reserve(self.worst)
        return self._reservation is not None

    def grow(self, needed: Amount) -> None:
        """Reserve more, as far as the ledger covers it, up to a third of the granted amount."""
        if self._reservation is None:
            return
        wanted = needed.at_most(self._ledger.granted.share(_LARGEST_SHARE))
        missing = wanted.beyond(self._reservation.amount)
        affordable = missing.at_most(self._ledger.unspent)
        self._reservation = self._ledger.extend(self._reservation, affordable) or self._reservation

    def release(self) -> None:
        """Free the reservation when the report is due or needs no turn."""
        if self._reservation is not None:
            self._ledger.settle(self._reservation, Amount())
            self._reservation = None
