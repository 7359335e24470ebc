"""Selection of adapters by settings: each backend is a table with one row per adapter.

A new adapter is a new file and a row in the `registry.py` of its folder. Adapters that are not chosen are not imported.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Generic, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, SecretStr
from pydantic_settings import BaseSettings

from chargehand.contracts.problems import printable
from chargehand.errors import ChargehandError
from chargehand.plugins import Extension, require_each

ENVIRONMENT_PREFIX = "CHARGEHAND_"
_BuildType = TypeVar("_BuildType", bound=Callable[..., object])
BuildType_co = TypeVar("BuildType_co", bound=Callable[..., object], covariant=True)


def _web_address(value: str) -> str:
    if value and not is_address(value, {"http", "https"}):
        raise ValueError("must be an address that begins with http:// or https:// and names a host")
    return value


def _host(value: str) -> str:
    host = value.strip().lower()
    if "/" in host or "@" in host or not is_address(f"https://{host}", {"https"}):
        raise ValueError("must be a host or host:port, such as wiki.example.com or 10.0.0.5:8080, without https://")
    return host


def is_address(value: str, schemes: Collection[str]) -> bool:
    """Whether a text is an address that has one of these schemes and names a host."""
    try:
        address = urlsplit(value)
        is_whole = address.scheme in schemes and bool(address.hostname) and address.port != 0
    except ValueError:
        return False
    return is_whole and not re.search(r"[\s?#\\]", value)


WebAddress = Annotated[str, AfterValidator(_web_address)]
"""The address of a service; empty for its default."""
Host = Annotated[str, AfterValidator(_host)]
"""`name` or `name:port` of a host to which the operator allows access."""


class SettingsError(ChargehandError):
    """The settings are unusable; the message names the setting and the remedy."""


@dataclass(frozen=True)
class Choice:
    """The chosen adapter of a backend, and the reason for the choice."""

    backend: str
    adapter: str
    why: str
    problem: str = ""
    """Why it does not work on this host; empty if it works or was not tried."""
    replaces_all: bool = False
    """Whether the adapter replaces all models and tools, which makes their servers unnecessary."""

    def __post_init__(self) -> None:
        require_each(str, (self.backend, self.adapter, self.why, self.problem))


@dataclass(frozen=True)
class Row(Generic[BuildType_co]):
    name: str
    build: BuildType_co
    """Imports the adapter and builds it."""
    needs: str = ""
    """The environment variable that it needs and that selects it; empty if only the backend's setting selects it."""


@dataclass(frozen=True)
class Backend(Generic[BuildType_co]):
    """The adapters of one backend, in order of precedence; the last is the default."""

    name: str
    setting: str
    """The environment variable that selects a row by name."""
    rows: tuple[Row[BuildType_co], ...]
    default: str
    """Description of the default for users."""

    def choose(self, settings: BaseSettings) -> Choice:
        """Select the row named by the backend's setting, or the first whose variable is set. Raises `SettingsError`."""
        if named := _value(settings, self.setting):
            self.builder(settings, named)
            return Choice(self.name, named, f"set by {self.setting}")
        variables = {row.needs: row for row in self.rows if row.needs}
        for variable, row in variables.items():
            if _value(settings, variable):
                return Choice(self.name, row.name, f"{variable} is set")
        unset = re.sub(r", (\w+)$", r" or \1", ", ".join(variables))
        return Choice(self.name, self.rows[-1].name, f"no {unset}: {self.default}")

    def builder(self, settings: BaseSettings, name: str) -> BuildType_co:
        """Return the builder of a row's adapter. Raises `SettingsError` if a setting that it needs is missing."""
        row = self._row(name)
        if row.needs and not _value(settings, row.needs).strip():
            raise SettingsError(f"{row.needs} is not set, but the {self.name} backend '{name}' needs it.")
        return row.build

    def _row(self, name: str) -> Row[BuildType_co]:
        rows: Mapping[str, Row[BuildType_co]] = {row.name: row for row in self.rows}
        if name not in rows:
            raise SettingsError(f"{self.setting}: '{printable(name, 60)}' is not one of {', '.join(sorted(rows))}.")
        return rows[name]


def with_added(
    backend: Backend[_BuildType], added: Iterable[Extension], builder: Callable[[Extension], _BuildType]
) -> Backend[_BuildType]:
    """Add the adapters of plug-ins before the default, without replacing any."""
    known = {row.name for row in backend.rows}
    rows = (Row(each.name, builder(each), needs=each.needs) for each in added if each.name not in known)
    return replace(backend, rows=(*backend.rows[:-1], *rows, backend.rows[-1]))


def secret(key: SecretStr | None) -> str:
    return key.get_secret_value() if key else ""


def secret_values(settings: BaseSettings) -> tuple[str, ...]:
    """List the values of all secret settings, including the parts of JSON ones."""
    values: Iterable[object] = (getattr(settings, name) for name in type(settings).model_fields)
    texts = [value.get_secret_value() for value in values if isinstance(value, SecretStr)]
    return tuple(part for text in texts for part in (text, *re.findall(r'"([^"]{16,})"', text)) if len(part) >= 8)


def _value(settings: BaseSettings, variable: str) -> str:
    # Settings built without a plug-in lack that plug-in's fields.
    value: object = getattr(settings, variable.removeprefix(ENVIRONMENT_PREFIX).lower(), None)
    return secret(value) if isinstance(value, SecretStr) else str(value or "")
