"""MCP: tools of servers for agents, and sessions for assistants by `chargehand mcp`."""

from importlib.util import find_spec

from chargehand.plugins import Hook, Registry


def register(registry: Registry) -> None:
    """Add the servers that crews declare, and the verb `mcp`, if the protocol's library is installed."""
    registry.parts(f"{__name__}.tools.registry:add_parts")
    registry.examinations(f"{__name__}.tools.registry:examine_declared")
    if find_spec("mcp"):
        registry.verbs("Operate", f"{__name__}.verbs:app")
        registry.variables("CHARGEHAND_MCP_TOKEN")
        registry.hook(Hook.CHECK_SETTINGS, f"{__name__}.verbs:check_settings")
