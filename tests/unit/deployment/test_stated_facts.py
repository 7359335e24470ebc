"""Settings, options, fields and numbers stated on pages match the code."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from typer.core import TyperCommand, TyperGroup

from activities.contracts.crew import Agent, Crew
from activities.contracts.mcp_declaration import McpDeclaration
from chargehand import Limits, Report, Status
from chargehand.contracts.conversation import ConversationLimits
from chargehand.contracts.limits import PROFILES
from chargehand.environment import SETTINGS
from chargehand.plugins import Registry, installed
from chargehand.tools import tool
from chargehand.wire import ErrorType
from tests.unit.deployment.test_code_blocks import PAGES, command_line
from tests.unit.deployment.test_documents import ROOT
from worker.settings import settings_type

TEXTS = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in [*PAGES, ROOT / "CHANGELOG.md"]}
_CODE = re.compile(r"`([^`\n]+)`")
_RECORDING = ("activities", "client", "plugins", "worker", "workflows")
_COMMANDS = ("benchmarks", "chaos", "plugins", "tests/security", "tests/suites")
_OF_IMAGES = {"CHARGEHAND_EXTRAS", "CHARGEHAND_SYSTEM_PACKAGES"}
"""Build arguments of the Dockerfile."""
_STATED = tomllib.loads(Path(__file__).with_name("stated.toml").read_text("utf-8"))
STATED = [(page, *each) for page, sentences in _STATED["numbers"].items() for each in sentences.items()]


def _in_code() -> Iterator[tuple[str, str]]:
    for page, text in TEXTS.items():
        for found in _CODE.finditer(text):
            yield page, found[1]


def test_documented_settings_exist() -> None:
    fields = settings_type().model_fields
    known = {f"CHARGEHAND_{name}".upper() for name in [*fields, *installed().variables]} | SETTINGS | _OF_IMAGES
    known |= {name for name in installed().variables if name.startswith("CHARGEHAND_")}
    named = {(name, page) for page, text in TEXTS.items() for name in re.findall(r"\bCHARGEHAND_[A-Z0-9_]+", text)}

    assert len(named) > 100
    assert [
        (name, page)
        for name, page in sorted(named)
        if name not in known and not (name.endswith("_") and any(each.startswith(name) for each in known))
    ] == []


def test_documented_setting_defaults_match_the_code() -> None:
    """This covers a number in brackets after a variable, and a number followed by "by default"."""
    stated = re.compile(r"`CHARGEHAND_([A-Z_]+)`(?: \(([\d,]+)\)|[^.|`]{0,60}?, ([\d,]+) by default)")
    fields = settings_type().model_fields
    found = [each for text in TEXTS.values() for each in stated.findall(" ".join(text.split()))]

    assert found
    assert [
        name for name, bracketed, later in found if f"{fields[name.lower()].default:,}" != (bracketed or later)
    ] == []


def _commands(command: Any, path: str = "") -> Iterator[tuple[str, set[str]]]:
    if isinstance(command, TyperGroup):
        for name, each in command.commands.items():
            yield from _commands(each, f"{path} {name}".strip())
    else:
        parameters = cast("TyperCommand", command).params
        yield path, {option for each in parameters for option in (*each.opts, *each.secondary_opts)}


def test_documented_options_exist() -> None:
    """Each `--option` in a sentence belongs to its verb, or to any verb if it stands alone."""
    options = dict(_commands(command_line()))
    every = {each for of_one in options.values() for each in of_one}
    every |= {*_STATED["options_of_others"], "--help"}
    code = "".join(path.read_text(encoding="utf-8") for folder in _COMMANDS for path in (ROOT / folder).rglob("*.py"))
    unknown: list[tuple[str, str]] = []
    for page, text in _in_code():
        words = re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", text)
        verb = next((each for each in options if text.startswith(f"chargehand {each} ")), None)
        known = {*options[verb], "--help"} if verb else every
        unknown += [(page, word) for word in words if word not in known and (verb or f'"{word}"' not in code)]

    assert unknown == []


def test_documented_contract_fields_exist() -> None:
    contracts: dict[str, type[BaseModel]] = {"report": Report, "status": Status, "limits": ConversationLimits}
    named = [
        (page, *found) for page, code in _in_code() for found in re.findall(r"^(report|status|limits)\.(\w+)$", code)
    ]

    named = [each for each in named if each[2] != "py"]
    assert len(named) > 10
    assert [each for each in named if each[2] not in contracts[each[1]].model_fields] == []


def test_documented_metrics_exist() -> None:
    code = "".join(path.read_text(encoding="utf-8") for folder in _RECORDING for path in (ROOT / folder).rglob("*.py"))
    named = {(name, page) for page, text in _in_code() for name in re.findall(r"^chargehand_[a-z_]+$", text)}
    others = {"chargehand_worker", "chargehand_plugins", "chargehand_cli", "chargehand_temporal"}

    assert len(named) > 20
    assert [(name, page) for name, page in sorted(named) if f'"{name}"' not in code and name not in others] == []


def test_documented_limits_and_profiles_match_the_code() -> None:
    page = TEXTS["docs/limits.md"]
    rows = re.findall(r"^\| `(\w+)` \| `?([^|`]+)`? \| `(--[\w-]+)` \|", page, re.MULTILINE)
    profiles = re.findall(r"^\| `(\w+)`(?: \(default\))? \| (\d+ \| \$.*) \|$", page, re.MULTILINE)

    assert {name: default.strip() for name, default, _ in rows} == {name: _written(value) for name, value in Limits()}
    assert {option for _, _, option in rows} <= dict(_commands(command_line()))["run"]
    columns = ("max_turns", "budget_usd", "max_parallel", "max_rounds", "max_reviews", "deadline", "subtask_deadline")
    assert {name: cells.replace("$", "") for name, cells in profiles} == {
        name: " | ".join(_written(getattr(limits, column)) for column in columns) for name, limits in PROFILES.items()
    }


_TABLES: list[tuple[str, str, set[str]]] = [
    ("how-to/troubleshooting", "Error types", set(ErrorType)),
    ("how-to/own-crew", "The crew", {*Crew.model_fields}),
    ("how-to/own-crew", "An agent", {*Agent.model_fields}),
    ("how-to/own-tools", "What the decorator says", {*signature(tool).parameters}),
    ("how-to/own-plugins", "Plug-ins of your own", {name for name in vars(Registry) if not name.startswith("_")}),
    ("how-to/mcp", "A server over HTTP, with a credential", {*McpDeclaration.model_fields}),
]


@pytest.mark.parametrize(("page", "heading", "names"), _TABLES, ids=[heading for _, heading, _ in _TABLES])
def test_documented_tables_are_complete(page: str, heading: str, names: set[str]) -> None:
    after = re.split(rf"^#+ {heading}$", TEXTS[f"docs/{page}.md"], flags=re.MULTILINE)[1]
    part = re.split(r"^#+ [A-Z]", after, maxsplit=1, flags=re.MULTILINE)[0]
    rows = [line.split(" | ")[0] for line in part.splitlines() if line.startswith("| ")]

    assert {name for row in rows for name in re.findall(r"`\[{0,2}(\w+)", row)} == names


def _written(value: object) -> str:
    if isinstance(value, timedelta):
        minutes = value // timedelta(minutes=1)
        return f"{minutes} min" if minutes % 60 else f"{minutes // 60} h"
    return str(value)


@pytest.mark.parametrize(("page", "sentence", "places"), STATED, ids=[sentence for _, sentence, _ in STATED])
def test_documented_numbers_match_the_constants(page: str, sentence: str, places: list[str]) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")

    assert sentence.replace(",", "").format(*map(_number, places)) in " ".join(text.replace(",", "").split())


def _stated_of(field: FieldInfo) -> Any:
    """Return a field's default, or the length of a required text."""
    return next(each.max_length for each in field.metadata if each.max_length) if field.is_required() else field.default


def _number(place: str) -> str:
    name, _, divisor = place.partition(" / ")
    path = name.split(".")
    value: Any = None
    for depth in range(1, len(path) + 1):
        with suppress(ImportError):
            value = import_module(".".join(path[:depth]))
            continue
        fields: Mapping[str, Any] = getattr(value, "model_fields", {}) if isinstance(value, type) else {}
        part = path[depth - 1]
        if isinstance(value, Mapping):
            value = cast("Mapping[str, Any]", value)[part]
        else:
            value = _stated_of(fields[part]) if part in fields else getattr(value, part)
    number = value.total_seconds() if isinstance(value, timedelta) else value
    return f"{number / float(divisor or 1):.15g}" if isinstance(number, int | float) else str(number)


def test_documented_deployment_defaults_match_the_settings() -> None:
    """A setting listed as "none" has no default."""
    fields = {
        str(field.validation_alias or f"chargehand_{name}").upper(): field.default
        for name, field in settings_type().model_fields.items()
    }
    rows = re.findall(r"^\| (`[A-Z].*?) \| (none|`?[\w.@]+`?) \|", TEXTS["deploy/README.md"], re.MULTILINE)
    stated = {name: default.strip("`") for names, default in rows for name in re.findall(r"`(\w+)`", names)}

    assert len({*stated} & {*fields}) > 40
    assert {
        name: (default, fields[name])
        for name, default in stated.items()
        if name in fields and default != "all" and not _is_stated(fields[name], default)
    } == {}


def _is_stated(value: object, default: str) -> bool:
    if not value and value is not False:
        return default == "none" or value is None  # computed defaults are stated as their results
    return default.lower() == _written(value).lower().replace(" ", "")
