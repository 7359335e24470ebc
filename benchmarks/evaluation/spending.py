"""The spending limit of a run: a case starts only if the maximum it may spend still fits."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from decimal import Decimal


class NotAffordable(Exception):  # noqa: N818  # reads as a statement
    """The run's remaining dollars do not cover another case."""


class Spending:
    """The dollars of a run; unlimited if `most` is None."""

    def __init__(self, most: Decimal | None = None, spent: Decimal = Decimal(0)) -> None:
        self.most = most
        self.spent = spent
        self._reserved = Decimal(0)
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def reserve(self, amount: Decimal) -> AsyncGenerator[None]:
        """Wait until an amount fits, and reserve it while a case runs.

        Raises:
            NotAffordable: it does not fit, and no running case could release some.
        """
        async with self._changed:
            while not self._fits(amount):
                if not self._reserved:
                    raise NotAffordable(f"${self.spent:.2f} of ${self.most} are spent; a case may spend ${amount}.")
                await self._changed.wait()
            self._reserved += amount
        try:
            yield
        finally:
            async with self._changed:
                self._reserved -= amount
                self._changed.notify_all()

    def charge(self, usd: Decimal) -> None:
        """Add the cost of a case."""
        self.spent += usd

    def _fits(self, amount: Decimal) -> bool:
        return self.most is None or self.spent + self._reserved + amount <= self.most
