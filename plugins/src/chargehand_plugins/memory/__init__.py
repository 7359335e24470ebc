"""Memory: facts that agents of later sessions of the same tenant find again, under the eyes of people."""

from chargehand.plugins import Registry


def register(registry: Registry) -> None:
    """Add the tools that record and find facts, and the verbs that list, edit, confirm and forget them."""
    registry.settings(f"{__name__}.tools:MemorySettings", "CHARGEHAND_MEMORY_RECALLS")
    registry.parts(f"{__name__}.tools:add_parts")
    registry.verbs("Operate", f"{__name__}.verbs:app")
