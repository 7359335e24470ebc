"""Advice on whether a request needs a crew."""

from chargehand.plugins import Registry


def register(registry: Registry) -> None:
    registry.verbs("Read", f"{__name__}.advise:app")
