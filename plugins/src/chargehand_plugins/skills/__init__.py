"""Skills: folders with a `SKILL.md` that agents read when needed."""

from importlib.util import find_spec

from chargehand.plugins import Registry


def register(registry: Registry) -> None:
    """Add a tool for each skill next to the crew files, and rows of `chargehand doctor`, if YAML is available."""
    if find_spec("yaml"):
        registry.parts(f"{__name__}.tool:add_parts")
        registry.choices(f"{__name__}.tool:choose")
