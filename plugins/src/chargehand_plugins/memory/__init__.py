"""Memory: facts kept for agents of later sessions of the same tenant, supervised by people."""

from chargehand.plugins import Registry


def register(registry: Registry) -> None:
    registry.settings(f"{__name__}.tools:MemorySettings", "CHARGEHAND_MEMORY_RECALLS")
    registry.parts(f"{__name__}.tools:add_parts")
    registry.verbs("Operate", f"{__name__}.verbs:app")
