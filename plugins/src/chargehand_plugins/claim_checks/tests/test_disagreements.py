"""Where subtasks disagree: found by code in figures, dates and names, and only where the rest is the same."""

import cProfile
import pstats

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from activities.contracts.drafts import ContradictionDraft
from activities.contracts.rounds import InputOutcome
from chargehand.contracts import Failure, Finding, Success
from chargehand_plugins.claim_checks.disagreements import disagreements, is_disagreement

_PLACES = st.sampled_from(["Bremen", "Hamburg", "Kiel", "Rostock"])
_LENGTHS = st.integers(min_value=1, max_value=99)
_YEARS = st.integers(min_value=1900, max_value=2026)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("The tower is 3 m high.", "The tower is 4 m high.", id="figure"),
        pytest.param("The tower is 3 metres high.", "The old tower is 4 metres high.", id="another wording"),
        pytest.param("The notice period is three months.", "The notice period is six months.", id="number words"),
        pytest.param("Nordwerk was founded in 1987.", "Nordwerk was founded in 1990 by two brothers.", id="year"),
        pytest.param("The lease of Nordwerk ends in March.", "The lease of Nordwerk ends in April.", id="month"),
        pytest.param(
            "The lease of Nordwerk ends on 2024-03-05.", "The lease of Nordwerk ends on 2024-03-07.", id="day"
        ),
        pytest.param("The head of Nordwerk is Anna Weber.", "The head of Nordwerk is Jan Peters.", id="name"),
        pytest.param("Der Turm in Bremen ist 3 Meter hoch.", "Der Turm in Bremen ist 4 Meter hoch.", id="German"),
        pytest.param("La tour de Brest mesure 3 mètres.", "La tour de Brest mesure 4 mètres.", id="French"),
    ],
)
def test_one_difference_about_the_same_thing_is_a_disagreement(one: str, other: str) -> None:
    """In whatever order the two are read."""
    assert is_disagreement(one, other)
    assert is_disagreement(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("Paris has a river that is 3 m deep.", "London has a river that is 4 m deep.", id="other place"),
        pytest.param("Berlin is a city in Germany.", "Munich is a city in Germany.", id="other subject"),
        pytest.param("Chapter 3 describes the old tower.", "Chapter 4 describes the old tower.", id="number in a name"),
        pytest.param("The tower is 3 m high and 10 m wide.", "The tower is 10 m wide.", id="one says more"),
        pytest.param("The port has 1,195 thousand visitors.", "The port has about 1.2 million visitors.", id="rounded"),
        pytest.param("The tower is 3 metres high.", "The tower is 300 cm high.", id="other unit"),
        pytest.param("Net revenue was 5 million euros.", "Gross revenue was 6 million euros.", id="other definition"),
        pytest.param("The tower is 3 metres high.", "The tower is not 4 metres high.", id="denied"),
    ],
)
def test_what_can_both_be_right_is_none(one: str, other: str) -> None:
    """Other places, years, definitions and units have other figures."""
    assert not is_disagreement(one, other)


@given(place=_PLACES, year=_YEARS, one=_LENGTHS, other=_LENGTHS)
def test_figures_disagree_exactly_if_they_differ(place: str, year: int, one: int, other: int) -> None:
    """For the same place and year."""
    said = [f"In {year} the bridge of {place} was {length} metres long." for length in (one, other)]

    assert is_disagreement(*said) == (one != other)


@given(place=_PLACES, years=st.tuples(_YEARS, _YEARS), one=_LENGTHS, other=_LENGTHS)
def test_figures_of_other_years_do_not_disagree(place: str, years: tuple[int, int], one: int, other: int) -> None:
    """Whatever they are."""
    assume(years[0] != years[1] and one != other)
    said = [
        f"In {year} the bridge of {place} was {n} metres long." for year, n in zip(years, (one, other), strict=True)
    ]

    assert not is_disagreement(*said)


@given(st.text(max_size=60), st.text(max_size=60))
def test_no_text_disagrees_with_itself_and_order_does_not_matter(one: str, other: str) -> None:
    """Of any two texts."""
    assert not is_disagreement(one, one)
    assert is_disagreement(one, other) == is_disagreement(other, one)


def _outcome(id_: str, *claims: str, content: str = "") -> InputOutcome:
    findings = tuple(Finding(claim=claim, confidence=80) for claim in claims)
    outcome = Success(content=content, findings=findings, confidence=80)
    return InputOutcome(id=id_, agent="reader", instruction="Measure it.", outcome=outcome)


def test_positions_name_their_subtasks() -> None:
    """All that differ about one thing are one entry; an answer without findings counts by its sentences."""
    claims = [f"The tower is {length} metres high." for length in (3, 4, 5)]
    outcomes = [_outcome("T1", claims[0]), _outcome("T2", claims[1]), _outcome("T3", content=f"Measured. {claims[2]}")]

    assert disagreements(outcomes) == [
        ContradictionDraft(
            about="The tower is … metres high.",
            positions=[f"{id_}: {claim}" for id_, claim in zip(("T1", "T2", "T3"), claims, strict=True)],
            resolution="",
        )
    ]


def test_one_subtask_does_not_disagree_with_itself_or_with_a_lost_one() -> None:
    """Only what different subtasks have found is compared."""
    own = _outcome("T1", "The tower is 3 metres high.", "The tower is 4 metres high.")
    lost = own.model_copy(
        update={"id": "T2", "outcome": Failure(reason="no_answer", content="The tower is 5 metres high.", confidence=0)}
    )

    assert disagreements([own, lost]) == []


@pytest.mark.parametrize(
    "sentence",
    [
        "The harbour ferry of the company cost {n} euros, {m} percent and {m} hours on the long route.",
        "The harbour ferry of the company {n} cost {m}000 euros and {m} percent in 20{n} on the long route.",
    ],
)
def test_texts_that_repeat_themselves_do_not_hold_the_workflow(sentence: str) -> None:
    """The most statements that are compared, all much alike, take far less work than a workflow task has time for,
    counted in calls of functions, of which even a busy machine makes some millions a second."""
    texts = [" ".join(sentence.format(n=n + 10, m=7 * n + agent) for n in range(40)) for agent in range(5)]
    outcomes = [_outcome(f"T{number}", content=text) for number, text in enumerate(texts)]
    with cProfile.Profile() as profile:
        found = disagreements(outcomes)
    calls = sum(
        int(each.ncalls.partition("/")[0]) for each in pstats.Stats(profile).get_stats_profile().func_profiles.values()
    )

    assert found
    assert calls < 3_000_000
