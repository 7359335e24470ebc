"""An agent that asks the same tool the same thing again, and again."""

import json

from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from activities.contracts.rounds import Round, ToolCall, ToolResult
from tests.unit.strategies import json_values
from workflows.rules.repetition import is_repetitive, refuse_repetition


def call(
    arguments: dict[str, JsonValue] | None = None, tool: str = "search", name: str = "now", malformed: str = ""
) -> ToolCall:
    return ToolCall(id=name, tool=tool, arguments=arguments or {}, malformed=malformed)


def asked(*calls: ToolCall, ok: bool = True) -> Round:
    """A round in which these calls were made and answered."""
    named = tuple(one.model_copy(update={"id": f"call-{number}"}) for number, one in enumerate(calls))
    return Round(calls=named, results=tuple(ToolResult(call_id=one.id, tool=one.tool, ok=ok) for one in named))


def query(text: str) -> ToolCall:
    return call({"query": text})


def test_a_repeated_call_is_pointed_at_its_answer() -> None:
    """The refusal belongs to the call that is made now, and names the round in which it was made first."""
    rounds = [asked(query("costs")), Round(correction="it was empty"), asked(query("ferry costs")), asked(query("x"))]

    refused = refuse_repetition(query("ferry costs"), rounds)

    assert refused == ToolResult(
        call_id="now",
        tool="search",
        ok=False,
        output={"error": "You already made this call (round 3); its result is above. Make a different call or answer."},
    )


def test_the_way_of_writing_it_does_not_matter() -> None:
    """The order of names, and case and white space of plain words, make no other call."""
    cases: list[tuple[dict[str, JsonValue], dict[str, JsonValue]]] = [
        ({"query": "Ferry costs", "most": 5}, {"most": 5, "query": "Ferry costs"}),
        ({"query": "Ferry costs"}, {"query": "  ferry\tCOSTS "}),
        ({"query": "Größe"}, {"query": "GRÖSSE"}),
        ({"names": ["Harald", "Ida"]}, {"names": ["harald", "ida"]}),
        ({"where": {"b": "Oslo", "a": 1}}, {"where": {"a": 1, "b": "oslo"}}),
        ({"sql": "select 'x'"}, {"sql": "select 'x'"}),
        ({}, {}),
    ]
    for earlier, now in cases:
        assert refuse_repetition(call(now), [asked(call(earlier))]) is not None


def test_what_may_get_another_answer_is_another_call() -> None:
    """Other words, values and orders are new; so is any letter of a program, a query, an address or a quotation."""
    cases: list[tuple[dict[str, JsonValue], dict[str, JsonValue]]] = [
        ({"query": "costs"}, {"query": "cost"}),
        ({"query": "costs"}, {"query": "costs", "most": 5}),
        ({"query": "costs"}, {"text": "costs"}),
        ({"page": 1}, {"page": 2}),
        ({"page": 1}, {"page": "1"}),
        ({"page": 1}, {"page": True}),
        ({"names": ["a", "b"]}, {"names": ["b", "a"]}),
        ({"sql": "SELECT * FROM trips WHERE ship = 'harald'"}, {"sql": "SELECT * FROM trips WHERE ship = 'Harald'"}),
        ({"code": "if a:\nprint(a)"}, {"code": "if a:\n  print(a)"}),
        ({"url": "https://example.org/Costs"}, {"url": "https://example.org/costs"}),
        ({"query": '"notice period"'}, {"query": '"Notice period"'}),
    ]
    for earlier, now in cases:
        assert refuse_repetition(call(now), [asked(call(earlier))]) is None


def test_another_tool_is_another_call() -> None:
    """The same arguments for another tool are no repetition."""
    assert refuse_repetition(call({"query": "costs"}, tool="search_documents"), [asked(query("costs"))]) is None


def test_after_an_error_a_change_of_case_is_worth_a_try() -> None:
    """A call that failed may be mended in any letter; unchanged it would only fail again."""
    failed = [asked(call({"name": "grant.pdf", "page": 2}), ok=False)]

    assert refuse_repetition(call({"name": "Grant.pdf", "page": 2}), failed) is None
    assert refuse_repetition(call({"page": 2, "name": "grant.pdf"}), failed) is not None


def test_what_was_left_for_later_may_be_asked_again() -> None:
    """Calls beyond what is used at once were never made."""
    rounds = [asked(query("a"), query("b"), query("c"))]

    assert refuse_repetition(query("b"), rounds, at_once=2) is not None
    assert refuse_repetition(query("c"), rounds, at_once=2) is None


def test_what_cannot_be_read_is_refused_for_that() -> None:
    """A call whose arguments could not be read gets that reason, not this one."""
    broken = call(malformed="not JSON")

    assert refuse_repetition(broken, [asked(broken, ok=False)]) is None
    assert refuse_repetition(call(), [asked(broken, ok=False)]) is None


A, B, C, D = (query(text) for text in "ABCD")


def test_the_third_repetition_is_one_too_many() -> None:
    """Three rounds that asked for nothing new make a circle, however long it is; a round with anything new is none."""
    cases = [
        ("A A A", False),
        ("A A A A", True),
        ("A B A B A", True),
        ("A B A B", False),
        ("AB BA A B", True),
        ("A A B A C A", True),
        ("A AB AC AD", False),
        ("AA BB CC DD", False),
        ("A - - - -", False),
    ]
    for script, goes_round in cases:
        rounds = [asked(*(query(letter) for letter in letters if letter != "-")) for letters in script.split()]
        assert is_repetitive(rounds) == goes_round


def test_broken_calls_go_round_too() -> None:
    """The same unreadable call again and again is a circle."""
    assert is_repetitive([asked(call(malformed="not JSON"), ok=False)] * 4)


def test_calls_left_for_later_make_no_circle() -> None:
    """An agent that asks for a long list until all of it was used does not go round."""
    rounds = [asked(A, B, C, D), asked(C, D), asked(D)]

    assert not is_repetitive([*rounds, asked(D)], at_once=1)
    assert is_repetitive([*rounds, asked(D)])


ARGUMENTS = st.dictionaries(st.text(max_size=5), json_values(), max_size=3)


@given(arguments=ARGUMENTS, others=st.lists(ARGUMENTS, max_size=4), answered=st.booleans())
def test_whatever_was_asked_is_recognised(
    arguments: dict[str, JsonValue],
    others: list[dict[str, JsonValue]],
    answered: bool,  # noqa: FBT001  # drawn
) -> None:
    """The very same call is refused whatever its arguments are, also after they have gone through JSON."""
    rounds = [asked(call(arguments), ok=answered), *(asked(call(other)) for other in others)]

    refused = refuse_repetition(call(json.loads(json.dumps(arguments))), rounds)

    assert refused is not None
    assert "(round 1)" in str(refused.output["error"])
