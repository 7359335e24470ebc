"""Whatever a model writes as a tool call is either good arguments or a reason, and always safe to store."""

import json
import re

from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from activities.contracts import ToolCall
from activities.models.replies import LONGEST_ARGUMENTS, MOST_CALLS, tool_call

OFFERED = frozenset({"read_document"})

json_values: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    position=st.integers(0, 2 * MOST_CALLS),
    tool=st.just("read_document") | st.text(),
    arguments=json_values | json_values.map(json.dumps) | st.text(),
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


def test_arguments_without_end_are_refused() -> None:
    """Arguments longer than any tool needs are not even parsed."""
    text = json.dumps({"name": "a" * LONGEST_ARGUMENTS})

    assert tool_call(0, "id", "read_document", text, OFFERED).malformed == (
        f"the arguments are longer than {LONGEST_ARGUMENTS} characters"
    )


def test_nesting_without_end_is_refused() -> None:
    """Nesting that would exhaust a parser is a reason, not a crash."""
    call = tool_call(0, "id", "read_document", '{"a":' * 5_000 + "1" + "}" * 5_000, OFFERED)

    assert call.malformed.startswith("the arguments are not valid JSON")


def test_half_a_character_is_refused() -> None:
    """A lone surrogate cannot be written as UTF-8, so neither stored nor sent."""
    call = tool_call(0, "id", "read_document", r'{"name": "\ud800"}', OFFERED)

    assert call.malformed.startswith("the arguments are not valid JSON")
