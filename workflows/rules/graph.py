"""The plan as a graph: ready subtasks, cycles and the critical path."""

from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from graphlib import CycleError, TopologicalSorter

from chargehand.contracts import Plan, Subtask


def ready(planned: Iterable[Subtask], started: Collection[str], ended: Collection[str]) -> list[Subtask]:
    """List the subtasks that have not started and whose inputs have all ended, in the plan's order."""
    return [
        subtask
        for subtask in planned
        if subtask.id not in started and all(needed in ended for needed in subtask.depends_on)
    ]


def cycle(dependencies: Mapping[str, Iterable[str]]) -> list[str]:
    """List the nodes of one cycle, in order; empty if there is none."""
    try:
        TopologicalSorter(dependencies).prepare()
    except CycleError as error:
        return list(dict.fromkeys(error.args[1]))
    return []


def critical_path(plan: Plan, durations: Mapping[str, timedelta]) -> timedelta:
    """Add up the longest chain of dependent subtasks; one without a duration took no time."""
    longest: dict[str, timedelta] = {}
    dependencies = {subtask.id: subtask.depends_on for subtask in plan.subtasks}
    for node in TopologicalSorter(dependencies).static_order():
        before = max((longest[needed] for needed in dependencies.get(node, ())), default=timedelta(0))
        longest[node] = before + durations.get(node, timedelta(0))
    return max(longest.values(), default=timedelta(0))
