"""What operators of workers and servers need: `setup`, `doctor`, `replay` and `clean`."""

from chargehand.plugins import Registry


def register(registry: Registry) -> None:
    """Add the verbs."""
    for verb in ("setup", "doctor", "replay", "clean"):
        registry.verbs("Operate", f"{__name__}.{verb}:app")
