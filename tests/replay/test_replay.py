"""Recorded histories of every shape of session replay on the current code."""

from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer
from temporalio.workflow import NondeterminismError

from chargehand.converter import data_converter
from tests.replay.record import CURRENT, RECORDED, histories_in
from tests.replay.shapes import shapes
from workflows.registry import WORKFLOWS, AroundWorkflows, RefuseBadInput, added_workflows, workflow_runner


def _replayer() -> Replayer:
    return Replayer(
        workflows=[*WORKFLOWS, *added_workflows()],
        workflow_runner=workflow_runner(),
        debug_mode=True,  # the sandbox stays; the limit of two seconds for each task goes, which a busy machine exceeds
        interceptors=[AroundWorkflows(RefuseBadInput)],
        data_converter=data_converter(),
    )


@pytest.mark.parametrize("file", RECORDED.values(), ids=RECORDED)
async def test_a_recorded_session_replays(file: Path) -> None:
    for history in histories_in(file):
        await _replayer().replay_workflow(history)


async def test_replay_detects_a_history_that_current_code_cannot_produce() -> None:
    history = histories_in(CURRENT / "five-in-parallel.json.gz")[0]
    events = [event for event in history.events if event.event_id < 11]
    for event in events:
        if event.HasField("activity_task_scheduled_event_attributes"):
            event.activity_task_scheduled_event_attributes.activity_type.name = "something_else"

    with pytest.raises(NondeterminismError):
        await _replayer().replay_workflow(WorkflowHistory(history.workflow_id, events))


def test_every_session_shape_has_a_recorded_history() -> None:
    """The current version has a recorded history for each shape, and no others: see `tests.replay.record`."""
    assert {file.name.removesuffix(".json.gz") for file in CURRENT.glob("*")} == set(shapes())
