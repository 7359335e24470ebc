"""A shop whose tools act: each effect is a line of a file, which outlives every worker."""

import time
from datetime import timedelta
from pathlib import Path

from chargehand.tools import NOT_YET_KNOWN, NotYetKnown, ToolContext, tool

LATENESS = timedelta(seconds=4)
"""After a request, until a slow service has applied it."""


def effects(ledger: Path) -> list[list[str]]:
    """List the effects in their order: tool and idempotency key."""
    return [line.split() for line in ledger.read_text().splitlines()] if ledger.exists() else []


def _apply(ledger: str, name: str, key: str) -> str:
    with Path(ledger).open("a") as opened:
        opened.write(f"{name} {key}\n")
    return f"Applied {name}."


@tool(capabilities=[], acts=True)
def book(ledger: str, context: ToolContext) -> str:
    """Book something; nothing can say afterwards whether it was booked."""
    return _apply(ledger, "book", context.idempotency_key)


@tool(capabilities=[], acts=True)
async def ship(ledger: str, context: ToolContext) -> str:
    """Ship something."""
    return _apply(ledger, "ship", context.idempotency_key)


@ship.lookup
def find_shipment(ledger: str, context: ToolContext) -> str | None:
    """Look a shipment up."""
    return "Applied ship." if ["ship", context.idempotency_key] in effects(Path(ledger)) else None


@tool(capabilities=[], acts=True, idempotent=True)
def pay(ledger: str, context: ToolContext) -> str:
    """Pay something, at a bank that applies each key once."""
    if ["pay", context.idempotency_key] in effects(Path(ledger)):
        return "Applied pay."
    return _apply(ledger, "pay", context.idempotency_key)


def _is_shown(ledger: str, name: str, key: str) -> bool:
    """Whether a slow service has applied a request."""
    is_requested = [name, key] in effects(Path(ledger))
    return is_requested and time.time() - Path(f"{ledger}.{name}").stat().st_mtime > LATENESS.total_seconds()


def _request(ledger: str, name: str, key: str) -> str:
    Path(f"{ledger}.{name}").touch()
    return _apply(ledger, name, key)


@tool(capabilities=[], acts=True, settles_within=2 * LATENESS)
def wire(ledger: str, context: ToolContext) -> str:
    """Wire money, by a bank that books later."""
    return _request(ledger, "wire", context.idempotency_key)


@wire.lookup
def find_wire(ledger: str, context: ToolContext) -> str | None:
    """Look a transfer up."""
    return "Applied wire." if _is_shown(ledger, "wire", context.idempotency_key) else None


@tool(capabilities=[], acts=True)
def enrol(ledger: str, context: ToolContext) -> str:
    """Enrol a pupil, at an office that files later, as its tool does not say."""
    return _request(ledger, "enrol", context.idempotency_key)


@enrol.lookup
def find_enrolment(ledger: str, context: ToolContext) -> str | None:
    """Look an enrolment up."""
    return "Applied enrol." if _is_shown(ledger, "enrol", context.idempotency_key) else None


@tool(capabilities=[], acts=True, settles_within=timedelta(0))
def post(ledger: str, context: ToolContext) -> str:
    """Post a letter, of which the post office does not know for days."""
    return _apply(ledger, "post", context.idempotency_key)


@post.lookup
def find_letter() -> NotYetKnown:
    """Look a letter up."""
    return NOT_YET_KNOWN


ACTING = (book, ship, pay, wire, enrol, post)
