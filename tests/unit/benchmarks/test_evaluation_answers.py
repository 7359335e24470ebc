"""A whole golden answer always passes, and a wrong one never, in whatever form it is written."""

from collections.abc import Callable, Iterable
from typing import Any

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
    """Return the golden answers of this file and of the shipped dataset with pairs."""
    cases = [case for dataset in read_datasets(["fanoutqa-sample"]).values() for case in dataset.cases]
    return [*GOLDEN, *((case.goal, case.answer) for case in cases if case.answer is not None)]


@pytest.mark.slow
@pytest.mark.parametrize(("answers", "is_right"), [(right_answers, True), (wrong_answers, False)])
@pytest.mark.parametrize("seed", first_fast(range(3), 1, pytest.mark.nightly))
def test_only_the_golden_answer_passes_in_any_form(
    seed: int, answers: Callable[[Any, int], Iterable[tuple[str, str]]], *, is_right: bool
) -> None:
    """It passes with preambles, reordered, as list, table or sentence and in any number format; it fails with one
    change: a near figure, another name, a swap, one item less or more, a denial, a choice.
    """
    misjudged = [
        (name, said, verdict.reason)
        for question, golden in golden_answers()
        for name, said in answers(list[object](golden) if isinstance(golden, tuple) else golden, seed)
        if (verdict := check_answer(golden, said, question=question, whole=True)).right is not is_right
    ]

    assert misjudged == []


@pytest.mark.parametrize(
    ("golden", "said", "right"),
    [
        ("26 knots", "It is **26 Knots** since April [S1].", True),
        ("26 knots", "It is 126 knots.", False),
        ("26 knots", "It is 26 km/h.", False),
        ("26 knots", "It is 48.15 km/h.", True),
        ("26 knots", "It is 49.15 km/h.", False),
        ("3,474.8 km", "3474.8 kilometres", True),
        ("3,474.8 km", "3.474,8 km", True),
        ("3,474.8 km", "3,474.9 km", False),
        ("3,474.8 km", "3,474.8 miles", False),
        ("14 April 2025", "On April 14th, 2025.", True),
        ("14 April 2025", "On 2025-04-14.", True),
        ("14 April 2025", "On 14.4.2025.", True),
        ("14 April 2025", "On 15 April 2025.", False),
        ("14 April 2025", "Depuis le 14 avril 2025.", True),
        ("1 August 2025", "Le 1 août 2025, à 26 nœuds.", True),
        ("26 knots", "La limite est de 26 nœuds.", True),
        (1995, "I first thought 1,995, but it is 1,959.", False),
        ("1980", "They won on October 21, 1980.", True),
        (8008278, "8.01 million", True),
        (8008278, "8.02 million", False),
        (8008278, "8 million", False),
        (8008278, "8.008.278 Einwohner", True),
        (3, "Three of them.", True),
        (3, "Based on 3 sources, it is 4.", False),
        (3, "3 or 4", False),
        (3, "3-5", False),
        (3, "More than 3.", False),
        ("7.4 %", "7.4 per cent", True),
        ("$87 billion", "US$87bn", True),
        ("$87 billion", "87,000,000,000 dollars", True),
        ("$87 billion", "€87 billion", False),
        ("1,995 min ± 5", "1,998 minutes", True),
        ("1,995 min ± 5", "2,001 minutes", False),
        ("1,995 min ± 1 %", "33.5 hours", True),
        ("500 hours | 500 running hours", "Every 500 running hours or every twelve months.", True),
        (False, "No. It was rejected.", True),
        (False, "Yes, with no votes against.", False),
        ("Venus", "Venus is not the one.", False),
    ],
)
def test_figures_units_and_dates_are_compared_by_value(golden: GoldenAnswer, said: str, *, right: bool) -> None:
    assert check_answer(golden, said).right is right


def test_repeating_a_negation_of_the_question_is_not_a_denial() -> None:
    """For "Which have no moons?", "These have none" is an answer."""
    question = "Which planets have no moons, and which is not a rock?"

    assert check_answer("Venus", "Venus is not a rock.", question=question).right
    assert not check_answer("Venus", "Venus is not a gas giant.", question=question).right


def test_each_value_in_an_answer_is_matched_to_its_key() -> None:
    """A value may precede or follow its key, share its order, or take its unit from a table header."""
    golden: GoldenAnswer = {"Arden": "Left", "Belm": "Right", "Corin": "Left"}
    right = ["Left: Arden, Corin\nRight: Belm", "Arden, Belm and Corin bat left, right and left, respectively."]
    wrong = ["Left: Arden, Belm\nRight: Corin", "Arden, Belm and Corin bat right, left and left, respectively."]
    table = "| City | Area (km2) |\n|---|---|\n| Arden | 75.35 |"

    assert [check_answer(golden, said).right for said in (*right, *wrong)] == [True, True, False, False]
    assert check_answer({"Arden": "75.35 km2"}, table).right
    assert not check_answer({"Arden": "75.35 km2"}, "| City | Area |\n|---|---|\n| Arden | 75.35 |").right


def test_code_gives_a_final_verdict_only_when_it_is_certain() -> None:
    """It is sure of empty answers, forbidden words and exact figures near the golden one; a judge decides others."""
    cases = {"": True, "It is 1,996.": True, "It is roughly two thousand.": False, "It is 1,995 at fault of Kim.": True}

    assert {said: check_answer(1995, said, wrong=("Kim",)).is_sure for said in cases} == cases
