"""What a person makes of a call's arguments is checked as the tool would take them."""

from typing import Any, cast

import pytest
from pydantic import JsonValue
from temporalio.testing import ActivityEnvironment

from activities.contracts.calls import CallCheck
from activities.contracts.tool import ToolSpec
from activities.turn.tool_use import ToolActivities
from chargehand.contracts import JsonSchema

_STRICT: JsonSchema = {
    "type": "object",
    "properties": {"order": {"type": "string"}, "to": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
    "required": ["order", "to"],
    "additionalProperties": False,
}


class _Refund:
    spec = ToolSpec(name="refund", description="Refunds.", parameters=_STRICT)


@pytest.mark.parametrize(
    ("arguments", "is_accepted"),
    [
        ({"order": "A1"}, True),
        ({"order": "A1", "to": None}, True),
        ({"to": "till"}, False),
        ({"order": None}, False),
        ({"order": "A1", "to": 4}, False),
        ({"order": "A1", "cc": "x"}, False),
    ],
)
async def test_an_argument_with_a_default_may_be_left_out(
    arguments: dict[str, JsonValue], *, is_accepted: bool
) -> None:
    """As in a model's call; anything else that the schema does not allow is refused."""
    uses = ToolActivities(cast("Any", None), {"refund": cast("Any", _Refund())}, cast("Any", None))
    request = CallCheck(session="s", tool="refund", arguments=arguments)
    found = await ActivityEnvironment().run(uses.check_call, request)

    assert (not found.problems) == is_accepted
