"""The tool `draw_chart`, for agents that compute."""

from chargehand.plugins import Registry


def register(registry: Registry) -> None:
    """Add the tool, if matplotlib is installed, and its row of `chargehand doctor`."""
    registry.parts(f"{__name__}.tool:add_parts")
    registry.choices(f"{__name__}.tool:choose")
