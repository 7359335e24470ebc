"""A codec server: it decodes protected payloads for Temporal's Web UI and command line."""

from importlib.util import find_spec

from chargehand.plugins import Hook, Registry


def register(registry: Registry) -> None:
    """Add the verb `codec-server`, if the HTTP server library is installed."""
    registry.variables("CHARGEHAND_CODEC_TOKEN")
    if find_spec("starlette") and find_spec("uvicorn"):
        registry.verbs("Operate", f"{__name__}.verbs:app")
        registry.hook(Hook.CHECK_SETTINGS, f"{__name__}.verbs:check_settings")
