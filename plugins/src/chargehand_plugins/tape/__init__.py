"""Tapes: the model and tool traffic of a session, recorded to a file and replayed without a key."""

from importlib.util import find_spec

from chargehand.plugins import Registry


def register(registry: Registry) -> None:
    """Add the settings of tapes, the wrapper of a worker's traffic, and the verb `tape` if the CLI is installed."""
    registry.settings(f"{__name__}.worker:TapeSettings", "CHARGEHAND_TAPE_RECORD", "CHARGEHAND_TAPE_REPLAY")
    registry.choices(f"{__name__}.worker:choose")
    registry.parts(f"{__name__}.worker:add_parts")
    if find_spec("chargehand_cli"):
        registry.verbs("Run", f"{__name__}.verbs:app")
