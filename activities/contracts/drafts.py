"""Parts of answers written by models. Empty fields may be missing, since unconstrained models omit them."""

from pydantic import JsonValue
from pydantic.json_schema import SkipJsonSchema

from chargehand.contracts import Contract, left_out


class SubtaskDraft(Contract):
    id: str
    agent: str
    instruction: str
    depends_on: list[str] = []
    required: list[str] = []
    for_each: str = ""
    """Id of the subtask that lists this template's items; empty if this is not a template."""
    input: SkipJsonSchema[JsonValue] = left_out(None)
    """JSON as text, or an object; only in crews that declare input schemas.

    What only some crews have is added to the schema by `activities.models.schemas`.
    """
    tier: SkipJsonSchema[str | None] = left_out(None)
    """Replaces the agent's tier; only in crews whose planner sets limits, like the two below."""
    deadline: SkipJsonSchema[float | str | None] = left_out(None)
    """Seconds for one attempt."""
    max_output_tokens: SkipJsonSchema[int | None] = left_out(None)


class ContradictionDraft(Contract):
    about: str
    positions: list[str]
    resolution: str = ""
