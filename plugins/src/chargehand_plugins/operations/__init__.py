"""What operators of workers and servers need, and who writes crews: `doctor`, `init` and others."""

from chargehand.plugins import Registry


def register(registry: Registry) -> None:
    """Add the verbs."""
    for verb in ("setup", "doctor", "replay", "clean", "reconcile"):
        registry.verbs("Operate", f"{__name__}.{verb}:app")
    registry.verbs("Build", f"{__name__}.crew:app")
