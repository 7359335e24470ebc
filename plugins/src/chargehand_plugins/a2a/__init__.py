"""Sessions as tasks of an A2A agent, which other agents find by its card, on the server of the console."""

from importlib.util import find_spec

from chargehand.plugins import Hook, Registry


def register(registry: Registry) -> None:
    """Add the routes of the agent to the console, if the protocol's library is installed."""
    if find_spec("a2a"):
        registry.hook(Hook.CONSOLE_ROUTES, f"{__name__}.routes:a2a_routes")
