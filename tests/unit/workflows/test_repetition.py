"""The loop guard: when two pieces of work, or two calls, count as the same."""

import json
import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from activities.contracts.rounds import MOST_CALLS, Round, ToolCall, ToolResult
from tests.unit.strategies import json_values
from workflows.rules.repetition import Effects, is_repetitive, made_together, refuse_repetition
from workflows.rules.task_deduplication import child_workflow_id, fingerprint

READS = Effects()
"""Effects of an agent in a session without acting calls."""


def call(
    arguments: dict[str, JsonValue] | None = None, tool: str = "search", name: str = "now", malformed: str = ""
) -> ToolCall:
    return ToolCall(id=name, tool=tool, arguments=arguments or {}, malformed=malformed)


def asked(*calls: ToolCall, ok: bool = True) -> Round:
    named = tuple(one.model_copy(update={"id": f"call-{number}"}) for number, one in enumerate(calls))
    return Round(calls=named, results=tuple(ToolResult(call_id=one.id, tool=one.tool, ok=ok) for one in named))


def query(text: str) -> ToolCall:
    return call({"query": text})


def test_a_repeated_call_is_refused_with_the_round_of_its_result() -> None:
    rounds = [asked(query("costs")), Round(correction="it was empty"), asked(query("ferry costs")), asked(query("x"))]
    refused = refuse_repetition(query("ferry costs"), rounds, READS)

    assert refused == ToolResult(
        call_id="now",
        tool="search",
        ok=False,
        output={"error": "You already made this call (round 3); its result is above. Make a different call or answer."},
    )


def test_calls_differ_only_if_their_answers_could() -> None:
    cases: list[tuple[dict[str, JsonValue], dict[str, JsonValue], bool]] = [
        ({"query": "Ferry costs", "most": 5}, {"most": 5, "query": "Ferry costs"}, True),
        ({"query": "Ferry costs"}, {"query": "  ferry\tCOSTS "}, True),
        ({"query": "Größe"}, {"query": "GRÖSSE"}, True),
        ({"names": ["Harald", "Ida"]}, {"names": ["harald", "ida"]}, True),
        ({"where": {"b": "Oslo", "a": 1}}, {"where": {"a": 1, "b": "oslo"}}, True),
        ({"sql": "select 'x'"}, {"sql": "select 'x'"}, True),
        ({}, {}, True),
        ({"query": "costs"}, {"query": "cost"}, False),
        ({"query": "costs"}, {"query": "costs", "most": 5}, False),
        ({"query": "costs"}, {"text": "costs"}, False),
        ({"page": 1}, {"page": 2}, False),
        ({"page": 1}, {"page": "1"}, False),
        ({"page": 1}, {"page": True}, False),
        ({"names": ["a", "b"]}, {"names": ["b", "a"]}, False),
        (
            {"sql": "SELECT 1 FROM trips WHERE ship = 'harald'"},
            {"sql": "SELECT 1 FROM trips WHERE ship = 'Harald'"},
            False,
        ),
        ({"code": "if a:\nprint(a)"}, {"code": "if a:\n  print(a)"}, False),
        ({"url": "https://example.org/Costs"}, {"url": "https://example.org/costs"}, False),
        ({"query": '"notice period"'}, {"query": '"Notice period"'}, False),
    ]

    for earlier, now, is_the_same in cases:
        assert (refuse_repetition(call(now), [asked(call(earlier))], READS) is not None) is is_the_same


def test_a_failed_call_may_be_repeated_with_different_case() -> None:
    """Unchanged, it would only fail again and is refused."""
    failed = [asked(call({"name": "grant.pdf", "page": 2}), ok=False)]

    assert refuse_repetition(call({"name": "Grant.pdf", "page": 2}), failed, READS) is None
    assert refuse_repetition(call({"page": 2, "name": "grant.pdf"}), failed, READS) is not None


def test_calls_beyond_the_round_limit_may_be_repeated() -> None:
    """They were never made."""
    rounds = [asked(*(query(str(number)) for number in range(MOST_CALLS + 1)))]

    assert refuse_repetition(query(str(MOST_CALLS - 1)), rounds, READS) is not None
    assert refuse_repetition(query(str(MOST_CALLS)), rounds, READS) is None


def test_an_unreadable_call_is_not_refused_as_a_repetition() -> None:
    """It is refused for its unreadable arguments instead."""
    broken = call(malformed="not JSON")

    assert refuse_repetition(broken, [asked(broken, ok=False)], READS) is None
    assert refuse_repetition(call(), [asked(broken, ok=False)], READS) is None


def test_a_third_repetitive_round_counts_as_a_loop() -> None:
    """It may have any period; a round with any new call does not count."""
    cases = [
        ("A A A", False), ("A A A A", True), ("A B A B A", True), ("A B A B", False), ("AB BA A B", True),
        ("A A B A C A", True), ("A AB AC AD", False), ("AA BB CC DD", False), ("A - - - -", False),
    ]  # fmt: skip
    for script, goes_round in cases:
        rounds = [asked(*(query(letter) for letter in letters if letter != "-")) for letters in script.split()]
        assert is_repetitive(rounds, READS) == goes_round


def test_working_through_a_long_list_of_calls_is_not_a_loop() -> None:
    """An agent may ask for the same list until all of it has been used."""
    listed = [query(str(number)) for number in range(4 * MOST_CALLS)]
    left = [listed[number * MOST_CALLS :] for number in range(4)]

    assert not is_repetitive([asked(*calls) for calls in left], READS)
    assert is_repetitive([asked(*left[0])] * 4, READS)


ARGUMENTS = st.dictionaries(st.text(max_size=5), json_values(), max_size=3)


@given(arguments=ARGUMENTS, others=st.lists(ARGUMENTS, max_size=4), answered=st.booleans())
def test_an_identical_call_is_always_recognised(
    arguments: dict[str, JsonValue],
    others: list[dict[str, JsonValue]],
    answered: bool,  # noqa: FBT001  # drawn
) -> None:
    rounds = [asked(call(arguments), ok=answered), *(asked(call(other)) for other in others)]
    refused = refuse_repetition(call(json.loads(json.dumps(arguments))), rounds, READS)

    assert refused is not None
    assert "(round 1)" in str(refused.output["error"])


@given(
    turns=st.lists(
        st.lists(st.sampled_from(["read A", "read B", "act X", "act Y", "poll", "other acts"]), max_size=MOST_CALLS),
        max_size=8,
    ),
    others_act=st.booleans(),
)
def test_a_repeated_call_is_never_answered_with_a_stale_result(turns: list[list[str]], others_act: bool) -> None:  # noqa: FBT001  # drawn
    """A read is refused only if nothing has acted since its result, an act is made once, a poll always."""
    effects = Effects(acting={"act"}, repeatable={"poll"}, others_act=others_act)
    version, rounds = 0, list[Round]()
    seen, done = dict[str, int](), set[str]()
    for turn in turns:
        calls = [call({"letter": name[-1]}, name.split()[0], str(at)) for at, name in enumerate(turn)]
        results = list[ToolResult]()
        latest = dict(seen)
        changes = others_act and "other acts" in turn
        for at, (name, one) in enumerate(zip(turn, calls, strict=True)):
            before = [*rounds, Round(calls=tuple(calls[:at]))] if one.tool == "act" else rounds
            refused = None if one.tool == "other" else refuse_repetition(one, before, effects, calls)
            assert refused is None or (name in done if one.tool == "act" else seen.get(name) == version)
            assert one.tool != "poll" or refused is None
            assert one.tool != "act" or (refused is None) == (name not in done)
            may_change = others_act or any(each.tool == "act" for each in calls)
            assert one.tool != "read" or may_change or (refused is None) == (seen.get(name) != version)
            if refused is None and one.tool == "act":
                done.add(name)
                changes = True
            latest[name] = version
            results.append(refused or ToolResult(call_id=one.id, tool=one.tool, output={"version": version}))
        # Calls of a round run concurrently, so a read in a round that acted may be from before the change.
        version += changes
        seen = latest
        rounds.append(Round(calls=tuple(calls), results=tuple(results)))


@given(tools=st.lists(st.sampled_from(["read", "act"]), min_size=1, max_size=MOST_CALLS))
def test_a_read_after_an_act_in_the_same_round_waits_for_it(tools: list[str]) -> None:
    """All calls are made, in order, and those that can run in parallel do."""
    runs = made_together([call(tool=each) for each in tools], {"act"})

    assert [position for run in runs for position in run] == [*range(len(tools))]
    assert all((tools[before], tools[run.start]) == ("act", "read") for run in runs[1:] for before in [run.start - 1])
    assert not any(
        (one, other) == ("act", "read") for run in runs for one, other in pairwise(tools[run.start : run.stop])
    )


def test_reading_again_after_each_act_is_not_a_loop() -> None:
    acts, shared = Effects(acting={"cancel"}), Effects(acting={"cancel"}, others_act=True)
    working = [asked(*pair) for number in range(5) for pair in ([query("A")], [call({"id": number}, "cancel")])]
    changing = [
        Round(calls=(query("A"),), results=(ToolResult(call_id="now", tool="search", output={"version": number}),))
        for number in range(5)
    ]

    assert not is_repetitive(working, acts)
    assert not is_repetitive(changing, shared)
    assert not is_repetitive([asked(query("A"))] * 5, Effects(repeatable={"search"}))
    assert is_repetitive([changing[0]] * 4, shared)
    assert is_repetitive([asked(query("A")), *[asked(call({}, "cancel"))] * 4], acts)


def test_acting_calls_that_differ_only_in_case_are_different() -> None:
    named = asked(call({"name": "smith"}, "rename"))

    assert refuse_repetition(call({"name": "Smith"}, "rename"), [named], Effects(acting={"rename"})) is None


def test_instructions_with_the_same_wording_have_the_same_fingerprint() -> None:
    cases = [
        "LIST THE COSTS OF THE FERRY HARALD IN 2025",
        "  list the\n\tcosts of the   ferry Harald in 2025 ",
        "List the costs of the ferry “Harald” in 2025!",
        "Please list costs of your ferry Harald for 2025.",
        "List costs, ferry Harald, 2025",
        "**List** the `costs` of the ferry Harald (in 2025)",
        "Ｌｉｓｔ the costs of the ferry Harald in ２０２５",
    ]
    for said_otherwise in cases:
        same = fingerprint("analyst", "List the costs of the ferry Harald in 2025")
        assert fingerprint("analyst", said_otherwise) == same


def test_instructions_with_different_meanings_have_different_fingerprints() -> None:
    cases = [
        ("Compare Harald with Ida", "Compare Ida with Harald"),
        ("to be", "to do"),
        ("flights from Oslo to Rome", "flights to Oslo from Rome"),
        ("trains from A to B", "trains to A from B"),
        ("trains from Oslo to Rome", "trains from Rome to Oslo"),
        ("从奥斯陆到罗马的航班", "从罗马到奥斯陆的航班"),
        ("オスロからローマへの便", "ローマからオスロへの便"),
        ("오슬로에서 로마로 가는 편", "로마에서 오슬로로 가는 편"),
        ("sum up annex A", "sum up annex"),
        ("describe the market in the US", "describe the market in IT"),
        ("ferries with a bar or a shop", "ferries with a bar, a shop"),
        ("books by Ida about Harald", "books about Ida by Harald"),
        ("costs in 2024", "costs in 2025"),
        ("costs above 5 €", "costs above 5 $"),
        ("delays > 10 minutes", "delays < 10 minutes"),
        ("jobs for C++", "jobs for C#"),
        ("find कि", "find की"),
        ("find fee", "find fée"),
    ]
    for one, other in cases:
        assert fingerprint("reader", one) != fingerprint("reader", other)


@given(instruction=st.text(max_size=200))
def test_a_child_workflow_id_names_the_agent_but_not_the_task(instruction: str) -> None:
    """It is `<session>/<run>/<agent>/<16 hex digits>`, so no user text gets into logs and lists."""
    workflow_id = child_workflow_id("session-1", "5f0c", "reader", instruction)

    assert re.fullmatch(r"session-1/5f0c/reader/[0-9a-f]{16}", workflow_id)


def test_the_fingerprint_algorithm_does_not_change() -> None:
    """It is SHA-256 of agent, line feed and normalised words, first 16 digits; running sessions' ids use it."""
    # printf 'reader\nlist costs ferry' | sha256sum
    assert fingerprint("reader", "List the costs of the ferry") == "5cb1b572e7e97cfa"
