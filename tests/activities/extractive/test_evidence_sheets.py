"""The report of a session without a language model: answers first, each with its source, gaps said plainly."""

import re

import pytest

from activities.contracts import InputOutcome
from activities.turn_kinds.synthesis import SynthesisAnswer, SynthesisTask
from chargehand.contracts import Finding, Source, Success, Usage
from tests.activities.extractive.bakery import TABLES
from tests.activities.extractive.desk import Harness
from tests.activities.extractive.test_text_questions import DOCUMENTS, PASSAGES

NOTE = "*No language model was used: this is an evidence sheet of quoted passages and computed figures.*"


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    return Harness(TABLES, documents=DOCUMENTS, passages=PASSAGES).open(tmp_path_factory.mktemp("papers"))


async def test_a_sheet_answers_each_question_in_its_first_lines(harness: Harness) -> None:
    """The questions stand in the order in which they were asked, each with its answer and a citation below it."""
    _, report, refs = await harness.report("Who is the landlord? How many deliveries were damaged?")

    lines = report.answer.split("\n")
    assert lines[0].strip() == "**Who is the landlord?**"
    assert lines[1].startswith("“The landlord is Brunner Estates Ltd")
    assert lines[1].endswith("[S1]")
    assert lines[3].strip() == "**How many deliveries were damaged?**"
    assert lines[4] == "**Number of deliveries: 4** (damaged: yes; counting rows of deliveries.csv). [S2]"
    assert refs[0] == "lease-station.pdf#page=3"
    assert report.answer.endswith(NOTE)
    assert report.answer.count(NOTE) == 1


async def test_every_citation_is_of_a_source_that_there_is(harness: Harness) -> None:
    """No number points past the sources, and no `ref` is left unnumbered."""
    _, report, refs = await harness.report(
        "How often is the deck oven descaled? Total revenue by shop? Why was the second deck oven turned down?"
    )

    numbers = {int(number) for number in re.findall(r"\[S(\d+)\]", report.answer)}
    assert numbers == set(range(1, len(refs) + 1))
    assert [ref for ref in refs if f"[{ref}]" in report.answer] == []


async def test_a_longer_result_is_shown_as_a_table_below(harness: Harness) -> None:
    """What does not fit a sentence stands under the evidence, once."""
    _, report, _ = await harness.report("Total revenue per month in 2025? Who is the landlord?")

    answers, evidence = report.answer.split("## Evidence")
    assert "2025-01 590.60 EUR" in answers
    assert "| 2025-12 | 540 EUR |" in evidence
    assert "landlord" not in evidence


async def test_what_was_not_answered_is_listed(harness: Harness) -> None:
    """A question that came to nothing is named with the reason, and lowers the confidence of the whole."""
    _, report, _ = await harness.report("Who is the landlord? What is the capital of France?")

    assert (
        "## Not answered\n\n- No document here answers this: “What is the capital of France?”; “capital” and “France” "
        "stand in none." in report.answer
    )
    assert report.confidence <= 50


async def test_a_session_in_which_nothing_was_found_says_so_first(harness: Harness) -> None:
    """The sheet begins with the plain statement and has no confidence."""
    _, report, _ = await harness.report("What is the capital of France? Who won the world cup?")

    assert report.answer.startswith("**No document here answers this.**")
    assert report.confidence == 0


def quoting(claims: dict[str, str]) -> SynthesisTask:
    """The task of a session in which one question was answered by these quotations."""
    outcome = Success(
        content="\n\n".join(f"> {claim}" for claim in claims.values()),
        findings=tuple(Finding(claim=claim, sources=(ref,), confidence=80) for ref, claim in claims.items()),
        sources=tuple(Source(ref=ref, quote=claim) for ref, claim in claims.items()),
        confidence=80,
    )
    instruction = "Find and quote what the documents say: At what mean wind do sailings stop?"
    given = InputOutcome(id="T1", agent="reader", instruction=instruction, outcome=outcome)
    return SynthesisTask(goal="", outcomes=(given,), sources=tuple(claims))


async def test_different_amounts_for_one_question_are_a_contradiction(harness: Harness) -> None:
    """Two documents that differ in nothing but an amount are both named, and neither is preferred."""
    task = quoting({
        "old.md#L1": "“Sailings stop at a mean wind of 30 knots.”",
        "new.md#L1": "“From April sailings stop at a mean wind of 26 knots.”",
    })  # fmt: skip

    reply = await harness.complete(task, SynthesisAnswer)

    [found] = SynthesisAnswer.model_validate_json(reply.text).contradictions
    assert found.about == "At what mean wind do sailings stop? (30 knots or 26 knots)"
    assert found.positions == [
        "“Sailings stop at a mean wind of 30 knots.” [S1]",
        "“From April sailings stop at a mean wind of 26 knots.” [S2]",
    ]
    assert found.resolution == ""


async def test_amounts_of_different_things_are_no_contradiction(harness: Harness) -> None:
    """Claims that have little but a unit in common do not contradict each other."""
    task = quoting({
        "a.md#L1": "“Sailings stop at a mean wind of 30 knots.”",
        "b.md#L1": "“The ferry does 12 knots when it is fully laden.”",
    })  # fmt: skip

    reply = await harness.complete(task, SynthesisAnswer)

    assert SynthesisAnswer.model_validate_json(reply.text).contradictions == []


async def test_the_same_call_is_always_answered_the_same_way(harness: Harness) -> None:
    """Rules have no memory and no chance."""
    goal = "Which shop had the highest revenue, and how many seats does it have? Who is the landlord?"

    first = await harness.report(goal)
    second = await harness.report(goal)

    assert first == second


async def test_a_turn_costs_nothing_and_says_who_took_it(harness: Harness) -> None:
    """The reply names the rules as model and provider, with one turn and no tokens."""
    reply = await harness.complete(SynthesisTask(goal="", outcomes=()), SynthesisAnswer)

    assert (reply.model, reply.provider, reply.stop) == ("extractive", "extractive", "answer")
    assert reply.usage == Usage(turns=1)
