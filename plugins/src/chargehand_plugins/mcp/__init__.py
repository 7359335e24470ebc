"""MCP: sessions for assistants, by `chargehand mcp`."""

from importlib.util import find_spec

from chargehand.plugins import Registry


def register(registry: Registry) -> None:
    """Add the verb `mcp`, if the protocol's library is installed."""
    if find_spec("mcp"):
        registry.verbs("Operate", f"{__name__}.verbs:app")
