"""Tools of the crew `my-crew`: typed functions, whose docstrings and parameters are what a model sees."""

from chargehand.plugins import Registry
from chargehand.tools import ToolError, tool

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


def register(registry: Registry) -> None:
    """Add the tools of this module to workers."""
    registry.tools(__name__)
