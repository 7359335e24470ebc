"""Writes the JSON Schemas of the public contracts: `python -m tests.unit.contracts.schema_files docs/schemas`."""

import json
import sys
from pathlib import Path
from typing import Any, Final, cast

from pydantic import TypeAdapter

from chargehand import contracts
from chargehand.contracts import TypedByPeople

# What is sent or read whole; the schema of each holds those of its parts.
_WHOLE: Final = (
    *("SessionRequest", "Limits", "Plan", "PlanDecision", "RaisedLimits", "Answer"),
    *("Outcome", "Report", "Status", "Trace", "Event"),
)


def schemas() -> dict[str, dict[str, object]]:
    """Describe each contract as JSON Schema (draft 2020-12): what people write as it is read, the rest as written."""
    described: dict[str, dict[str, object]] = {}
    for name in _WHOLE:
        contract: object = getattr(contracts, name)
        is_typed = isinstance(contract, type) and issubclass(contract, TypedByPeople)
        schema = TypeAdapter(cast("Any", contract)).json_schema(mode="validation" if is_typed else "serialization")
        described[name] = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    return described


def schema_files() -> dict[str, str]:
    """Return the text of each schema's file by its name."""
    return {
        f"{name}.json": json.dumps(schema, indent=2, ensure_ascii=False) + "\n" for name, schema in schemas().items()
    }


def main(folder: Path) -> None:
    """Write all schemas into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in schema_files().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
