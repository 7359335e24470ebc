"""Chargehand: durable multi-agent sessions on Temporal. Start with `Chargehand.connect()` and `SessionRequest`.

The public names are those of `chargehand.api`. They are loaded on first use from the lightest module that has them:
Temporal's client takes most of a second to import, while `chargehand --help` and the process that starts the embedded
server need only errors.
"""

from importlib import import_module
from types import ModuleType

TYPE_CHECKING = False  # type checkers take it for true; `typing` takes long to load
if TYPE_CHECKING:
    from chargehand.api import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]


def __getattr__(name: str) -> object:
    for module in ("api",) if name.startswith("__") else ("wire", "errors", "contracts", "api"):
        value: object = vars(import_module(f"chargehand.{module}")).get(name)
        if value is not None and not isinstance(value, ModuleType):
            return value
    raise AttributeError(f"module 'chargehand' has no attribute '{name}'")


def __dir__() -> list[str]:
    return [*globals(), *import_module("chargehand.api").__all__]
