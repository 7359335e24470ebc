"""Chargehand: durable multi-agent sessions on Temporal. Start with `Chargehand.connect()` and `SessionRequest`.

The public names are those of `chargehand.api`. They are loaded on first use: Temporal's client takes most of a second
to import, and `chargehand --help` and the process that starts the embedded server need only `chargehand.errors`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chargehand.api import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary] - as above


def __getattr__(name: str) -> object:
    api = import_module("chargehand.api")
    if name != "__all__" and name not in api.__all__:
        raise AttributeError(f"module 'chargehand' has no attribute '{name}'")
    return getattr(api, name)


def __dir__() -> list[str]:
    return [*globals(), *import_module("chargehand.api").__all__]
