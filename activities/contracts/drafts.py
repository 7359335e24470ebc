"""Parts of answers that models write. What may be empty need not be there: models that no schema binds leave it out."""

from pydantic import GetJsonSchemaHandler, JsonValue
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from chargehand.contracts import Contract, left_out


class SubtaskDraft(Contract):
    id: str
    agent: str
    instruction: str
    depends_on: list[str] = []
    required: list[str] = []
    for_each: str = ""
    """Id of the subtask that lists the items for which this one is a template; empty for any other subtask."""
    input: JsonValue = left_out(None)
    """JSON as text, or an object; only in crews that declare what their agents take."""
    tier: str | None = left_out(None)
    """Instead of the agent's own; only in crews whose planner sets limits, like the two below."""
    deadline: float | str | None = left_out(None)
    """Seconds for one attempt."""
    max_output_tokens: int | None = left_out(None)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Leave out what only some crews have; see `activities.models.schemas`."""
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema)["properties"]
        for name in ("input", "tier", "deadline", "max_output_tokens"):
            del properties[name]
        return schema


class ContradictionDraft(Contract):
    about: str
    positions: list[str]
    resolution: str = ""
