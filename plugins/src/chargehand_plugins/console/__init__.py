"""The console: a web page and an HTTP API on one server, for one namespace and task queue.

`security` controls access, `api` and `pages` are its two interfaces, `server` runs it.
"""

from importlib.util import find_spec

from chargehand.plugins import Hook, Registry


def register(registry: Registry) -> None:
    """Add the verb `console`, and serve the console together with `up`."""
    registry.variables("CHARGEHAND_CONSOLE_TOKEN", "CHARGEHAND_CONSOLE_PORT")
    if find_spec("starlette") and find_spec("uvicorn"):
        registry.verbs("Operate", f"{__name__}.verbs:app")
        registry.hook(Hook.BESIDE_UP, f"{__name__}.verbs:beside_up")
        registry.hook(Hook.CHECK_SETTINGS, f"{__name__}.verbs:check_settings")
