"""Where subtasks disagree: found by code in figures, dates and names, and only where the rest is the same."""

import cProfile
import pstats

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activities.contracts.rounds import InputOutcome
from activities.turn_kinds.protocol import ContradictionDraft
from chargehand.contracts import Failure, Finding, Success
from chargehand_plugins.claim_checks.disagreements import disagreements

_PLACES = st.sampled_from(["Bremen", "Hamburg", "Kiel", "Rostock"])
_LENGTHS = st.integers(min_value=1, max_value=99)
_YEARS = st.integers(min_value=2024, max_value=2026)


# fmt: off
DISAGREE = {
    "figure": ("The tower is 3 m high.", "The tower is 4 m high."),
    "another wording": ("The tower is 3 metres high.", "The old tower is 4 metres high."),
    "number words": ("The notice period is three months.", "The notice period is six months."),
    "year": ("Nordwerk was founded in 1987.", "Nordwerk was founded in 1990 by two brothers."),
    "month": ("The lease of Nordwerk ends in March.", "The lease of Nordwerk ends in April."),
    "day": ("The lease of Nordwerk ends on 2024-03-05.", "The lease of Nordwerk ends on 2024-03-07."),
    "name": ("The head of Nordwerk is Anna Weber.", "The head of Nordwerk is Jan Peters."),
    "German": ("Der Turm in Bremen ist 3 Meter hoch.", "Der Turm in Bremen ist 4 Meter hoch."),
    "French": ("La tour de Brest mesure 3 mètres.", "La tour de Brest mesure 4 mètres."),
}
BOTH_RIGHT = {
    "other place": ("Paris has a river that is 3 m deep.", "London has a river that is 4 m deep."),
    "other subject": ("Berlin is a city in Germany.", "Munich is a city in Germany."),
    "two names": ("The mayor of Skerry is Ida Lund.", "The mayor of Holm is Per Dahl."),
    "number in a name": ("Chapter 3 describes the old tower.", "Chapter 4 describes the old tower."),
    "one says more": ("The tower is 3 m high and 10 m wide.", "The tower is 10 m wide."),
    "rounded": ("The port has 1,195 thousand visitors.", "The port has about 1.2 million visitors."),
    "other unit": ("The tower is 3 metres high.", "The tower is 300 cm high."),
    "other definition": ("Net revenue was 5 million euros.", "Gross revenue was 6 million euros."),
    "denied": ("The tower is 3 metres high.", "The tower is not 4 metres high."),
    "alike in how often": (
        "Amendment 1 replaces clause 2.2: prices change once a year by an index, at most 4 per cent.",
        "Indexed prices are acceptable once a year with a cap of 5 per cent.",
    ),
}
# fmt: on


def is_disagreement(one: str, other: str) -> bool:
    return bool(disagreements([_outcome("T1", one), _outcome("T2", other)]))


@pytest.mark.parametrize("pair", DISAGREE | BOTH_RIGHT)
def test_one_difference_about_the_same_thing_is_a_disagreement(pair: str) -> None:
    """The order of the two does not matter; other places, subjects, definitions or units do not conflict."""
    one, other = (DISAGREE | BOTH_RIGHT)[pair]

    assert [is_disagreement(one, other), is_disagreement(other, one)] == [pair in DISAGREE] * 2


@given(place=_PLACES, years=st.tuples(_YEARS, _YEARS), one=_LENGTHS, other=_LENGTHS)
def test_statements_that_differ_only_in_figure_or_only_in_year_disagree(
    place: str, years: tuple[int, int], one: int, other: int
) -> None:
    """Statements that differ in both do not disagree."""
    said = [
        f"In {year} the bridge of {place} was {n} metres long." for year, n in zip(years, (one, other), strict=True)
    ]

    assert is_disagreement(*said) == ((one != other) != (years[0] != years[1]))


@settings(max_examples=settings().max_examples // 4)
@given(st.text(max_size=60), st.text(max_size=60))
def test_no_text_disagrees_with_itself_and_order_does_not_matter(one: str, other: str) -> None:
    """This is true of any two texts."""
    assert not is_disagreement(one, one)
    assert is_disagreement(one, other) == is_disagreement(other, one)


def _outcome(id_: str, *claims: str, content: str = "") -> InputOutcome:
    findings = tuple(Finding(claim=claim, confidence=80) for claim in claims)
    outcome = Success(content=content, findings=findings, confidence=80)
    return InputOutcome(id=id_, agent="reader", instruction="Measure it.", outcome=outcome)


def test_each_position_in_a_disagreement_names_its_subtask() -> None:
    """All positions on one subject are one entry; an answer without findings counts by its sentences."""
    claims = [f"The tower is {length} metres high." for length in (3, 4, 5)]
    outcomes = [_outcome("T1", claims[0]), _outcome("T2", claims[1]), _outcome("T3", content=f"Measured. {claims[2]}")]

    [found] = disagreements(outcomes)
    positions = [f"T{number}: {claim}" for number, claim in enumerate(claims, start=1)]
    assert found == ContradictionDraft(about="The tower is … metres high.", positions=positions, resolution="")


def test_a_subtask_does_not_disagree_with_itself_or_a_failed_one() -> None:
    """Only findings of different subtasks are compared."""
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
def test_repetitive_texts_do_not_block_the_workflow_task(sentence: str) -> None:
    """The largest comparison makes fewer than 3 million function calls; even a busy machine makes some in a second."""
    texts = [" ".join(sentence.format(n=n + 10, m=7 * n + agent) for n in range(40)) for agent in range(5)]
    outcomes = [_outcome(f"T{number}", content=text) for number, text in enumerate(texts)]
    with cProfile.Profile() as profile:
        found = disagreements(outcomes)
    stats = pstats.Stats(profile).get_stats_profile().func_profiles.values()
    calls = sum(int(each.ncalls.partition("/")[0]) for each in stats)

    assert found
    assert calls < 3_000_000
