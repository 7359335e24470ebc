"""The plan as a graph: skipped subtasks, cycles and the critical path."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from graphlib import CycleError, TopologicalSorter
from typing import Final

from chargehand.contracts import Failure, Outcome, Plan, Subtask

USABLE: Final = frozenset({"success", "partial"})
"""Kinds of outcomes that other subtasks can use."""


def skip_reason(subtask: Subtask, outcomes: Mapping[str, Outcome]) -> Failure | None:
    """Return the failure of a subtask whose required inputs failed; None if it can run with gaps stated."""
    failed = [needed for needed in subtask.required if outcomes[needed].kind not in USABLE]
    if not failed:
        return None
    return Failure(reason="skipped", message=f"It requires {', '.join(failed)}, which failed.")


def cycle(dependencies: Mapping[str, Iterable[str]]) -> list[str]:
    """List the nodes of one cycle, in order; empty if there is none."""
    try:
        TopologicalSorter(dependencies).prepare()
    except CycleError as error:
        return list(dict.fromkeys(error.args[1]))
    return []


def critical_path(plan: Plan, durations: Mapping[str, timedelta]) -> timedelta:
    """Return the duration of the longest chain of dependent subtasks; one without a duration counts as zero."""
    longest: dict[str, timedelta] = {}
    dependencies = {subtask.id: subtask.depends_on for subtask in plan.subtasks}
    for node in TopologicalSorter(dependencies).static_order():
        before = max((longest[needed] for needed in dependencies.get(node, ())), default=timedelta(0))
        longest[node] = before + durations.get(node, timedelta(0))
    return max(longest.values(), default=timedelta(0))
