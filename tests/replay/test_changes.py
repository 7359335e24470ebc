"""Each way to change a workflow in docs/how-to/changing-a-workflow.md, on a history from before the change."""

from uuid import uuid4

import pytest
from temporalio.client import Client, WorkflowHistory
from temporalio.worker import Replayer, Worker
from temporalio.workflow import NondeterminismError

from tests.replay.changes import TYPE, AsReleased, NewRulesOnly, NewType, Patched, Unguarded

pytestmark = pytest.mark.slow  # it is about Temporal's SDK, which seldom changes


async def _history_of(client: Client, ran: type, expected: str) -> WorkflowHistory:
    queue = f"changing-{uuid4().hex[:8]}"
    async with Worker(client, task_queue=queue, workflows=[ran], build_id="example"):
        handle = await client.start_workflow(TYPE, id=queue, task_queue=queue, result_type=str)
        assert await handle.result() == expected
        return await handle.fetch_history()


@pytest.fixture(scope="module")
async def released(client: Client) -> WorkflowHistory:
    """A run of the workflow as it was released."""
    return await _history_of(client, AsReleased, "one")


async def _replay(history: WorkflowHistory, *workflows: type) -> None:
    await Replayer(workflows=workflows).replay_workflow(history)


async def test_an_unguarded_change_is_caught(released: WorkflowHistory) -> None:
    """A step that old runs never took fails their replay."""
    with pytest.raises(NondeterminismError):
        await _replay(released, Unguarded)


async def test_a_patched_change_replays_what_began_before(released: WorkflowHistory) -> None:
    """Behind `workflow.patched` a run of before the change goes on by the old rules."""
    await _replay(released, Patched)


async def test_a_run_that_began_patched_takes_the_new_step(client: Client) -> None:
    """A run of after the change takes the new step, also when it is replayed."""
    history = await _history_of(client, Patched, "two")

    await _replay(history, Patched)


async def test_the_old_rules_may_go_once_no_run_needs_them(client: Client, released: WorkflowHistory) -> None:
    """With the old rules deleted runs that began patched replay, and older ones are caught."""
    patched = await _history_of(client, Patched, "two")

    await _replay(patched, NewRulesOnly)
    with pytest.raises(NondeterminismError):
        await _replay(released, NewRulesOnly)


async def test_a_new_type_leaves_what_began_before_alone(released: WorkflowHistory) -> None:
    """A new type beside the old one touches no run of the old; without the old one such runs cannot go on."""
    await _replay(released, AsReleased, NewType)
    with pytest.raises(RuntimeError, match="not registered"):
        await _replay(released, NewType)
