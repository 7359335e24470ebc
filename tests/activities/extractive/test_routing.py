"""Proportionate plans: a request that one agent can answer gets one subtask, for the agent that can answer it."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from activities.documents.catalog import Catalog
from activities.models.extractive.planner import plan
from activities.turn_kinds.plan import PlanTask
from benchmarks.extractive_harness import Harness
from tests.scripted_model import ALLOWANCE


def _requests() -> Iterator[tuple[str, str, str]]:
    """List the requests of the routing set, each with its folder of documents and its agent."""
    for group in tomllib.loads(Path("benchmarks/routing.toml").read_text(encoding="utf-8"))["group"]:
        folder = Path(group.pop("folder", "")).name
        yield from ((folder, agent, goal) for agent, goals in group.items() for goal in goals)


def test_simple_requests_get_one_agent(harnesses: Mapping[Path, Harness], ferries: Harness) -> None:
    """At least 95 of the 100 requests of the routing set do; what no figure answers for sure is left to the reader."""
    catalogs = {folder.name: harness.catalog for folder, harness in harnesses.items()}
    chosen: list[tuple[list[str], str]] = []
    for folder, agent, goal in _requests():
        task = PlanTask(goal=goal, max_subtasks=8, allowance=ALLOWANCE, may_nest=False)
        made = plan(task, catalogs.get(folder, Catalog()), ferries.agents)
        chosen.append(([subtask.agent for subtask in made.subtasks], agent))

    assert len(chosen) == 100
    assert sum(len(agents) == 1 for agents, _ in chosen) >= 95
    assert sum(agents == [agent] for agents, agent in chosen) >= 85
