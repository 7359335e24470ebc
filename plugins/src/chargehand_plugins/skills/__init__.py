"""Skills: folders with a `SKILL.md`, which agents read when their work needs them."""

from importlib.util import find_spec

from chargehand.plugins import Registry


def register(registry: Registry) -> None:
    """Add a tool for each skill beside the crew files, and the rows of `chargehand doctor`, if YAML can be read."""
    if find_spec("yaml"):
        registry.parts(f"{__name__}.tool:add_parts")
        registry.choices(f"{__name__}.tool:choose")
