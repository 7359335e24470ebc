"""A shop whose tools act: each effect is a line of a file, which outlives every worker."""

from pathlib import Path

from chargehand.tools import ToolContext, tool


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


ACTING = (book, ship, pay)
