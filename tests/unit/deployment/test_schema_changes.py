"""A release's promise for its messages: accepted messages stay accepted, and fields that were read stay."""

import copy
import json
from importlib import util
from typing import Any

import pytest

from tests.unit.deployment.test_documents import ROOT

_SPEC = util.spec_from_file_location("schemas", ROOT / ".ci" / "schemas.py")
assert _SPEC
assert _SPEC.loader
SCHEMAS = util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(SCHEMAS)
FILES = sorted((ROOT / "docs" / "schemas").glob("*.json"))


def _changed(old: dict[str, Any], change: str) -> dict[str, Any]:
    new = copy.deepcopy(old)
    name = next(iter(new["properties"]))
    match change:
        case "remove":
            del new["properties"][name]
        case "require":
            new["required"] = [*new.get("required", ()), "more"]
            new["properties"]["more"] = {"type": "string"}
        case "retype":
            new["type"] = "array"
        case _:
            new["properties"]["more"] = {"type": "string"}
    return new


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_breaking_schema_changes_are_detected(file: Any) -> None:
    """This covers every part of every schema; adding an optional field breaks nothing."""
    whole = json.loads(file.read_text(encoding="utf-8"))
    parts = {"": whole} | {name: part for name, part in whole.get("$defs", {}).items() if part.get("properties")}
    for name, part in parts.items():
        for change in ("remove", "require", "retype", "add") if part.get("properties") else ():
            changed = _changed(part, change)
            new = changed if not name else {**whole, "$defs": {**whole["$defs"], name: changed}}
            assert bool(list(SCHEMAS.breaks("m", whole, new))) is (change != "add")
    assert list(SCHEMAS.breaks("m", whole, whole)) == []
