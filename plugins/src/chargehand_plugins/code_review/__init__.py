"""Code review: a crew of reviewers whose findings are checked against the change."""

from importlib.util import find_spec
from pathlib import Path

from chargehand.plugins import Hook, Registry


def register(registry: Registry) -> None:
    """Add the crew `code-review`, its tools and its reports, if the repository library is installed."""
    if find_spec("dulwich"):
        registry.crews(Path(__file__).with_name("crews"))
        registry.parts(f"{__name__}.activity:add_parts")
        registry.hook(Hook.REPORT, f"{__name__}.report:write_review")
