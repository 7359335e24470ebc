"""Whatever a model writes as a tool call is either good arguments or a reason, and always safe to store."""

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from activities.contracts.rounds import ToolCall
from activities.models.replies import LONGEST_ARGUMENTS, MOST_CALLS, tool_call
from tests.unit.strategies import json_values

OFFERED = frozenset({"read_document"})


@given(
    position=st.integers(0, 2 * MOST_CALLS),
    tool=st.just("read_document") | st.text(),
    arguments=json_values() | json_values().map(json.dumps) | st.text(),
)
def test_any_call_can_be_stored_and_given_back(position: int, tool: str, arguments: object) -> None:
    """A call has arguments or a reason against it, never both; what is malformed has a name that providers take."""
    call = tool_call(position, "id", tool, arguments, OFFERED)

    assert not (call.arguments and call.malformed)
    assert len(call.malformed) < 300
    if call.malformed:
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", call.tool)
        assert ToolCall.model_validate_json(call.model_dump_json()) == call
    else:
        assert call.tool == "read_document"


def test_arguments_that_would_exhaust_or_break_a_store_are_refused() -> None:
    """Excessive length and depth, and lone surrogates, are a reason against the call, not a crash."""
    cases = [
        (json.dumps({"name": "a" * LONGEST_ARGUMENTS}), "are longer than"),  # too long to parse
        ('{"a":' * 5_000 + "1" + "}" * 5_000, "are not valid JSON"),  # too deep for a parser
        (r'{"name": "\ud800"}', "are not valid JSON"),  # half a character, which is no UTF-8
    ]
    for text, problem in cases:
        assert tool_call(0, "id", "read_document", text, OFFERED).malformed.startswith(f"the arguments {problem}")
