"""Whole sessions with things done to them at chosen events: what is compared between one way of running and another."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

import pytest
from pydantic import JsonValue

from chargehand.contracts import Report
from tests.simulation.invariants import Invariants, report_of
from tests.simulation.world import ROOT, Scenario, World, relative

UNANSWERED: Final = pytest.mark.filterwarnings(r"ignore:\[TMPRL1102\]")
"""A session that is cancelled answers none of the updates that are under way; the SDK warns of that."""

Deed = Literal["crash", "duplicate", "query", "finish now", "cancel"]

_TIMES: Final = ("timing", "started_at", "ended_at")


@dataclass(frozen=True)
class Event:
    """Something that is done once so many events have happened."""

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
    """Say how a session ended, without times."""
    report = report_of(world)
    if report is not None:
        return without_times(report)
    return world.root.status, world.root.failure.message if world.root.failure else ""


def without_times(report: Report) -> dict[str, JsonValue]:
    """Take out of a report what depends on the clock, and the run of the session."""
    told: dict[str, JsonValue] = report.model_dump(mode="json", exclude={"crew"})
    told["limits"] = [use.model_dump() for use in report.limits if "deadline" not in use.limit]
    return {name: _without(value) for name, value in told.items() if name not in _TIMES}


def _without(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {name: _without(inner) for name, inner in value.items() if name not in _TIMES}
    if isinstance(value, list):
        return [_without(inner) for inner in value]
    return relative(value) if isinstance(value, str) and value.startswith(f"{ROOT}/") else value
