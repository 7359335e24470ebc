"""Every plug-in that comes with Chargehand, as the only one that is installed."""

from collections.abc import Callable
from dataclasses import fields
from importlib.metadata import EntryPoint, entry_points

import pytest

from chargehand.contracts import SessionRequest
from chargehand.plugins import GROUP, Extension, installed
from chargehand_plugins.testing import Script, run_session, subtask

pytestmark = pytest.mark.slow

POINTS = sorted(entry_points(group=GROUP), key=lambda each: each.name)
SCRIPT = Script().plan(
    subtask("T1", "reader", "Find the price of A-17 in the list."),
    subtask("T2", "analyst", "Compare the price of A-17 with the others.", after=("T1",)),
)


@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.name)
async def test_each_plugin_works_without_the_others(point: EntryPoint, install: Callable[..., None]) -> None:
    """Everything it registers can be imported, and a session completes with it as the only plug-in."""
    install(**{point.name: point.value})
    added = installed()
    named = [each for one in fields(added) for each in _flat(getattr(added, one.name))]

    run = await run_session(SessionRequest(goal="What is known?"), SCRIPT)

    assert added.problems == []
    assert [each for each in named if each._resolve() is None] == []  # pyright: ignore[reportPrivateUsage]  # of any kind
    assert run.report.stop_reason == "completed"
    assert [record.state for record in run.report.subtasks] == ["success", "success"]


def _flat(value: object) -> list[Extension]:
    lists = value.values() if isinstance(value, dict) else [value]  # pyright: ignore[reportUnknownVariableType]  # of any list
    return [each for one in lists if isinstance(one, list) for each in one if isinstance(each, Extension)]  # pyright: ignore[reportUnknownVariableType]
