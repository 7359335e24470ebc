"""The report: what its writer reads, how long it is, and what happens to statements without a source."""

from decimal import Decimal
from pathlib import Path

import pytest
from pydantic import BaseModel

from activities.contracts.tool import ToolAnswer
from activities.models.protocol import ModelCall, ModelReply
from activities.turn_kinds.synthesis import CompressTask, OutlineTask, ReopenDraft, SynthesisTask
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import SessionRequest, Source
from chargehand.tools import failed
from tests.crew_files import READS_DOCUMENTS, crew_folder
from tests.scripted_model import (
    Script,
    answer,
    criticised,
    graded,
    judged,
    outlined,
    plan,
    refuse,
    report,
    subtask,
    topics,
    use,
)
from tests.workflows.conftest import OpenEnvironment, RunSession

GOAL = SessionRequest(goal="What do the documents say about the topics?")
ROOMY = GOAL.limits.model_copy(update={"max_turns": 60, "max_parallel": 14})
REF = "search_documents.md#L1"
QUOTE = "what search_documents read"


def _long(text: str, count: int, strategy: str = "merge") -> Script:
    """Plan some subtasks that each find the same text, with a quotation."""
    found = answer(text, ref=REF, quote=QUOTE)
    return Script().plan(*topics(count), strategy=strategy).work("", use("search_documents"), found)


async def test_the_writer_gets_whole_outcomes(run: RunSession) -> None:
    """Below the cap they are not summarised or cut, and findings come with their quotations."""
    text = "It is so. " * 2_000
    _, opened = await run(_long(text, 5), GOAL.model_copy(update={"review": "never", "limits": ROOMY}))

    [written] = opened.model.of_kind("synthesis")
    prompt = written.messages[0].text
    assert prompt.count(text.strip()) == 5
    assert prompt.count("[S1.1] (confidence 80)") == 5
    assert prompt.count(f"[S1.1] “{QUOTE}”") == 1
    assert not opened.model.of_kind("compress")


@pytest.mark.parametrize(("strategy", "shortened", "summaries"), [("merge", 4, 0), ("reduce", 0, 2)])
async def test_long_outcomes_are_shortened_but_keep_all_their_findings(
    run: RunSession, strategy: str, shortened: int, summaries: int
) -> None:
    """`merge` shortens as few as needed with the small tier; `reduce` summarises them in groups."""

    def write(call: ModelCall) -> BaseModel:
        assert isinstance(call.task, SynthesisTask)
        return report("A summary [S1]." if call.task.is_part else "From all of it [S1.1].")

    script = _long("It is so. " * 3_500, 7, strategy).synthesis(write)
    result, opened = await run(script, GOAL.model_copy(update={"limits": ROOMY}))

    *parts, last = opened.model.tasks(SynthesisTask)
    assert {call.model for call in opened.model.of_kind("compress")} <= {"scripted-small"}
    assert (len(opened.model.tasks(CompressTask)), len(parts)) == (shortened, summaries)
    assert sum(len(given.outcome.findings) for given in last.outcomes) == 7
    assert last.sources[0].quotations[0].text == QUOTE
    claims = [(claim.text, claim.verification, claim.quote) for claim in result.claims]
    assert claims == [("From all of it.", "supported", QUOTE)]
    assert result.answer == "From all of it [S1]."
    assert result.verification == "supported"


async def test_the_writer_gets_as_much_text_as_the_budget_pays_for(run: RunSession) -> None:
    """With little money left, shortened outcomes are better than no model writing the report."""
    tight = ROOMY.model_copy(update={"budget_usd": Decimal("0.20"), "max_parallel": 1})
    result, opened = await run(_long("It is so. " * 3_500, 3), GOAL.model_copy(update={"limits": tight}))

    [written, *_] = opened.model.tasks(SynthesisTask)
    assert result.stop_reason != "unwritten"
    assert result.usage.cost_usd <= tight.budget_usd
    assert 0 < len(written.outcomes[0].outcome.content) < 35_000


async def test_uncited_statements_are_sent_back_once_and_then_marked(run: RunSession) -> None:
    """The writer gets its text and each uncited statement; what stays uncited is marked "no source"."""
    script = _long("Known.", 2).synthesis(report("So it is [S1].\n\nIt rains."), report("So it is [S1].\n\nIt pours."))
    result, opened = await run(script, GOAL)

    _, again = opened.model.tasks(SynthesisTask)
    assert again.first_version == "So it is [S1].\n\nIt rains."
    assert [problem.rpartition(": ")[2] for problem in again.problems] == ["It rains."]
    assert result.answer == "So it is [S1].\n\nIt pours. *(no source)*"
    claims = [(claim.text, claim.verification) for claim in result.claims]
    assert claims == [("So it is.", "supported"), ("It pours.", "unsupported")]
    assert result.verification == "unsupported"


UNCITED = f"So it is, as all of them say [{REF}].\n\nIt rains in every month."
DELIVERED = plan(*topics(2), strategy="deliver").model_copy(update={"deliver": "T2"})


@pytest.mark.parametrize(
    ("planned", "words", "turns"),
    [
        pytest.param(plan(subtask("T1")), None, 0, id="lone"),
        pytest.param(plan(*topics(2)), None, 1, id="merge"),
        pytest.param(plan(*topics(2), strategy="select"), None, 0, id="select"),
        pytest.param(DELIVERED, None, 0, id="deliver"),
        pytest.param(plan(*topics(2)), 3_000, 2, id="by section"),
    ],
)
async def test_every_report_gets_the_same_checks_whoever_wrote_it(
    run: RunSession, planned: BaseModel, words: int | None, turns: int
) -> None:
    """A critic's problems are sent back once, an unmet criterion once more, and its claims are judged."""

    def write(call: ModelCall) -> BaseModel:
        assert isinstance(call.task, SynthesisTask)
        if call.task.section and call.task.section.heading == "Two":
            return report("It is dry [S1].")
        if any("criterion" in problem for problem in call.task.problems):
            return report("It was so in 1987 [S1].")
        return report("So it was, as all of them say [S1].\n\nIt pours." if call.task.problems else UNCITED)

    script = Script().plans(planned).work("", use("search_documents"), answer(UNCITED, ref=REF, quote=QUOTE))
    script = script.on("outline", outlined("Topics", "One", "Two")).synthesis(write)
    script = script.on("critique", criticised("“So it is, as all of them say” is too vague.")).on("judge", judged("T1"))
    script = script.on(
        "grade", lambda call: graded("" if "1987" in call.messages[0].text else "“as all of them say” names no year")
    )
    request = GOAL.model_copy(
        update={"review": "always", "criteria": ("Names a year.",), "length_words": words, "limits": ROOMY}
    )
    result, opened = await run(script, request)

    written = opened.model.tasks(SynthesisTask)
    first, second = [task for task in written if task.problems]
    assert len(written) == turns + 2
    assert first.first_version.startswith("So it is, as all of them say [S1].\n\nIt rains in every month.")
    assert first.problems[0] == "“So it is, as all of them say” is too vague."
    assert [problem.rpartition(": ")[2] for problem in first.problems[1:]] == ["It rains in every month."]
    assert first.sources[0].quotations[0].text == QUOTE
    assert [problem.rpartition(": ")[2] for problem in second.problems] == ["“as all of them say” names no year"]
    assert second.first_version.startswith("So it was, as all of them say [S1].\n\nIt pours.")
    assert "It was so in 1987 [S1]." in result.answer
    assert "It is dry [S1]." in result.answer or words is None
    assert [each.met for each in result.grades] == [True]
    assert opened.model.of_kind("judge_claims")


async def test_a_report_that_no_model_wrote_is_reported_as_unwritten(run: RunSession) -> None:
    """It has its own stop reason and notice, and lists the outcomes with their sources."""
    script = _long("Known [search_documents.md#L1].", 2).synthesis(refuse)
    result, _ = await run(script, GOAL)

    assert result.stop_reason == "unwritten"
    assert result.notice.startswith("No model could write this report.")
    assert "Known [S1]." in result.answer


async def test_the_deliver_strategy_returns_a_subtasks_text_unchanged(run: RunSession) -> None:
    """Only its citations are checked; its agent is told how to write it."""
    letter = f"Dear Ms Hall,\n\nit is so [{REF}], and so [nowhere.md#L9].\n\nYours,"
    planned = plan(subtask("T1"), subtask("T2", agent="writer", after=["T1"]), strategy="deliver")
    script = Script().plans(planned.model_copy(update={"deliver": "T2", "length_words": 90}))
    script = script.work("T1", use("search_documents"), answer("Known.", ref=REF, quote=QUOTE))
    result, opened = await run(script.work("T2", answer(letter)), GOAL)

    [*_, told] = opened.model.tasks(WorkTask)
    assert not opened.model.of_kind("synthesis")
    assert result.answer.startswith("Dear Ms Hall,")
    assert "it is so [S1], and so [nowhere.md#L9]." in result.answer
    assert [source.ref for source in result.sources] == [REF]
    assert (told.final_instruction, told.length_words) == ("Briefly.", 90)
    assert [task.length_words for task in opened.model.tasks(WorkTask)[:-1]] == [0, 0]


async def test_a_single_subtask_gets_the_writing_instructions(run: RunSession) -> None:
    """Its text is the report, so its agent gets the report's shape and length."""
    _, opened = await run(Script().plan(subtask("T1")), GOAL.model_copy(update={"length_words": 120}))

    [told] = opened.model.of_kind("work")
    assert "The user reads your content as it is. Briefly. About 120 words." in told.messages[0].text


async def test_a_long_report_is_written_in_parallel_sections(run: RunSession) -> None:
    """An outline comes first, then the sections are joined; one that is lost is a gap."""
    outline = outlined("Topics", "One", "Two", "Three", gaps=["costs"])

    def write(call: ModelCall) -> BaseModel | ModelReply:
        assert isinstance(call.task, SynthesisTask)
        assert call.task.section is not None
        heading = call.task.section.heading
        return refuse(call) if heading == "Two" else report(f"{heading} is so [S1.1].")

    script = _long("Known.", 2).on("outline", outline).on("synthesis", write)
    result, opened = await run(script, GOAL.model_copy(update={"length_words": 3_000}))

    [asked] = opened.model.tasks(OutlineTask)
    assert asked.most_sections == 3
    assert result.answer == "# Topics\n\n## One\n\nOne is so [S1].\n\n## Three\n\nThree is so [S1]."
    assert result.gaps[:2] == ("The section 'Two' could not be written.", "costs")
    assert {claim.verification for claim in result.claims} == {"supported"}
    assert result.reserved_usd == 0


@pytest.mark.parametrize(("turns", "reopens"), [(60, True), (13, True), (12, False)])
async def test_a_section_writer_may_reread_a_source_once(run: RunSession, turns: int, *, reopens: bool) -> None:
    """If turns are left for that, the passage is shown before it writes, and is cited and checked as any other."""
    again = "what read_document read"

    def write(call: ModelCall) -> BaseModel:
        assert isinstance(call.task, SynthesisTask)
        assert call.task.section is not None
        if call.task.section.heading != "One":
            return report("It is so [S1.1].")
        if call.task.reopened:
            return report(f"It is “{again}” [S2].")
        wanted = [ReopenDraft(source=source, words="the rent") for source in ("S1", "[S1]", "S7", "no number")]
        return report("" if call.task.may_reopen else "One is so [S1.1].").model_copy(update={"reopen": wanted})

    script = _long("Known.", 2).on("outline", outlined("Topics", "One", "Two", "Three")).on("synthesis", write)
    limits = GOAL.limits.model_copy(update={"max_turns": turns})
    result, opened = await run(script, GOAL.model_copy(update={"length_words": 3_000, "limits": limits}))

    written = opened.model.tasks(SynthesisTask)
    one = [task for task in written if task.section and task.section.heading == "One"]
    assert [task.may_reopen for task in written if task.section][:3] == [reopens] * 3
    assert len(one) == 1 + reopens
    arguments = [dict(each) for each in opened.tools["read_document"].calls]
    assert arguments == ([{"document": REF, "first": 0, "last": 0}] if reopens else [])
    assert {claim.verification for claim in result.claims} == {"supported"}
    assert result.usage.tool_calls == 2 + reopens
    if reopens:
        assert [(each.number, each.ref, each.text) for each in one[1].reopened] == [(2, "read_document.md#L1", again)]
        assert "## One\n\nIt is “what read_document read” [S1]." in result.answer
        assert [source.ref for source in result.sources] == ["read_document.md#L1", REF]


@pytest.mark.parametrize(("needs", "turns"), [("", 4), ('approve = ["read_document"]', 2)])
async def test_a_section_is_written_without_a_source_that_cannot_be_reread(
    environment: OpenEnvironment, tmp_path: Path, needs: str, turns: int
) -> None:
    """Its writer is asked again without it; rereading that needs approval is not offered."""
    tools = 'tools = ["search_documents", "read_document"]'
    crews = crew_folder(tmp_path, "careful", reader=f"{tools}\n{needs}\n{READS_DOCUMENTS}")

    def write(call: ModelCall) -> BaseModel:
        assert isinstance(call.task, SynthesisTask)
        wanted = [ReopenDraft(source="S1")] if call.task.may_reopen else []
        return report("" if wanted else "It is so [S1.1].").model_copy(update={"reopen": wanted})

    script = _long("Known.", 2).on("outline", outlined("Topics", "One", "Two")).on("synthesis", write)
    async with environment(script, own_crews=(crews,)) as opened:
        opened.tools["read_document"].answer = failed("There is no such document.")
        result = await opened.run(GOAL.model_copy(update={"crew": "careful", "length_words": 3_000, "limits": ROOMY}))

    assert [task.reopened for task in opened.model.tasks(SynthesisTask)] == [()] * turns
    assert result.answer == "# Topics\n\n## One\n\nIt is so [S1].\n\n## Two\n\nIt is so [S1]."


async def test_a_reread_page_keeps_its_source_number(environment: OpenEnvironment) -> None:
    """Only its known address is sent; text found at the words is added to the source that is cited."""
    url, there = "https://a.example/tides", "The tide is highest in March."

    def write(call: ModelCall) -> BaseModel:
        assert isinstance(call.task, SynthesisTask)
        if call.task.may_reopen:
            return report("").model_copy(update={"reopen": [ReopenDraft(source="S1", words="highest")]})
        return report(f"“{there}” [S1]")

    script = Script().plan(subtask("T1", "researcher"), subtask("T2", "researcher")).synthesis(write)
    script = script.work("", use("read_page"), answer("Known.", ref=url, quote="Twice a day."))
    async with environment(script.on("outline", outlined("Topics", "One", "Two"))) as opened:
        page = opened.tools["read_page"]
        page.answer = ToolAnswer(sources=(Source(ref=url, title="Tides", url=url, quote=f"Twice a day. {there}"),))
        result = await opened.run(GOAL.model_copy(update={"length_words": 3_000, "limits": ROOMY}))

    assert {"url": url, "from": 0, "find": "highest"} in [dict(each) for each in page.calls]
    assert [source.ref for source in result.sources] == [url]
    assert {claim.verification for claim in result.claims} == {"supported"}


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Die Kessel werden zweimal im Jahr geprüft, und das ist die Regel.", "de"),
        ("The boilers are tested twice a year, and that is the rule.", "en"),
        ("锅炉每年检测两次。", ""),
        ("42 %", ""),
    ],
)
async def test_a_report_states_the_detected_language_of_its_answer(
    environment: OpenEnvironment, text: str, language: str
) -> None:
    """The request's language does not matter, and an undetected one is left empty."""
    script = Script().plan(subtask("T1"), subtask("T2")).synthesis(report(text))
    async with environment(script) as opened:
        result = await (await opened.chargehand.start(SessionRequest(goal="Tell me of it.", review="never"))).result()

    assert text in result.answer
    assert result.language == language
