"""How sessions are scored, compared and kept from getting worse."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from temporalio.client import Client

from benchmarks.evaluation.dataset import Case, GoldSubtask, read_datasets
from benchmarks.evaluation.fanoutqa import WrongFile, read_fanoutqa
from benchmarks.evaluation.results import Evaluated, regressions
from benchmarks.evaluation.scores import Scores, answer_share, citation_share, match, score
from benchmarks.evaluation.sessions import Variant, evaluate
from benchmarks.evaluation.statistics import bootstrap, pass_hat, sign_test
from chargehand.contracts import Report, Source, SubtaskRecord
from chargehand_plugins.tape.contracts import Line, TapedAnswer, ToolAsked
from chargehand_plugins.testing import report_of


def test_the_sign_test_is_exact() -> None:
    """Known values of the binomial distribution, and the same whichever side is the better one."""
    assert (sign_test(0, 0), sign_test(1, 1), sign_test(5, 0), sign_test(8, 2)) == (1.0, 1.0, 0.0625, 0.109375)
    assert sign_test(0, 6) == sign_test(6, 0) == 2 / 64


@pytest.mark.parametrize("differences", [[0.5], [0.0, 0.0, 1.0], [-1.0, 0.25, 0.5, 0.5, -0.125]])
def test_the_interval_of_a_difference_lies_within_the_differences(differences: list[float]) -> None:
    """It is in order, reproducible, and never outside what was measured."""
    low, high = bootstrap(differences)

    assert min(differences) - 1e-9 <= low <= high <= max(differences) + 1e-9
    assert (low, high) == bootstrap(differences)


def test_pass_hat_is_the_chance_that_all_runs_pass() -> None:
    """Of three passes in four runs, two drawn runs both pass in three of six draws; too few runs do not count."""
    runs = [*[("a", True)] * 3, ("a", False), *[("b", True)] * 4, ("c", True)]

    assert pass_hat(runs, 2) == (0.5 + 1.0) / 2
    assert pass_hat(runs, 1) == (0.75 + 1.0 + 1.0) / 3


def test_an_answer_has_the_golden_words_and_no_wrong_ones() -> None:
    """Emphasis, case and kinds of space do not matter; a part of a longer number is another number."""
    cases = [
        ("It is **26 knots** since 14 April 2025 [S1].", 1.0),
        ("It is 26\u00a0Knots since 2025.", 0.5),
        ("It is 126 knots since 14 April 20250.", 0.0),
        ("It is 26 knots since 14 April 2025, not 30 knots.", 0.0),
    ]
    for answer, share in cases:
        case = Case(id="c", goal="Which wind?", answer=("26 knots", "14 April 2025 | 2025-04-14"), wrong=("30 knots",))
        assert answer_share(case, answer) == share


def test_a_citation_is_valid_if_a_tool_returned_its_words() -> None:
    """Neither an unknown number, nor a source that no tool returned, nor words that are not in it."""
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


def test_a_plan_agrees_with_the_gold_plan_in_subtasks_and_edges() -> None:
    """Subtasks are paired by what they ask for, whatever their ids; edges count between paired ones."""
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
    assert (scores.gaps_named, scores.passed) == (False, False)
    assert score(Case(id="c", goal="A goal", plan=gold), _with_gap(report), [], 1.0).passed


def _with_gap(report: Report) -> Report:
    return report.model_copy(update={"gaps": ("Not planned: Find the price of fuel.",)})


def evaluated(backend: str, *passed: bool, **more: float) -> Evaluated:
    """Make scores: of a case each."""
    scores: list[Mapping[str, object]] = [
        {"case": f"c{number}", "passed": each, "completed": True, **more} for number, each in enumerate(passed)
    ]
    return Evaluated(dataset="d", backend=backend, scores=tuple(Scores.model_validate(each) for each in scores))


def test_the_gate_knows_chance_from_regression() -> None:
    """One worse case is a regression where nothing is left to chance; on models it takes more than chance explains."""
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


def test_only_the_edition_that_is_named_is_read(tmp_path: Path) -> None:
    """Another file of questions is refused by its checksum."""
    file = tmp_path / "dev.json"
    file.write_text(json.dumps([]))

    with pytest.raises(WrongFile, match="the questions have b62a9797732c"):
        read_fanoutqa(file)


@pytest.mark.slow
async def test_the_oracle_answers_what_the_limits_hold_and_names_the_rest(client: Client, tmp_path: Path) -> None:
    """Within 20 turns a plan is executed as far as it fits, and the report names every subtask that did not; within 300
    all of them are executed. No plan is refused."""
    sample = read_datasets(["fanoutqa-sample"])["fanoutqa-sample"]
    dataset = sample.model_copy(update={"cases": (sample.cases[0], sample.cases[-1])})
    found = await evaluate(client, tmp_path, dataset, "oracle")
    largest = dataset.model_copy(update={"cases": dataset.cases[-1:]})
    deep = await evaluate(client, tmp_path, largest, "oracle", variant=Variant(profile="deep", shape="fan-out"))

    assert [(each.passed, each.plan_valid) for each in (*found, *deep)] == [(True, True)] * 3
    assert [each.executed for each in found] == [1.0, 0.75]
    assert [(each.executed, each.answer, each.forced) for each in deep] == [(1.0, 1.0, 0)]
