"""A codec server: it decodes protected payloads for Temporal's Web UI and command line."""

from chargehand.plugins import Registry


def register(registry: Registry) -> None:
    """Add the verb `codec-server`."""
    registry.variables("CHARGEHAND_CODEC_TOKEN")
    registry.verbs("Operate", f"{__name__}.verbs:app")
