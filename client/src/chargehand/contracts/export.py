"""JSON Schemas of what people and other services exchange with us: `python -m chargehand.contracts.export FOLDER`."""

import json
import sys
from pathlib import Path
from typing import Final, Literal

from pydantic import TypeAdapter

from chargehand.contracts import (
    Limits,
    Outcome,
    Plan,
    PlanDecision,
    Report,
    SessionRequest,
    Status,
    Trace,
)

Mode = Literal["validation", "serialization"]

# What people write is described as it may be written; what they are given, as it is written.
_CONTRACTS: Final[dict[str, tuple[TypeAdapter[object], Mode]]] = {
    "SessionRequest": (TypeAdapter(SessionRequest), "validation"),
    "Limits": (TypeAdapter(Limits), "validation"),
    "Plan": (TypeAdapter(Plan), "validation"),
    "PlanDecision": (TypeAdapter(PlanDecision), "validation"),
    "Outcome": (TypeAdapter(Outcome), "serialization"),
    "Report": (TypeAdapter(Report), "serialization"),
    "Status": (TypeAdapter(Status), "serialization"),
    "Trace": (TypeAdapter(Trace), "serialization"),
}


def schemas() -> dict[str, dict[str, object]]:
    """Describe every public contract as JSON Schema (draft 2020-12)."""
    return {
        name: {"$schema": "https://json-schema.org/draft/2020-12/schema", **adapter.json_schema(mode=mode)}
        for name, (adapter, mode) in _CONTRACTS.items()
    }


def schema_files() -> dict[str, str]:
    """Write every schema as the text of its file, by file name."""
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
