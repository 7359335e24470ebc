"""The same session run in different ways comes to the same: crashed, repeated, watched, told things twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.simulation import budget
from tests.simulation.strategies import limits, scenarios
from tests.simulation.traces import UNANSWERED, Deed, Event, outcome_of, simulate
from tests.simulation.world import Scenario

pytestmark = UNANSWERED

_MOMENTS = st.integers(1, 60)
_ANY = scenarios()
_ROOMY = scenarios(limited=limits(turns=(40, 60), dollars=("5",), seconds=(600,)))


def _deeds(*deeds: Deed) -> st.SearchStrategy[list[Event]]:
    return st.lists(st.builds(Event, _MOMENTS, st.sampled_from(deeds)), max_size=4)


@given(scenario=_ANY, moments=st.sets(_MOMENTS, min_size=1, max_size=5), told=_deeds("finish now", "cancel"))
@budget.settings_for(15)
def test_i12_a_session_ends_alike_with_and_without_crashes(
    scenario: Scenario, moments: set[int], told: list[Event]
) -> None:
    """I12: the same seed and the same script come to the same report with and without crashes."""
    calm = simulate(scenario, told)
    crashed = simulate(scenario, [*told, *(Event(moment, "crash") for moment in sorted(moments))])

    assert outcome_of(crashed) == outcome_of(calm)


@pytest.mark.nightly
@given(scenario=_ROOMY, repeated=_deeds("duplicate", "query"))
@budget.settings_for(15)
def test_i14_what_is_told_twice_changes_nothing(scenario: Scenario, repeated: list[Event]) -> None:
    """I14: messages that arrive twice, and late, change nothing, and neither does looking."""
    once = simulate(scenario)
    twice = simulate(scenario, repeated)

    assert outcome_of(twice) == outcome_of(once)
