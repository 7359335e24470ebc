"""Sessions as tasks of an A2A agent, discoverable by its card, on the console's server."""

from importlib.util import find_spec

from chargehand.plugins import Hook, Registry


def register(registry: Registry) -> None:
    """Add the routes of the agent to the console, if the protocol's library is installed."""
    if find_spec("a2a"):
        registry.hook(Hook.CONSOLE_ROUTES, f"{__name__}.tasks:a2a_routes")
