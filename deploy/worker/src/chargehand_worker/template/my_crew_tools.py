"""Tools of the crew `my-crew`: typed functions, whose docstrings and parameters are what a model sees."""

from pathlib import Path

from chargehand.plugins import Registry
from chargehand.tools import ToolContext, ToolError, tool

_STOCK = {"A-17": 40, "B-02": 0}


@tool(capabilities=["reads_private"])
def stock_level(item: str) -> int:
    """Return how many pieces of an item are in stock.

    Args:
        item: The item's number, such as A-17.
    """
    if item not in _STOCK:
        raise ToolError(f"There is no item {item}; there are {', '.join(_STOCK)}.")
    return _STOCK[item]


@tool(capabilities=["reads_private"], acts=True, idempotent=True, approval=True)
def reserve(item: str, pieces: int, context: ToolContext) -> str:
    """Reserve pieces of an item for a customer. A person approves each call.

    Args:
        item: The item's number, such as A-17.
        pieces: How many.
    """
    reservation = f"R-{context.idempotency_key[:8]}"
    # A call repeated after a crash adds no second line, since its key is the same.
    book = Path("reservations.csv")
    known = book.read_text(encoding="utf-8") if book.exists() else ""
    if reservation not in known:
        book.write_text(f"{known}{reservation},{item},{pieces}\n", encoding="utf-8")
    return reservation


def register(registry: Registry) -> None:
    """Add the tools of this module to workers."""
    registry.tools(__name__)
