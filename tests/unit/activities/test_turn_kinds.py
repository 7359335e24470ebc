"""Prompts: what each kind of turn sends to a model, and how text written by others is marked as data."""

import re

from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import to_json

from activities.contracts.crew import Agent, Crew
from activities.contracts.quotations import PASSAGE_GAP
from activities.contracts.rounds import Round, ToolCall, ToolResult
from activities.contracts.setting import ANYWHERE
from activities.documents.catalog import Catalog, DocumentEntry
from activities.models.schemas import answer_schema
from activities.turn_kinds.protocol import Message
from activities.turn_kinds.rendering import catalog_text
from activities.turn_kinds.short_refs import WHOLE
from activities.turn_kinds.work import ShownText, WorkTask, WorkWithIssuesAnswer
from chargehand.contracts import Source
from tests.scripted_model import TODAY

READER = Agent(
    name="reader", description="Reads the documents.", prompt="Read it closely, then answer.", tools=("read_document",)
)
CHECKER = Agent(name="checker", description="Checks what it is given.", prompt="Doubt all of it.", reviews=True)
CREW = Crew(
    name="small",
    description="Answers small questions.",
    guidance="Plan little, and plan it well.",
    agents=(READER, CHECKER),
)


def test_an_agents_system_text_describes_only_that_agent() -> None:
    text = WorkTask.system_text(CREW, "reader")

    assert text.startswith("You are the reader.\n\nRead it closely, then answer.\n\nUse up to 8 tools at once")
    assert not re.search("checker|issues", text)
    assert "\n- issues: " in WorkTask.system_text(CREW, "checker")
    assert WorkTask.answer_type_for(CHECKER) is WorkWithIssuesAnswer


def test_the_deep_profile_allows_longer_answers_and_asks_for_notes() -> None:
    deep, standard = (
        WorkTask.system_text(CREW, "reader", ANYWHERE._replace(profile=profile)) for profile in ("deep", "standard")
    )

    assert ("at most 1500 words" in deep, "Note each finding" in deep) == (True, True)
    assert ("at most 600 words" in standard, "Note each finding" in standard) == (True, False)


def test_the_fixed_part_of_an_agents_prompt_is_short() -> None:
    rules = WorkTask.system_text(CREW, "reader").replace(READER.prompt, "")
    shape = to_json(answer_schema(WorkTask.answer_type)).decode()

    assert len(rules + shape) <= 1_700


def test_provider_items_are_sent_back_unchanged() -> None:
    """Each round has the model's request in the provider's own form, and its results, also failed ones."""
    call = ToolCall(id="1", tool="read_document", arguments={"name": "a.md"})
    bad = ToolResult(call_id="1", tool="read_document", ok=False)
    past = Round(calls=(call,), results=(bad,), provider_items=({"id": 7},))
    _, asked, told = WorkTask(goal="g", instruction="i", rounds=(past,)).messages(Catalog(), TODAY)

    assert asked == Message(role="assistant", calls=(call,), provider_items=({"id": 7},))
    assert [result.ok for result in told.results] == [False]


@given(count=st.integers(0, 3_000), length=st.integers(1, 50))
def test_a_catalogue_is_cut_between_lines(count: int, length: int) -> None:
    lines = [f"- {'ü' * length}{number} (md, 0 lines)" for number in range(count)]
    entries = tuple(DocumentEntry(name=f"{'ü' * length}{number}", kind="md") for number in range(count))
    shown = catalog_text(Catalog(documents=entries)).splitlines()

    kept = [line for line in shown if line.startswith("- ")]
    assert kept == lines[: len(kept)]
    assert len("\n".join(kept).encode()) <= 9_000
    left_out = [f"(and {count - len(kept)} more that are not listed)"]
    assert shown[len(kept) :] == (left_out if len(kept) < count else [])


_LONG = "Everyone gets 28 days of paid annual leave, whatever the length of service."
_OTHER = "Hotels may cost 160 EUR a night, breakfast included, in every city but one."


def test_tool_results_never_repeat_text_to_the_model() -> None:
    def read(tool: str, *sources: tuple[str, str, str]) -> ToolResult:
        cited = tuple(Source(ref=ref, title=title, quote=quote) for ref, title, quote in sources)
        return ToolResult(call_id="1", tool=tool, sources=cited)

    call = ToolCall(id="1", tool="query_data", arguments={"sql": "SELECT 1"})
    longer = ("a.md#L3", "Leave", f"{_LONG}{PASSAGE_GAP}Unused leave is lost.")
    results = [
        read("query_data", ("sql:1", "SELECT 1", "1")),
        read("search_documents", ("a.md#L3", "Leave", _LONG)),
        read("read_document", ("a.md#L1-L9", "a.md", f"# Leave\n{_LONG}\n{_OTHER}")),
        read("search", longer, ("a.md#L9", "Costs", _OTHER), ("b.md#L9", "Costs", _OTHER)),
    ]
    shown = ShownText(WHOLE, "")
    texts = [shown.render(result, call).split("<data>\n", 1)[1].removesuffix("\n</data>") for result in results]

    assert texts == [
        "[sql:1]\n1",
        f"[a.md#L3] Leave\n{_LONG}",
        f"[a.md#L1-L9]\n# Leave\n{_LONG}\n{_OTHER}",
        (
            f"[a.md#L3]\n(as under [a.md#L3]){PASSAGE_GAP}Unused leave is lost.\n\n"
            f"[a.md#L9] Costs\n(as under [a.md#L1-L9])\n\n[b.md#L9] Costs\n{_OTHER}"
        ),
    ]


def test_nan_and_infinity_are_sent_to_models_as_null() -> None:
    """JSON cannot represent them."""
    result = ToolResult(call_id="1", tool="query_data", output={"rows": [float("nan"), float("inf"), 1.5]})

    assert ShownText(WHOLE, "").render(result) == 'From query_data:\n<data>\n{"rows":[null,null,1.5]}\n</data>'
