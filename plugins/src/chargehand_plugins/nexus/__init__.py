"""Nexus: workflows of other namespaces start, steer and read sessions."""

from chargehand.plugins import Registry


def register(registry: Registry) -> None:
    """Add the handler of the service, whose contract is in `service.py`."""
    registry.nexus_handler(f"{__name__}.operations:SessionOperations")
