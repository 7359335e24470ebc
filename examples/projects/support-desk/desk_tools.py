"""The shop's tools: an order is looked up, and a refund is booked once for each key."""

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from typing import Annotated

from chargehand.plugins import Registry
from chargehand.tools import Depends, ToolContext, ToolError, tool

_ORDERS = (("A-17", 38.0, "delivered"), ("B-02", 120.0, "delivered"), ("C-30", 95.0, "lost"))


class Shop:
    """Orders and refunds in a SQLite file; each call opens it again, so that threads and workers share it."""

    def __init__(self, path: str = "shop.sqlite") -> None:
        self._path = path
        with self._open() as database:
            database.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT PRIMARY KEY, euros REAL, state TEXT)")
            database.execute("CREATE TABLE IF NOT EXISTS refunds (key TEXT PRIMARY KEY, number TEXT, euros REAL)")
            database.executemany("INSERT OR IGNORE INTO orders VALUES (?, ?, ?)", _ORDERS)

    def order(self, number: str) -> tuple[float, str] | None:
        """Look up what an order cost, and its state."""
        with self._open() as database:
            return database.execute("SELECT euros, state FROM orders WHERE number = ?", (number,)).fetchone()

    def book(self, key: str, number: str, euros: float) -> None:
        """Book a refund, once for each key."""
        with self._open() as database:
            database.execute("INSERT OR IGNORE INTO refunds VALUES (?, ?, ?)", (key, number, euros))

    def refunds(self, key: str = "%") -> list[tuple[str, float]]:
        """List the refunds that were booked, all or that of one key."""
        with self._open() as database:
            return database.execute("SELECT number, euros FROM refunds WHERE key LIKE ?", (key,)).fetchall()

    @contextmanager
    def _open(self) -> Generator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path)) as database, database:
            yield database


def open_shop() -> Shop:
    """Open the shop of the folder in which the worker runs."""
    return Shop()


@tool(capabilities=["reads_private"])
def order(number: str, shop: Annotated[Shop, Depends(open_shop)]) -> dict[str, object]:
    """Look up what an order cost, in euros, and whether it was delivered or lost.

    Args:
        number: The order's number, such as A-17.
    """
    found = shop.order(number)
    if found is None:
        raise ToolError(f"There is no order {number}. Ask the customer for its number.")
    return {"euros": found[0], "state": found[1]}


@tool(capabilities=["reads_private"], acts=True)
def refund(number: str, euros: float, context: ToolContext, shop: Annotated[Shop, Depends(open_shop)]) -> str:
    """Refund an order, or a part of it. Look the order up before.

    Args:
        number: The order's number, such as A-17.
        euros: How much, at most what the order cost.
    """
    found = shop.order(number)
    if found is None or euros > found[0]:
        raise ToolError("That is more than the order cost.")
    shop.book(context.idempotency_key, number, euros)
    return f"{euros:.2f} euros of order {number} are refunded."


@refund.lookup
def find_refund(context: ToolContext, shop: Annotated[Shop, Depends(open_shop)]) -> str | None:
    """After a crash: the refund of this very call, if it was booked."""
    booked = shop.refunds(context.idempotency_key)
    return f"{booked[0][1]:.2f} euros of order {booked[0][0]} are refunded." if booked else None


def register(registry: Registry) -> None:
    """Add the tools of this module to workers."""
    registry.tools(__name__)
