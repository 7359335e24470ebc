"""A shop for experiments, as a worker plug-in: three kinds of acting tool, at a service that keeps a ledger."""

import fcntl
import os
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Final

from chargehand.plugins import Registry
from chargehand.tools import ToolContext, tool

LEDGER: Final = "CHAOS_LEDGER"
"""Environment variable that names the ledger: one line per effect; it outlives workers and databases."""
SETTLES: Final = "CHAOS_SETTLES_SECONDS"
"""Environment variable for how long after a request the service can still commit it."""
TOOLS: Final = ("book", "ship", "pay")
_LONGEST: Final = timedelta(minutes=2)
ANSWERS_AFTER: Final = 2.0
"""Seconds from an effect to the service's answer, in which a worker can be lost."""
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
    """List the effects in order: `<tool> <order>`."""
    return ledger.read_text().splitlines() if ledger.exists() else []


def asked(ledger: Path) -> list[str]:
    """List the requests that reached the service."""
    return effects(ledger.with_suffix(".asked"))


def _apply(name: str, order: str, *, once: bool = False) -> str:
    """Call the service, a separate process; an order that ends in `late-20` is committed 20 seconds later."""
    ledger, late = Path(os.environ[LEDGER]), float(order.partition("late-")[2] or 0)
    _write(ledger.with_suffix(".asked"), f"{name} {order}\n", once=False)
    committing = (sys.executable, "-m", __name__, str(ledger), f"{name} {order}\n", str(time.time() + late), str(once))
    if late:
        subprocess.Popen(committing, start_new_session=True)  # our own command
    else:
        _write(ledger, f"{name} {order}\n", once=once)
    time.sleep(late + ANSWERS_AFTER)
    return f"Applied {name} to {order}."


def _write(ledger: Path, line: str, *, once: bool) -> None:
    with ledger.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        if not once or line not in file.readlines():
            file.write(line)


@tool(capabilities=[], acts=True, time_limit=_LONGEST)
def book(order: str) -> str:
    """Book an order; it cannot be found out afterwards whether it was booked."""
    return _apply("book", order)


@tool(
    capabilities=[],
    acts=True,
    time_limit=_LONGEST,
    settles_within=timedelta(seconds=float(os.environ.get(SETTLES, "1"))),
)
def ship(order: str) -> str:
    """Ship an order."""
    return _apply("ship", order)


@ship.lookup
def find_shipment(order: str, context: ToolContext) -> str | None:
    del context
    return "It is shipped." if f"ship {order}" in effects(Path(os.environ[LEDGER])) else None


@tool(capabilities=[], acts=True, idempotent=True, time_limit=_LONGEST)
def pay(order: str) -> str:
    """Pay for an order at a bank that pays each order once."""
    return _apply("pay", order, once=True)


def register(registry: Registry) -> None:
    """Add the tools."""
    registry.tools(__name__)


if __name__ == "__main__":
    time.sleep(max(0.0, float(sys.argv[3]) - time.time()))  # this process may have taken seconds to start
    _write(Path(sys.argv[1]), sys.argv[2], once=sys.argv[4] == "True")
