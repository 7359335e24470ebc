"""What a run may spend: a case starts only if all that it may spend still fits."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from decimal import Decimal


class NotAffordable(Exception):  # noqa: N818  # reads as a statement
    """What is left of the run's dollars does not hold another case."""


class Spending:
    """The dollars of a run; without a limit if `most` is None."""

    def __init__(self, most: Decimal | None = None, spent: Decimal = Decimal(0)) -> None:
        self.most = most
        self.spent = spent
        self._reserved = Decimal(0)
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def reserve(self, amount: Decimal) -> AsyncGenerator[None]:
        """Wait until an amount fits, and hold it while a case runs.

        Raises:
            NotAffordable: it does not fit, and no case is running that could leave some.
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
        """Count what a case has cost."""
        self.spent += usd

    def _fits(self, amount: Decimal) -> bool:
        return self.most is None or self.spent + self._reserved + amount <= self.most
