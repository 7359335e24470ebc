"""A whole golden answer always passes, and a wrong one never, in whatever form it is written."""

import pytest

from benchmarks.evaluation.answers.verdict import GoldenAnswer, check_answer
from benchmarks.evaluation.dataset import read_datasets
from benchmarks.evaluation.variants import right_answers, wrong_answers
from tests.parameters import first_fast

GOLDEN: list[tuple[str, GoldenAnswer]] = [
    ("Which vessel lost the most minutes?", "Turnstone"),
    ("How many sailings were cancelled?", 41),
    ("How many people live there?", 8008278),
    ("What is the average length in metres?", 49.667),
    ("What is the area?", "75.35 square kilometers"),
    ("What does it cost?", "$219.576 billion"),
    ("When was it opened?", "28 July 1950"),
    ("Which shape is not a solid?", "Pentagonal trapezohedron"),
    ("Where is it, in a city or in the country?", "St. Louis, Missouri, U.S."),
    ("Which languages are official?", ("English", "French", "German", "Italian")),
    ("How many children do the five have?", ("1", "2", "0", "2", "0")),
    ("Where were they born?", {"M. Elizabeth Vane": "Oslo", "J. D. Rao": "Pune, India", "Lena Fuchs": "Graz"}),
    ("Who is president of each?", {"Vane College": "John Okoro and Lena Fuchs", "Rao": "Ann Oh", "Rao City": "Li Wu"}),
    ("What were the records?", {"Rangers": "90-72", "Astros": "106-56", "Braves": "88-73"}),
    ("How many people live in each, as of 2000?", {"Arden": 169799170, "Belm": 82259540, "Corin": 56942000}),
    ("What was the budget?", {"The Abyss": "$43–47 million", "Abyss 2": "$102 million", "Lumen": "$6.4 million"}),
    ("Are they alive?", {"Ann Oh": True, "Li Wu": False, "John Okoro": True}),
    ("Which hand?", {"Pat Burrell": "Right", "Mark Mulder": "Left", "Corey Patterson": "Left", "Jeff Austin": "Right"}),
]


def golden_answers() -> list[tuple[str, GoldenAnswer]]:
    """Those of this file, and those of the shipped datasets that have pairs."""
    cases = [case for dataset in read_datasets(["fanoutqa-sample"]).values() for case in dataset.cases]
    return [*GOLDEN, *((case.goal, case.answer) for case in cases if case.answer is not None)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", first_fast(range(3), 1, pytest.mark.nightly))
def test_a_whole_golden_answer_passes(seed: int) -> None:
    """Behind preambles, in other orders, lists, tables, sentences and formats of numbers."""
    refused = [
        (name, said, verdict.reason)
        for question, golden in golden_answers()
        for name, said in right_answers(list[object](golden) if isinstance(golden, tuple) else golden, seed)
        if not (verdict := check_answer(golden, said, question=question, whole=True)).right
    ]

    assert refused == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", first_fast(range(3), 1, pytest.mark.nightly))
def test_a_wrong_answer_does_not_pass(seed: int) -> None:
    """With one thing changed: a near figure, another name, two swapped, one less or more, a denial, a choice."""
    passed = [
        (name, said)
        for question, golden in golden_answers()
        for name, said in wrong_answers(list[object](golden) if isinstance(golden, tuple) else golden, seed)
        if check_answer(golden, said, question=question, whole=True).right
    ]

    assert passed == []


def test_each_value_belongs_to_its_key() -> None:
    """Before it, behind it, in their order, or by a unit in the head of a table; never that of another key."""
    golden: GoldenAnswer = {"Arden": "Left", "Belm": "Right", "Corin": "Left"}
    right = ["Left: Arden, Corin\nRight: Belm", "Arden, Belm and Corin bat left, right and left, respectively."]
    wrong = ["Left: Arden, Belm\nRight: Corin", "Arden, Belm and Corin bat right, left and left, respectively."]
    table = "| City | Area (km2) |\n|---|---|\n| Arden | 75.35 |"

    assert [check_answer(golden, said).right for said in (*right, *wrong)] == [True, True, False, False]
    assert check_answer({"Arden": "75.35 km2"}, table).right
    assert not check_answer({"Arden": "75.35 km2"}, "| City | Area |\n|---|---|\n| Arden | 75.35 |").right
