"""A shop for experiments, as a plug-in of a worker: three kinds of tool that act, at a service that keeps a ledger."""

import fcntl
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Final

from chargehand.plugins import Registry
from chargehand.tools import ToolContext, tool

LEDGER: Final = "CHAOS_LEDGER"
"""The variable that names the ledger: a line for each effect, which outlives every worker and database."""
ANSWERS_AFTER: Final = 2.0
"""Seconds from an effect to the answer of the service, in which a worker can be lost."""
CREW: Final = """
name = "shop"
description = "Books, ships and pays orders."
guidance = "Give each order to the clerk."
[[agents]]
name = "clerk"
description = "Books, ships and pays orders."
prompt = "Book, ship and pay the order that you are given."
tools = ["book", "ship", "pay"]
"""


def effects(ledger: Path) -> list[str]:
    """List what was done, in its order: `<tool> <order>`."""
    return ledger.read_text().splitlines() if ledger.exists() else []


def _apply(name: str, order: str, *, once: bool = False) -> str:
    with Path(os.environ[LEDGER]).open("a+") as ledger:
        fcntl.flock(ledger, fcntl.LOCK_EX)
        ledger.seek(0)
        if not once or f"{name} {order}\n" not in ledger.readlines():
            ledger.write(f"{name} {order}\n")
    time.sleep(ANSWERS_AFTER)
    return f"Applied {name} to {order}."


@tool(capabilities=[], acts=True)
def book(order: str) -> str:
    """Book an order; nothing can say afterwards whether it was booked."""
    return _apply("book", order)


@tool(capabilities=[], acts=True, settles_within=timedelta(seconds=1))
def ship(order: str) -> str:
    """Ship an order."""
    return _apply("ship", order)


@ship.lookup
def find_shipment(order: str, context: ToolContext) -> str | None:
    del context
    return "It is shipped." if f"ship {order}" in effects(Path(os.environ[LEDGER])) else None


@tool(capabilities=[], acts=True, idempotent=True)
def pay(order: str) -> str:
    """Pay an order, at a bank that pays each order once."""
    return _apply("pay", order, once=True)


def register(registry: Registry) -> None:
    """Add the tools."""
    registry.tools(__name__)
