"""What a server asks a person in the middle of a call: bounded, and named after the server."""

import hashlib
import json
from typing import Final

import mcp_types as types
from pydantic import ValidationError

from activities.contracts.rounds import Elicitation
from chargehand_plugins.mcp.tools.definitions import readable
from workflows.rules.forms import Form, FormField

_MESSAGE_CHARACTERS: Final = 1_000
_FORM_BYTES: Final = 4_000
_HINT_CHARACTERS: Final = 1_500


def elicitation_of(server: str, params: types.ElicitRequestParams) -> Elicitation | None:
    """Word a question for people; None if it is not one of a form of plain values that can be shown."""
    if not isinstance(params, types.ElicitRequestFormParams):
        return None
    written = json.dumps(params.requested_schema, sort_keys=True)
    if len(written) > _FORM_BYTES:
        return None
    try:
        form = Form.model_validate(params.requested_schema)
    except ValidationError:
        return None
    hints = "; ".join(_hint(name, field, form) for name, field in form.properties.items())
    how = "Answer with" if len(form.properties) == 1 else "Answer with a JSON object of"
    message = readable(params.message, _MESSAGE_CHARACTERS)
    return Elicitation(
        key=hashlib.sha256(json.dumps([params.message, written]).encode()).hexdigest()[:16],
        asks=f"The MCP server '{server}' asks: {message}\n{how} {readable(hints, _HINT_CHARACTERS)}",
        form=params.requested_schema,
    )


def _hint(name: str, field: FormField, form: Form) -> str:
    kind = ", ".join(map(str, field.choices)) or field.type
    optional = "" if name in form.required else ", may be left out"
    return f"{name} ({kind}{optional}){field.description and f': {field.description}'}"
