"""The tool `note`, which every agent with tools has. Its workflow keeps the notes itself: no activity, and no cost."""

from typing import Final

from activities.tools import ToolSpec, object_schema

NOTE: Final = ToolSpec(
    name="note",
    description=(
        "Keep a finding at once, beside your other calls. Notes stay with you when a long conversation is shortened, "
        "and are handed back if you are stopped before you can answer."
    ),
    parameters=object_schema(
        claim={"type": "string", "description": "What you found, as a sentence that can be read alone."},
        ref={"type": "string", "description": "The ref of its source as a tool printed it; empty for a conclusion."},
        quote={"type": "string", "description": "Words copied from that source, at most 600 characters; or empty."},
    ),
)
