"""Writes the JSON Schemas of the public contracts: `python -m tests.unit.contracts.schema_files docs/schemas`."""

import json
import sys
from functools import cache
from itertools import chain
from pathlib import Path
from types import NoneType
from typing import Any, Final, cast, get_args

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from chargehand import contracts
from chargehand.contracts import ConversationEnd, ConversationRequest, Report, SessionRequest, TypedByPeople
from chargehand.messages import CONVERSATION_MESSAGES, MESSAGES

_OTHERS: Final = ("Limits", "Outcome", "Trace", "Event")
"""Contracts read whole, in addition to a session's messages; each schema includes those of its parts."""


class _JsonSchema(GenerateJsonSchema):
    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> JsonSchemaValue:
        """Leave out the keyword `discriminator`, which OpenAPI has and JSON Schema lacks."""
        return {"oneOf": super().tagged_union_schema(schema)["oneOf"]}


def _messages() -> set[str]:
    """Name a session's inputs and outputs: its request and report, and the messages of its updates and queries."""
    sent = chain(
        *(
            (row.takes, *(get_args(row.returns) or [row.returns]))
            for row in {**MESSAGES, **CONVERSATION_MESSAGES}.values()
        )
    )
    return {
        each.__name__
        for each in (SessionRequest, Report, ConversationRequest, ConversationEnd, *sent)
        if each and each is not NoneType
    }


@cache
def schemas() -> dict[str, dict[str, object]]:
    """Describe each contract as JSON Schema (draft 2020-12): as read if people write it, otherwise as written."""
    described: dict[str, dict[str, object]] = {}
    for name in sorted({*_messages(), *_OTHERS}):
        contract: object = getattr(contracts, name)
        is_typed = isinstance(contract, type) and issubclass(contract, TypedByPeople)
        mode = "validation" if is_typed else "serialization"
        schema = TypeAdapter(cast("Any", contract)).json_schema(mode=mode, schema_generator=_JsonSchema)
        described[name] = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    return described


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, schema in schemas().items():
        text = json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        (folder / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
