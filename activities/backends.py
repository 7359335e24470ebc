"""How settings choose an adapter: each backend is a table with one row per adapter.

A new adapter is a new file and a row in the `registry.py` of its folder. Adapters that are not chosen are not imported.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated, Generic, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, SecretStr
from pydantic_settings import BaseSettings

ENVIRONMENT_PREFIX = "CHARGEHAND_"
BuildType_co = TypeVar("BuildType_co", bound=Callable[..., object], covariant=True)


def _web_address(value: str) -> str:
    address = urlsplit(value)
    if value and (address.scheme not in {"http", "https"} or not address.hostname or value != value.strip()):
        raise ValueError("must be an address that begins with http:// or https:// and names a host")
    return value


WebAddress = Annotated[str, AfterValidator(_web_address)]
"""The address of a service; empty for its default."""


class SettingsError(Exception):
    """The settings cannot work together; the message names the setting and the remedy."""


@dataclass(frozen=True)
class Choice:
    """The adapter of a backend, and the reason for it."""

    backend: str
    adapter: str
    why: str
    problem: str = ""
    """Why it does not work on this host; empty if it works or was not tried."""
    replaces_all: bool = False
    """Whether it answers instead of all models and tools, so that no server of theirs is needed."""


@dataclass(frozen=True)
class Row(Generic[BuildType_co]):
    """One adapter of a backend."""

    name: str
    build: BuildType_co
    """Imports the adapter and builds it."""
    chosen_by: str = ""
    """The environment variable that selects this row when it is set; empty if only the backend's own setting does."""
    needs: str = ""
    """The environment variable that must be set."""
    package: tuple[str, str] = ("", "")
    """An optional package that must be installed, and the command that installs it."""


@dataclass(frozen=True)
class Backend(Generic[BuildType_co]):
    """The adapters of one backend, in order of precedence; the last is the default."""

    name: str
    setting: str
    """The environment variable that selects a row by its name."""
    rows: tuple[Row[BuildType_co], ...]
    default: str
    """What the default means to users."""

    def choose(self, settings: BaseSettings) -> Choice:
        """Select a row: the one that the backend's setting names, or the first whose variable is set."""
        if named := _value(settings, self.setting):
            return Choice(self.name, self._row(named).name, f"set by {self.setting}")
        variables = {row.chosen_by: row for row in self.rows if row.chosen_by}
        for variable, row in variables.items():
            if _value(settings, variable):
                return Choice(self.name, row.name, f"{variable} is set")
        unset = re.sub(r", (\w+)$", r" or \1", ", ".join(variables))
        return Choice(self.name, self.rows[-1].name, f"no {unset}: {self.default}")

    def builder(self, settings: BaseSettings, name: str) -> BuildType_co:
        """Return what builds the adapter of a row.

        Raises:
            SettingsError: it needs a setting or a package that is missing.
        """
        row = self._row(name)
        if row.needs and not _value(settings, row.needs).strip():
            raise SettingsError(f"{row.needs} is not set, but the {self.name} backend '{name}' needs it.")
        package, command = row.package
        if package and find_spec(package) is None:
            raise SettingsError(f"The {self.name} backend '{name}' is not installed; install it with `{command}`.")
        return row.build

    def _row(self, name: str) -> Row[BuildType_co]:
        rows: Mapping[str, Row[BuildType_co]] = {row.name: row for row in self.rows}
        if name not in rows:
            raise SettingsError(f"{self.setting}: '{name}' is not one of {', '.join(sorted(rows))}.")
        return rows[name]


def secret(key: SecretStr | None) -> str:
    """Return the text of a secret; empty if it is not set."""
    return key.get_secret_value() if key else ""


def secret_values(settings: BaseSettings) -> tuple[str, ...]:
    """List the values of all secret settings, and the parts of those that are JSON."""
    values: Iterable[object] = (getattr(settings, name) for name in type(settings).model_fields)
    texts = [value.get_secret_value() for value in values if isinstance(value, SecretStr)]
    return tuple(part for text in texts for part in (text, *re.findall(r'"([^"]{16,})"', text)) if len(part) >= 8)


def _value(settings: BaseSettings, variable: str) -> str:
    value: object = getattr(settings, variable.removeprefix(ENVIRONMENT_PREFIX).lower())
    return secret(value) if isinstance(value, SecretStr) else str(value or "")
