"""What every kind of turn has in common."""

from pydantic import GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from chargehand.contracts import Contract


class TurnAnswer(Contract):
    """What a model answers, not yet checked.

    Each kind of answer has a `kind`, which tells answers apart between our processes. A model neither sees it nor
    writes it: the JSON Schema leaves it out, and parsing fills it in.
    """

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Leave `kind` out of the schema."""
        schema = handler(core_schema)
        handler.resolve_ref_schema(schema)["properties"].pop("kind", None)
        return schema
