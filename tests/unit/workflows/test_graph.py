"""The plan as a graph, against simple models that try everything."""

from collections.abc import Mapping
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from chargehand.contracts import Plan, Subtask
from workflows.rules.graph import critical_path, cycle, ready


@st.composite
def _acyclic(draw: st.DrawFn) -> Plan:
    """A plan whose subtasks need only earlier ones, written down in any order."""
    count = draw(st.integers(min_value=1, max_value=8))
    subtasks = [
        Subtask(
            id=f"T{number}",
            agent="reader",
            instruction=f"Find fact number {number}",
            depends_on=tuple(f"T{earlier}" for earlier in draw(st.sets(st.integers(1, number - 1))))
            if number > 1
            else (),
        )
        for number in range(1, count + 1)
    ]
    return Plan(subtasks=tuple(draw(st.permutations(subtasks))))


@st.composite
def _graphs(draw: st.DrawFn) -> dict[str, list[str]]:
    nodes = [f"T{number}" for number in range(1, draw(st.integers(1, 6)) + 1)]
    return {node: draw(st.lists(st.sampled_from(nodes), max_size=3)) for node in nodes}


@given(plan=_acyclic(), data=st.data())
def test_ready_is_what_waits_for_nothing(plan: Plan, data: st.DataObject) -> None:
    """A subtask is ready when it has not started and none of its inputs is outstanding, in the plan's order."""
    ids = [subtask.id for subtask in plan.subtasks]
    started = data.draw(st.sets(st.sampled_from(ids)))
    ended = data.draw(st.sets(st.sampled_from(sorted(started)))) if started else set[str]()

    found = [subtask.id for subtask in ready(plan.subtasks, started, ended)]

    outstanding = {subtask.id: set(subtask.depends_on) - ended for subtask in plan.subtasks}
    assert found == [id_ for id_ in ids if id_ not in started and not outstanding[id_]]


@given(graph=_graphs())
def test_a_cycle_is_found_when_there_is_one(graph: Mapping[str, list[str]]) -> None:
    """What is named is a real round trip, and where nothing is named no walk comes back to its start."""
    found = cycle(graph)

    if found:
        assert len(set(found)) == len(found)
        assert all(node in graph[after] for node, after in zip(found, [*found[1:], found[0]], strict=True))
    else:
        assert not any(node in _reachable(graph, node) for node in graph)


def _reachable(graph: Mapping[str, list[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += graph[node]
    return found


@given(plan=_acyclic(), data=st.data())
def test_the_critical_path_is_the_longest_chain(plan: Plan, data: st.DataObject) -> None:
    """It equals the longest of all chains, tried one by one; a subtask without a duration counts nothing."""
    ids = [subtask.id for subtask in plan.subtasks]
    durations = data.draw(
        st.dictionaries(st.sampled_from(ids), st.integers(0, 100).map(lambda s: timedelta(seconds=s)))
    )

    found = critical_path(plan, durations)

    needs = {subtask.id: subtask.depends_on for subtask in plan.subtasks}

    def longest(node: str) -> timedelta:
        return durations.get(node, timedelta(0)) + max(map(longest, needs[node]), default=timedelta(0))

    assert found == max(map(longest, ids))
