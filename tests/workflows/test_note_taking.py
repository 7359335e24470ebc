"""The tool `note`: kept by the workflow, and handed on whatever becomes of the attempt."""

from activities.contracts.rounds import Note
from activities.models.protocol import ModelCall, ModelReply
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Limits, SessionRequest, Source
from tests.scripted_model import Script, answer, refined, request_tools, subtask, use
from tests.workflows.conftest import OpenEnvironment

GOAL = SessionRequest(goal="What do the documents say?", review="never")
READ = Source(ref="search_documents.md#L1", title="A title", quote="what search_documents read")
DEEP = Limits(max_turns=20)
QUOTED = READ.model_copy(update={"quote": "search_documents read"})


def note(*claims: str, ref: str = READ.ref, quote: str = QUOTED.quote) -> ModelReply:
    """Reply by noting claims."""
    return request_tools(*(("note", {"claim": claim, "ref": ref, "quote": quote}) for claim in claims))


async def test_notes_cost_nothing_and_take_no_call_of_the_round(environment: OpenEnvironment) -> None:
    """A round of many notes and eight other calls executes all of them; the notes are no tool calls that count."""
    reading = use(*["search_documents"] * 8)
    noting = note(*(f"Claim {number}." for number in range(12)))
    both = reading.model_copy(update={"tool_calls": (*noting.tool_calls, *reading.tool_calls)})
    asked: list[WorkTask] = []

    def second(call: ModelCall) -> ModelReply:
        assert "note" in call.offered_tools, "deep work keeps notes"
        return both

    script = Script().plan(subtask("T1")).work("", use("search_documents", about="first"), second, answer("Known."))
    async with environment(script) as opened:
        result = await opened.run(GOAL.model_copy(update={"profile": "deep", "limits": DEEP}))
        asked = opened.model.tasks(WorkTask)

    assert [given.ok for given in asked[-1].rounds[-1].results] == [True] * 20
    assert result.usage.tool_calls == 9


async def test_the_next_attempt_has_the_notes_of_the_one_before(environment: OpenEnvironment) -> None:
    """A second attempt begins with what the first one has noted, and may cite it without reading it again."""
    again = subtask("T1", instruction="Read it once more.").instruction
    script = (
        Script()
        .plan(subtask("T1"))
        .work("", use("search_documents"), note("It says so."), answer("", status="no_answer"))
        .work("once more", answer("It says so.", ref=READ.ref, quote=QUOTED.quote))
        .refine(refined(again))
    )
    async with environment(script) as opened:
        result = await opened.run(GOAL)
        [second] = [call for call in opened.model.of_kind("work") if again in call.messages[0].text]

    assert isinstance(second.task, WorkTask)
    assert second.task.notes == (Note(claim="It says so.", source=QUOTED),)
    assert (
        f"- It says so. [p1] Quote: {QUOTED.quote}\n</data>\n\nSources of these:\n<data>\n[p1] {READ.ref} A title"
        in second.messages[0].text
    )
    assert result.sources == (QUOTED,)
