"""Proportionate plans: a request that one agent can answer gets one subtask, for the agent that can answer it."""

from collections.abc import Mapping
from pathlib import Path

from activities.documents.catalog import Catalog
from activities.models.extractive.planner import plan
from activities.turn_kinds.plan import PlanTask
from benchmarks.evaluation.dataset import read_datasets
from benchmarks.extractive_harness import Harness
from tests.scripted_model import ALLOWANCE


def test_simple_requests_get_one_agent(harnesses: Mapping[Path, Harness], ferries: Harness) -> None:
    """Of the routing set at least 95 of 100 do; what no figure answers for sure is left to the reader."""
    catalogs = {folder.name: harness.catalog for folder, harness in harnesses.items()}
    cases = read_datasets(["routing"])["routing"].cases
    chosen: list[tuple[str, ...]] = []
    for case in cases:
        task = PlanTask(goal=case.goal, max_subtasks=8, allowance=ALLOWANCE, may_nest=False)
        made = plan(task, catalogs.get(Path(case.documents or "").name, Catalog()), ferries.agents)
        chosen.append(tuple(subtask.agent for subtask in made.subtasks))

    routed = [agents == case.agents for agents, case in zip(chosen, cases, strict=True)]
    assert len(cases) > 100
    assert sum(len(agents) == 1 for agents in chosen) >= 0.95 * len(cases)
    assert sum(routed) >= 0.8 * len(cases)
