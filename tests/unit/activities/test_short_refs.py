"""Short refs: what models read and write for sources, and how code resolves them."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from activities.contracts.rounds import Round, ToolCall, ToolResult
from activities.models.protocol import ModelReply
from activities.turn.activity import interpret
from activities.turn_kinds.short_refs import ShortRefs
from activities.turn_kinds.work import FindingDraft, WorkAnswer, WorkTask
from chargehand.contracts import Source
from tests.scripted_model import TODAY

PAGE, LEASE, QUERY = "https://ferries.example/fares?year=2024", "lease.md#L12-L14", "sql:1a2b3c4d5e6f"
REFS = ShortRefs((PAGE, LEASE, QUERY))
_REF = st.from_regex(r"\A[a-z]{1,3}://[a-z.]{0,9}(#L[0-9]{1,2})?\Z|\A[a-z]{1,9}\.md\Z|\Ap[0-9]{1,2}\Z")


@given(st.lists(_REF, max_size=12), st.data())
def test_shortening_and_expanding_refs_preserves_the_text(refs: list[str], data: st.DataObject) -> None:
    cited = data.draw(st.lists(st.sampled_from(refs or [""]), max_size=6))
    text = " ".join(f"It is so [{ref}], is it [no.md]?" for ref in cited)
    names = ShortRefs(refs)
    shortened = names.shorten(text)

    assert names.expand(shortened) == text
    assert all(len(names.name(ref)) <= len(ref) or ref.startswith("p") for ref in refs)


def test_every_citation_form_is_expanded() -> None:
    """Short refs, lists of them and full refs are citations; code and unknown names stay unchanged."""
    written = f"A [p1]. B [p1, p2][p3]; C [{LEASE}], `row[p1]`, [p9], [p2; p9] and p1."

    assert REFS.expand(written) == (
        f"A [{PAGE}]. B [{PAGE}][{LEASE}][{QUERY}]; C [{LEASE}], `row[p1]`, [p9], [{LEASE}][p9] and p1."
    )


def test_answers_have_full_refs_everywhere_except_in_quotations() -> None:
    finding = FindingDraft(claim="So [p1].", source_refs=["p1", "[p2]", LEASE, "p7"], quote="as in [p1]", confidence=9)
    answer = WorkAnswer(status="success", content="So [p2].", findings=[finding], confidence=9, gaps=["why [p3]"])
    typed = answer.model_copy(update={"data": {"source": "p1", "priority": "p1", "why": ["see [p2]"]}})
    told = REFS.expand_answer(typed)

    assert told.content == f"So [{LEASE}]."
    assert told.gaps == [f"why [{QUERY}]"]
    assert told.data == {"source": PAGE, "priority": "p1", "why": [f"see [{LEASE}]"]}
    assert told.findings == [
        FindingDraft(claim=f"So [{PAGE}].", source_refs=[PAGE, LEASE, LEASE, "p7"], quote="as in [p1]", confidence=9)
    ]


@pytest.mark.parametrize(
    ("name", "written", "used"),
    [
        ("url", "p1", PAGE),
        ("document", "[p2]", LEASE),
        ("ref", LEASE, LEASE),
        ("url", "p9", "p9"),
        ("query", "p1", "p1"),
        ("refund", "p1", "p1"),
        ("page_url", "p1", PAGE),
        ("documents", ["p2", "p9", 3], [LEASE, "p9", 3]),
        ("first", 1, 1),
    ],
)
def test_tool_arguments_that_can_be_refs_are_expanded(name: str, written: JsonValue, used: JsonValue) -> None:
    call = ToolCall(id="1", tool="t", arguments={name: written})
    reply = ModelReply(stop="tools", tool_calls=(call,), model="m", provider="p")
    [made] = interpret(reply, WorkAnswer, refs=REFS).tool_calls

    assert made.arguments == {name: used}


def _read(*refs: str) -> Round:
    sources = tuple(Source(ref=ref, title=f"Title of {ref}", quote=f"Words of {ref}.") for ref in refs)
    return Round(
        calls=(ToolCall(id="1", tool="search"),),
        results=(ToolResult(call_id="1", tool="search", sources=sources),),
        turns_left=3,
    )


def test_a_growing_conversation_keeps_its_short_refs() -> None:
    rounds = (_read(PAGE, LEASE), _read(QUERY, PAGE), _read("b.md#L1"))
    task = WorkTask(goal="", instruction="i", rounds=rounds)
    sent = [task.model_copy(update={"rounds": rounds[:number]}).messages(None, TODAY) for number in range(4)]

    assert all(later[: len(earlier)] == earlier for earlier, later in itertools.pairwise(sent))
    told = "\n".join(result.text for message in sent[-1] for result in message.results)
    introduced = [f"[p1] {PAGE} Title", f"[p2] {LEASE} Title", "[p3] Title", "[p4] b.md#L1 Title"]
    assert [told.count(heading) for heading in introduced] == [1, 1, 1, 1]
    assert told.count(PAGE) == 1 + 1 + 1  # its name, its title and its words
    assert "[p1]\n(as under [p1])" not in told.split("[p3]")[0]


def test_a_restarted_conversation_keeps_its_short_refs() -> None:
    """It uses the numbers of the conversation before it, and says what they refer to."""
    before = WorkTask(goal="", instruction="i", rounds=(_read(PAGE, LEASE),))
    anew = WorkTask(goal="", instruction="i", summary=f"So [{LEASE}].", known=(PAGE, LEASE), rounds=(_read(QUERY),))
    [first, *_] = anew.messages(None, TODAY)

    assert before.refs.name(LEASE) == anew.refs.name(LEASE) == "p2"
    assert "So [p2]." in first.text
    assert f"Sources of these:\n<data>\n[p2] {LEASE}\n</data>" in first.text
