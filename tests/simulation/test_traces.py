"""Different runs of the same session end the same: crashed, repeated, observed, or with repeated messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Final, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from chargehand.contracts import Limits, Report, SessionRequest
from tests.simulation import budget
from tests.simulation.invariants import Invariants, report_of
from tests.simulation.script import Planned, Script
from tests.simulation.strategies import GOAL, limits, scenarios
from tests.simulation.world import ROOT, UNANSWERED, Scenario, World, relative

pytestmark = UNANSWERED

Deed = Literal["crash", "duplicate", "query", "finish now", "cancel"]

_TIMES: Final = ("timing", "started_at", "ended_at")
_MOMENTS = st.integers(1, 60)
_ANY = scenarios()
_ROOMY = scenarios(limited=limits(turns=(40, 60), dollars=("5",), seconds=(600,)))


@dataclass(frozen=True)
class Event:
    after: int
    deed: Deed


def simulate(scenario: Scenario, deeds: Sequence[Event] = ()) -> World:
    """Run a session to its end, and judge it."""
    world = World(scenario)
    laws = Invariants(scenario.request.limits)
    world.watch = laws
    world.open()
    try:
        while world.server.step():
            for event in deeds:
                if event.after == world.server.events:
                    _do(event, world, laws)
        laws.at_the_end(world)
        for execution in world.server.recorded:
            execution.replay()
    finally:
        world.server.close()
    return world


def _do(event: Event, world: World, laws: Invariants) -> None:
    server = world.server
    match event.deed:
        case "crash":
            laws.i21_a_crash_changes_no_books(world, timedelta(0))
        case "duplicate":
            for sent in server.sent_signals[-2:]:
                server.signal(*sent)
        case "query":
            if world.root.is_open and world.root.history:
                server.query(ROOT, "status")
        case "finish now":
            server.update(ROOT, f"update {event.after}", "finish_now", [])
        case "cancel":
            server.cancel(ROOT)


def outcome_of(world: World) -> object:
    report = report_of(world)
    if report is not None:
        return without_times(report)
    return world.root.status, world.root.failure.message if world.root.failure else ""


def without_times(report: Report) -> dict[str, JsonValue]:
    """Remove from a report what depends on the clock, and the session's run."""
    told: dict[str, JsonValue] = report.model_dump(mode="json", exclude={"crew"})
    told["limits"] = [use.model_dump() for use in report.limits if "deadline" not in use.limit]
    return {name: _without(value) for name, value in told.items() if name not in _TIMES}


def _without(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {name: _without(inner) for name, inner in value.items() if name not in _TIMES}
    if isinstance(value, list):
        return [_without(inner) for inner in value]
    return relative(value) if isinstance(value, str) and value.startswith(f"{ROOT}/") else value


def _deeds(*deeds: Deed) -> st.SearchStrategy[list[Event]]:
    return st.lists(st.builds(Event, _MOMENTS, st.sampled_from(deeds)), max_size=4)


@given(scenario=_ANY, moments=st.sets(_MOMENTS, min_size=1, max_size=5), told=_deeds("finish now", "cancel"))
@budget.settings_for(15)
def test_i12_worker_crashes_do_not_change_the_report(scenario: Scenario, moments: set[int], told: list[Event]) -> None:
    calm = simulate(scenario, told)
    crashed = simulate(scenario, [*told, *(Event(moment, "crash") for moment in sorted(moments))])

    assert outcome_of(crashed) == outcome_of(calm)


@pytest.mark.nightly
@given(scenario=_ROOMY, repeated=_deeds("duplicate", "query"))
@budget.settings_for(15)
def test_i14_duplicate_messages_and_queries_change_nothing(scenario: Scenario, repeated: list[Event]) -> None:
    """I14: duplicates may also arrive late."""
    once = simulate(scenario)
    twice = simulate(scenario, repeated)

    assert outcome_of(twice) == outcome_of(once)


@pytest.mark.parametrize("seed", range(10, 18))
def test_lost_calls_charged_at_their_maximum_stay_within_the_budget(seed: int) -> None:
    """I01: their charges leave room for nothing more, although the repeated calls cost nothing."""
    tight = Limits(budget_usd=Decimal("0.5" if seed % 2 else "0.3"), max_parallel=1, max_attempts=1)
    simulate(
        Scenario(
            SessionRequest(goal=GOAL, limits=tight, criteria=("It names a date.",)),
            Script(plans=((Planned(), Planned(topic=1)),)),
            fates=("attempt lost", "answers"),
            costs=(100, 0),
            seed=seed,
        )
    )


@pytest.mark.parametrize("parallel", [2, 3])
@pytest.mark.parametrize("below", [(), (Planned("supervisor"),)])
def test_nested_sessions_without_turns_or_with_a_duplicate_task_fail_alone(
    below: tuple[Planned, ...], parallel: int
) -> None:
    """I15: more of them than turns allow, in parallel and in sequence; each splits what is too big for an agent."""
    plans = ((Planned("supervisor"), Planned("supervisor", 1), Planned("reader", 1)), below)
    limits = Limits(max_depth=2, max_parallel=parallel)
    simulate(
        Scenario(SessionRequest(goal=GOAL, limits=limits), Script(tuple(filter(None, plans)), ("too_big",)), seed=16)
    )
