"""The documentation on the command line, from a checkout or from wheels."""

from chargehand.plugins import Registry


def register(registry: Registry) -> None:
    registry.verbs("Read", f"{__name__}.verbs:app")
