"""Ten tasks played through by a competent model that reacts only to what it is shown, on the real wires."""

import re
from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest
from temporalio.client import Client

from activities.contracts.rounds import PASSAGE_GAP
from chargehand.contracts import Limits
from chargehand.contracts.request import PROFILES
from tests.acceptance.played.stage import Played, Stage, open_stage
from tests.acceptance.played.tasks import (
    BIKES,
    CANCELLED,
    CHINESE,
    COMPARISON,
    CONTRACT,
    CONTRADICTION,
    FIGURES_AND_WORDS,
    LINES,
    LIST_THEN_DETAIL,
    LONG_REPORT,
    MAYORS,
    NO_ANSWER,
    PDF,
    SURVEY,
)


@pytest.fixture(scope="module")
async def stage(client: Client, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Stage]:
    """Workers, provider and web, shared by the tasks."""
    async with open_stage(client, tmp_path_factory.mktemp("played")) as opened:
        yield opened


def assert_unhindered(played: Played) -> None:
    """Nobody was made to answer early, nothing was cut off, and no call cost more than was reserved for it."""
    assert played.model.forced == []
    assert not any(turn.must_answer for turn in played.turns)
    assert {turn.stop for turn in played.turns} <= {"answer", "tools"}
    assert not any(turn.reserved < turn.cost for turn in played.turns)
    assert played.report.reserved_usd == 0
    assert sum(turn.cost for turn in played.turns) == played.report.usage.cost_usd


def assert_sources_whole(played: Played) -> None:
    """Every citation has its source, whose words stand in its page up to the end of a sentence; no claim is without."""
    report = played.report
    assert report.claims
    assert {claim.verification for claim in report.claims} <= {"quoted", "computed", "inferred"}
    cited = {int(number) for number in re.findall(r"\[S(\d+)\]", report.answer)}
    assert cited == set(range(1, len(report.sources) + 1))
    for source in report.sources:
        for words in source.quote.split(PASSAGE_GAP) if source.ref.partition(":")[0] != "sql" else ():
            assert _plain(words) in _plain(played.text_of(source.ref))
            assert words.strip()[-1] in ".。"


def _plain(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.slow
async def test_a_comparison_of_five_reads_fifteen_pages(stage: Stage) -> None:
    """At the default limits, five researchers read three pages each, and the table is whole."""
    played = await stage.play(COMPARISON)

    assert len(played.pages) == 15
    assert played.report.stop_reason == "completed"
    assert played.report.gaps == ()
    for facts in BIKES.values():
        assert all(fact in played.report.answer for fact in facts)
    assert_unhindered(played)
    assert_sources_whole(played)


@pytest.mark.slow
async def test_what_the_limits_have_no_room_for_is_named(stage: Stage) -> None:
    """With 10 turns fewer bikes are compared, and the report names the others."""
    played = await stage.play(replace(COMPARISON, limits=Limits(max_turns=10)))

    compared = [name for name in BIKES if any(name in record.instruction for record in played.report.subtasks)]
    assert 0 < len(compared) < len(BIKES)
    assert all(any(name in gap for gap in played.report.gaps) for name in BIKES if name not in compared)
    assert all(BIKES[name][0] in played.report.answer for name in compared)
    assert_unhindered(played)
    assert_sources_whole(played)


@pytest.mark.slow
async def test_what_can_be_paid_is_done(stage: Stage) -> None:
    """Where the budget is too small for the analyst, the reader, whose model is cheaper, answers its part."""
    played = await stage.play(replace(FIGURES_AND_WORDS, limits=PROFILES["quick"]))

    analyst, reader = played.report.subtasks
    assert reader.state == "success"
    assert analyst.state == "success" or any("analyst" in gap for gap in played.report.gaps)
    assert "signed by the operations manager" in played.report.answer


@pytest.mark.slow
@pytest.mark.parametrize(("max_turns", "subtasks"), [(20, 1), (40, 6)], ids=["by one agent", "for each"])
async def test_a_list_is_found_before_its_items_are_looked_up(stage: Stage, max_turns: int, subtasks: int) -> None:
    """The five islands are read from a page, and then the page of each: by one agent, or by one each if turns allow."""
    played = await stage.play(replace(LIST_THEN_DETAIL, limits=Limits(max_turns=max_turns)))

    assert len(played.pages) >= 6
    assert len(played.report.subtasks) == subtasks
    assert played.report.stop_reason == "completed"
    assert all(f"{name} is {mayor}" in played.report.answer for name, mayor in MAYORS.items())
    assert_unhindered(played)
    assert_sources_whole(played)


async def test_contract_questions_are_answered_by_one_agent(stage: Stage) -> None:
    """One reader quotes the clauses, and the amendment beside the clause that it replaces."""
    played = await stage.play(CONTRACT)

    assert [(record.agent, record.state) for record in played.report.subtasks] == [("reader", "success")]
    assert {source.ref.partition("#")[0] for source in played.report.sources} == {"lease.md", "amendment-2.md"}
    for words in ("six months", "three months", "landlord pays for structural repairs", "2 percent"):
        assert words in played.report.answer
    assert played.report.stop_reason == "completed"
    assert_unhindered(played)
    assert_sources_whole(played)


async def test_figures_are_computed_and_words_are_quoted(stage: Stage) -> None:
    """The analyst adds up the rows, the reader quotes the handbook, and the report has both."""
    played = await stage.play(FIGURES_AND_WORDS)

    assert {record.agent for record in played.report.subtasks} == {"analyst", "reader"}
    assert all(f"{route} | {total}" in played.report.answer for route, total in CANCELLED.items())
    assert "signed by the operations manager" in played.report.answer
    assert played.report.stop_reason == "completed"
    assert_unhindered(played)
    assert_sources_whole(played)


@pytest.mark.slow
async def test_a_long_report_in_german_has_its_length(stage: Stage) -> None:
    """A report of 3,000 words is written in German, with every fact and its source."""
    played = await stage.play(LONG_REPORT)

    assert len(played.report.answer.split()) >= 3_000
    assert "48 Millionen Euro" in played.report.answer
    assert len(played.report.sources) == 9
    assert sum(claim.verification == "quoted" for claim in played.report.claims) >= 9
    assert played.report.stop_reason == "completed"
    assert_unhindered(played)
    assert_sources_whole(played)


async def test_a_question_without_an_answer_is_named_as_a_gap(stage: Stage) -> None:
    """What no page says is looked for, not made up, and named."""
    played = await stage.play(NO_ANSWER)

    assert len(played.pages) == 3
    assert any("1987" in gap for gap in played.report.gaps)
    assert played.report.stop_reason == "nothing_succeeded"
    assert played.report.confidence < 50
    assert_unhindered(played)


@pytest.mark.slow
async def test_sources_that_contradict_each_other_are_both_stated(stage: Stage) -> None:
    """The report lists the contradiction with both sides, each with its source."""
    played = await stage.play(CONTRADICTION)

    (found,) = played.report.contradictions
    assert len(found.positions) == 2
    assert {year for year in ("1968", "1971") if year in " ".join(found.positions)} == {"1968", "1971"}
    assert all(year in played.report.answer for year in ("1968", "1971"))
    assert played.report.stop_reason == "completed"
    assert_unhindered(played)
    assert_sources_whole(played)


async def test_a_pdf_on_the_web_is_read(stage: Stage) -> None:
    """A report that the search finds as PDF is opened, searched and cited by its page."""
    played = await stage.play(PDF)

    assert len(played.pages) == 1
    assert "11.4 percent" in played.report.answer
    assert played.report.stop_reason == "completed"
    assert_unhindered(played)
    assert_sources_whole(played)


async def test_a_request_in_chinese_is_answered(stage: Stage) -> None:
    """A request in Chinese is planned, searched for, read and answered."""
    played = await stage.play(CHINESE)

    assert len(played.pages) == 2
    assert "六百二十米" in played.report.answer
    assert "2019年9月28日" in played.report.answer
    assert played.report.stop_reason == "completed"
    assert_unhindered(played)
    assert_sources_whole(played)


@pytest.mark.slow
async def test_a_survey_of_sixty_turns_is_whole(stage: Stage) -> None:
    """Fifteen researchers side by side search, read and read on, and the report has every fact of each."""
    played = await stage.play(SURVEY)

    assert len(played.turns) >= 60
    assert len(played.pages) == 2 * len(LINES)
    assert played.report.stop_reason == "completed"
    assert played.report.gaps == ()
    assert all(f"fleet of {name} has" in played.report.answer for name in LINES)
    assert all(f"{name} was founded" in played.report.answer for name in LINES)
    assert_unhindered(played)
    assert_sources_whole(played)
