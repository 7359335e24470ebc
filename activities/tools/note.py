"""The tool `note`, which every agent with tools has. Its workflow keeps the notes itself: no activity, and no cost."""

from typing import Final

from activities.contracts.tool import ToolSpec, object_schema

NOTE: Final = ToolSpec(
    name="note",
    description=(
        "Keep a finding, beside your other calls: a claim that can be read alone, the ref of its source, such as p1 "
        "(empty for a conclusion), and at most 600 characters copied from there, or empty."
    ),
    parameters=object_schema(claim={"type": "string"}, ref={"type": "string"}, quote={"type": "string"}),
)
