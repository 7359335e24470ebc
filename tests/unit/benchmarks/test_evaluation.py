"""How sessions are scored and compared, and regressions prevented."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from temporalio.client import Client

from benchmarks.evaluation.dataset import Case, GoldSubtask, read_datasets
from benchmarks.evaluation.fanoutqa import EDITIONS, WrongFile, read_fanoutqa
from benchmarks.evaluation.results import Evaluated, regressions
from benchmarks.evaluation.scores import Scores, citation_share, match, score
from benchmarks.evaluation.sessions import Job, Variant, evaluate
from benchmarks.evaluation.statistics import bootstrap, pass_hat, sign_test
from chargehand.contracts import Source, SubtaskRecord
from chargehand_plugins.tape.contracts import Line, TapedAnswer, ToolAsked
from chargehand_plugins.tape.format import TurnAsked
from chargehand_plugins.testing import report_of


def test_the_sign_test_is_exact() -> None:
    assert (sign_test(0, 0), sign_test(1, 1), sign_test(5, 0), sign_test(8, 2)) == (1.0, 1.0, 0.0625, 0.109375)
    assert sign_test(0, 6) == sign_test(6, 0) == 2 / 64


@pytest.mark.parametrize("differences", [[0.5], [0.0, 0.0, 1.0], [-1.0, 0.25, 0.5, 0.5, -0.125]])
def test_the_bootstrap_interval_lies_within_the_observed_differences(differences: list[float]) -> None:
    low, high = bootstrap(differences)

    assert min(differences) - 1e-9 <= low <= high <= max(differences) + 1e-9
    assert (low, high) == bootstrap(differences)


def test_pass_hat_is_the_probability_that_k_drawn_runs_all_pass() -> None:
    """With three passes in four runs, two drawn runs both pass in half the draws; too few runs do not count."""
    runs = [*[("a", True)] * 3, ("a", False), *[("b", True)] * 4, ("c", True)]

    assert pass_hat(runs, 2) == (0.5 + 1.0) / 2
    assert pass_hat(runs, 1) == (0.75 + 1.0 + 1.0) / 3


def test_a_citation_is_valid_only_if_a_tool_returned_its_words() -> None:
    sources = [
        Source(ref="a", quote="It  stops."),
        Source(ref="b", quote="It stops."),
        Source(ref="a", quote="It goes."),
    ]
    report = report_of("Yes [S1]. Yes [S2]. Yes [S3]. Yes [S4].").model_copy(update={"sources": tuple(sources)})
    returned = TapedAnswer(sources=(Source(ref="a", quote="In fog it stops."),))

    assert citation_share(report, [Line(tool=ToolAsked(agent="x", tool="y"), result=returned)]) == 0.25


def record(id_: str, instruction: str, agent: str = "reader", needs: tuple[str, ...] = ()) -> SubtaskRecord:
    return SubtaskRecord(id=id_, agent=agent, instruction=instruction, depends_on=needs, state="success")


def test_a_plan_is_scored_by_subtasks_and_edges_of_the_gold_plan() -> None:
    """Subtasks are matched by their instructions, whatever their ids; edges count between matched ones."""
    gold = tuple(
        GoldSubtask(id=id_, instruction=instruction, agent="reader", depends_on=needs)
        for id_, instruction, needs in [
            ("A", "List the five vessels", ()),
            ("B", "Find the age of each vessel", ("A",)),
            ("C", "Find the price of fuel", ()),
        ]
    )
    subtasks = (
        record("T1", "Find the age of each vessel listed", needs=("T2",)),
        record("T2", "List the five vessels"),
        record("T3", "Write a poem", needs=("T1",)),
    )
    report = report_of("Done.").model_copy(update={"subtasks": subtasks})
    scores = score(Case(id="c", goal="A goal", plan=gold, agents=("reader",) * 3), report, [], 1.0)

    assert {gold: found.id for gold, found in match(gold, subtasks).items()} == {"A": "T2", "B": "T1"}
    assert (scores.nodes, scores.edges, scores.executed, scores.routed) == (2 / 3, 1.0, 2 / 3, True)
    assert scores.gaps_named is False
    report = report.model_copy(update={"gaps": ("Not planned: Find the price of fuel.",)})
    assert score(Case(id="c", goal="A goal", plan=gold), report, [], 1.0).gaps_named


def test_a_case_with_a_golden_answer_passes_by_the_answer_alone() -> None:
    """Another plan, other agents or an invalid citation do not fail a golden answer; a wrong answer fails whatever the
    process. A case without a golden answer passes by its agents.
    """
    gold = (GoldSubtask(id="A", instruction="List the five vessels", agent="reader"),)
    case = Case(id="c", goal="Which wind?", answer=("26 knots",), plan=gold, agents=("analyst",))
    report = report_of("It is 26 knots [S1].").model_copy(
        update={"subtasks": (record("T1", "Something else"),), "stop_reason": "max_turns"}
    )
    routing = Case(id="r", goal="Which wind?", agents=("reader",))

    golden = score(case, report, [], 1.0)
    assert (golden.passed, golden.routed, golden.completed) == (True, False, False)
    assert (golden.executed, golden.citations) == (0.0, 0.0)
    wrong = score(case.model_copy(update={"agents": ("reader",)}), report_of("It is 27 knots."), [], 1.0)
    assert (wrong.passed, wrong.reason, wrong.said) == (False, "It does not say: 26 knots", "It is 27 knots.")
    assert score(routing, report, [], 1.0).passed
    assert not score(routing.model_copy(update={"agents": ("analyst",)}), report, [], 1.0).passed


def test_routing_is_scored_by_the_agents_that_started_each_subtask() -> None:
    """An agent that takes over later does not count; agents with the same instruction count each."""

    def began(about: str, *agents: str) -> list[Line]:
        return [Line(turn=TurnAsked(kind="work", agent=agent, about=about)) for agent in agents]

    lines = [*began("Sum it.", "analyst", "analyst", "reader"), *began("Review it.", "logic", "style", "logic")]
    taken_over = (record("T1", "Sum it.", "reader"), record("T2", "Review it.", "style"))
    reviewed = (*taken_over, record("T3", "Review it.", "logic"), record("T4", "Write.", "writer"))
    report = report_of("Done.").model_copy(update={"subtasks": reviewed})
    case = Case(id="r", goal="Which wind?", agents=("analyst", "logic", "style", "writer"))

    assert score(case, report, lines, 1.0).routed
    assert not score(
        case.model_copy(update={"agents": ("reader", "logic", "style", "writer")}), report, lines, 1.0
    ).routed


def evaluated(backend: str, *passed: bool, **more: float) -> Evaluated:
    scores: list[Mapping[str, object]] = [
        {"case": f"c{number}", "passed": each, "completed": True, **more} for number, each in enumerate(passed)
    ]
    return Evaluated(dataset="d", backend=backend, scores=tuple(Scores.model_validate(each) for each in scores))


def test_the_gate_distinguishes_regressions_from_chance() -> None:
    """On tapes one worse case is a regression; on models it takes more than chance explains."""
    before = evaluated("configured", *[True] * 8, usd=1)
    cases = {
        "same": evaluated("configured", *[True] * 8, usd=1),
        "one worse": evaluated("configured", *[True] * 7, False, usd=1),
        "six worse": evaluated("configured", *[True] * 2, *[False] * 6, usd=1),
        "dearer": evaluated("configured", *[True] * 8, usd=1.2),
        "fewer": evaluated("configured", *[True] * 7, usd=1),
        "one worse on tapes": evaluated("tape", *[True] * 7, False, usd=1),
    }

    taped = evaluated("tape", *[True] * 8, usd=1)
    found = {name: regressions(taped if "tapes" in name else before, after) for name, after in cases.items()}
    assert {name: bool(worse) for name, worse in found.items()} == {
        "same": False,
        "one worse": False,
        "six worse": True,
        "dearer": True,
        "fewer": True,
        "one worse on tapes": True,
    }
    assert regressions(before, taped)


def test_every_edition_of_fanoutqa_is_read(tmp_path: Path) -> None:
    """A corrected edition has its own name, so that scores are not mixed; test questions, which have no answers, and
    other files are refused with a message.
    """
    file = tmp_path / "dev.json"
    golden = {"Rao": "Pune", "Lind": "Oslo"}
    part: dict[str, object] = {"id": "a", "question": "Where is Rao born?", "answer": "Pune"}
    part |= {"decomposition": [], "depends_on": []}
    own: dict[str, object] = {"id": "q", "question": "Where are Rao and Lind born?", "answer": golden, "categories": []}
    file.write_text(json.dumps([part | own | {"decomposition": [part]}]))

    dataset = read_fanoutqa(file)
    assert (dataset.name[:9], dataset.cases[0].answer, dataset.cases[0].whole) == ("fanoutqa-", golden, True)
    assert set(EDITIONS.values()) == {"2023-11", "2026-07"}
    for other in ([{"id": "q", "question": "No answer"}], {"a": 1}, []):
        file.write_text(json.dumps(other))
        with pytest.raises(WrongFile, match="does not have the development questions"):
            read_fanoutqa(file)


@pytest.mark.nightly
async def test_the_oracle_executes_what_the_limits_allow_and_names_the_rest(client: Client, tmp_path: Path) -> None:
    sample = read_datasets(["fanoutqa-sample"])["fanoutqa-sample"]
    dataset = sample.model_copy(update={"cases": (sample.cases[0], sample.cases[-1])})
    largest = dataset.model_copy(update={"cases": dataset.cases[-1:]})
    found: list[Scores] = []
    deep: list[Scores] = []
    single: list[Scores] = []
    await evaluate(client, tmp_path, Job(dataset, "oracle", variant=Variant(profile="standard")), found.append)
    await evaluate(
        client, tmp_path, Job(largest, "oracle", variant=Variant(profile="deep", shape="fan-out")), deep.append
    )
    await evaluate(client, tmp_path, Job(dataset, "oracle", variant=Variant(shape="single")), single.append)

    assert [(each.plan_valid, each.gaps_named) for each in (*found, *deep)] == [(True, True)] * 3
    # Of 6 subtasks, 5 fit; of 12, 5 as well: an agent with tools counts three turns, and the report one.
    assert sorted((each.passed, round(12 * (each.executed or 0))) for each in found) == [(False, 5), (False, 10)]
    assert [(each.passed, each.executed, each.answer, each.forced) for each in deep] == [(True, 1.0, 1.0, 0)]
    assert [each.passed for each in single] == [True, True]
