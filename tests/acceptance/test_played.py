"""Ten tasks played through by a competent model that reacts only to what it is shown, on the real wires."""

import re
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Final

import pytest
from temporalio.client import Client

from activities.contracts.quotations import PASSAGE_GAP
from benchmarks.played import tasks
from benchmarks.played.stage import Played, Stage, open_stage
from chargehand.contracts import Limits
from chargehand.contracts.limits import PROFILES
from tests.parameters import first_fast

BACKGROUND: Final = "They are for a depot on a hill, whose mechanics also look after the old ones. " * 25
"""A page that makes a prompt long enough to be cached."""
MAYORS_NAMED: Final = tuple(f"{name} is {mayor}" for name, mayor in tasks.MAYORS.items())
CASES: Final[dict[str, tuple[tasks.Task, tuple[str, ...], int, tuple[str, ...]]]] = {
    "one agent quotes the clauses of a contract and its amendment": (
        tasks.CONTRACT,
        ("six months", "three months", "landlord pays for structural repairs", "2 percent"),
        0,
        ("reader",),
    ),
    "a PDF that the search finds": (tasks.PDF, ("11.4 percent",), 1, ()),
    "a request in Chinese": (tasks.CHINESE, ("六百二十米", "2019年9月28日"), 2, ()),
    "figures are computed and words are quoted": (
        tasks.FIGURES_AND_WORDS,
        (*(f"{route} | {total}" for route, total in tasks.CANCELLED.items()), "signed by the operations manager"),
        0,
        ("analyst", "reader"),
    ),
    "a comparison of five reads fifteen pages": (
        tasks.COMPARISON,
        tuple(f for facts in tasks.BIKES.values() for f in facts),
        15,
        (),
    ),
    "a list is read, and its items by the same agent": (
        replace(tasks.LIST_THEN_DETAIL, limits=Limits(max_turns=20)),
        MAYORS_NAMED,
        6,
        ("researcher",),
    ),
    "a list is read, and its items by an agent each": (
        replace(tasks.LIST_THEN_DETAIL, limits=Limits(max_turns=40)),
        MAYORS_NAMED,
        6,
        ("researcher",) * 6,
    ),
    "a survey of sixty turns": (
        tasks.SURVEY,
        (*(f"fleet of {name} has" for name in tasks.LINES), *(f"{name} was founded" for name in tasks.LINES)),
        2 * len(tasks.LINES),
        ("researcher",) * len(tasks.LINES),
    ),
    "sources that contradict each other": (tasks.CONTRADICTION, ("1968", "1971"), 0, ()),
    "a long report in German": (tasks.LONG_REPORT, ("48 Millionen Euro",), 0, ()),
}
"""Cases by name: the task, words of its answer, the number of pages read, and the agents if relevant."""


@pytest.fixture(scope="module")
async def stage(client: Client, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Stage]:
    """Workers, provider and web, shared by the tasks."""
    async with open_stage(client, tmp_path_factory.mktemp("played")) as opened:
        yield opened


def assert_unhindered(played: Played) -> None:
    """Check that no agent had to answer early, nothing was cut off, and no call cost more than it reserved."""
    assert played.model.forced == []
    assert not any(turn.must_answer for turn in played.turns)
    assert {turn.stop for turn in played.turns} <= {"answer", "tools"}
    assert not any(turn.reserved < turn.cost for turn in played.turns)
    assert played.report.reserved_usd == 0
    assert sum(turn.cost for turn in played.turns) == played.report.usage.cost_usd


def assert_sources_whole(played: Played) -> None:
    """Check that claims are verified or cited, and that each source quotes its page up to the end of a sentence."""
    report = played.report
    assert report.claims
    assert {claim.verification for claim in report.claims} <= {"supported", "computed", "cited"}
    cited = {int(number) for number in re.findall(r"\[S(\d+)\]", report.answer)}
    assert cited == set(range(1, len(report.sources) + 1))
    for source in report.sources:
        for words in source.quote.split(PASSAGE_GAP) if source.ref.partition(":")[0] != "sql" else ():
            assert _plain(words) in _plain(played.text_of(source.ref))
            assert words.strip()[-1] in ".。"


def _plain(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("name", first_fast(CASES, 1, pytest.mark.nightly))
async def test_played_tasks_are_answered_completely(stage: Stage, name: str) -> None:
    """Every fact has its source; nothing is truncated, stopped early or left out, except what sources dispute."""
    task, words, pages, agents = CASES[name]
    played = await stage.play(task)

    report = played.report
    assert report.stop_reason == ("partial" if task is tasks.CONTRADICTION else "completed")
    assert all(each in report.answer for each in words)
    assert len(played.pages) >= pages
    assert sorted(record.agent for record in report.subtasks) == sorted(agents or [r.agent for r in report.subtasks])
    assert_unhindered(played)
    assert_sources_whole(played)


@pytest.mark.nightly
async def test_demanding_tasks_get_the_turns_and_words_they_need(stage: Stage) -> None:
    """A survey takes 60 turns or more, a report 3,000 words or more; a contradiction has both positions."""
    survey, long, contradiction = [
        await stage.play(task) for task in (tasks.SURVEY, tasks.LONG_REPORT, tasks.CONTRADICTION)
    ]
    contract, comparison = [await stage.play(task) for task in (tasks.CONTRACT, tasks.COMPARISON)]

    assert (len(survey.turns) >= 60, survey.report.gaps) == (True, ())
    assert len(long.report.answer.split()) >= 3_000
    assert len(long.report.sources) == 9
    assert sum(claim.verification == "supported" for claim in long.report.claims) >= 9
    (found,) = contradiction.report.contradictions
    assert len(found.positions) == 2
    assert {year for year in ("1968", "1971") if year in " ".join(found.positions)} == {"1968", "1971"}
    assert {source.ref.partition("#")[0] for source in contract.report.sources} == {"lease.md", "amendment-2.md"}
    assert [record.state for record in contract.report.subtasks] == ["success"]
    assert (len(comparison.pages), comparison.report.gaps) == (15, ())


@pytest.mark.nightly
@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_sibling_agents_read_the_shared_prefix_from_the_cache(stage: Stage, provider: tasks.Provider) -> None:
    """At least 80% of the first-turn input of five researchers is cached, not counting the first of them."""
    task = replace(tasks.COMPARISON, provider=provider, goal=f"{tasks.COMPARISON.goal}\n\n{BACKGROUND}")
    played = await stage.play(task, seconds=0.3)

    _, *siblings = sorted((tokens for _, tokens in played.first_turns), key=lambda each: each.cached)
    assert len(siblings) == 4
    shown = sum(each.input + each.cached + each.cache_write for each in siblings)
    assert sum(each.cached for each in siblings) / shown >= 0.8


@pytest.mark.slow
async def test_work_that_exceeds_the_limits_is_listed_as_gaps(stage: Stage) -> None:
    """With 11 turns fewer bikes are compared, and the report names the others."""
    played = await stage.play(replace(tasks.COMPARISON, limits=Limits(max_turns=11)))

    compared = [name for name in tasks.BIKES if any(name in record.instruction for record in played.report.subtasks)]
    assert 0 < len(compared) < len(tasks.BIKES)
    assert all(any(name in gap for gap in played.report.gaps) for name in tasks.BIKES if name not in compared)
    assert all(tasks.BIKES[name][0] in played.report.answer for name in compared)
    assert_unhindered(played)
    assert_sources_whole(played)


@pytest.mark.slow
async def test_quick_profile_pays_for_two_agents(stage: Stage) -> None:
    """Both subtasks succeed within the profile's budget, without gaps."""
    played = await stage.play(replace(tasks.FIGURES_AND_WORDS, limits=PROFILES["quick"]))

    assert [record.state for record in played.report.subtasks] == ["success", "success"]
    assert played.report.gaps == ()
    assert played.report.usage.cost_usd <= PROFILES["quick"].budget_usd


@pytest.mark.slow
async def test_unanswerable_question_is_reported_as_a_gap(stage: Stage) -> None:
    """Facts on no page are searched for, not invented, and reported with a confidence below 50."""
    played = await stage.play(tasks.NO_ANSWER)

    assert len(played.pages) == 3
    assert any("1987" in gap for gap in played.report.gaps)
    assert played.report.stop_reason == "nothing_succeeded"
    assert played.report.confidence < 50
    assert_unhindered(played)
