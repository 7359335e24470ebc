"""Sessions that are thrown away with their worker end there: no workflow that collects that garbage is disturbed.

What a coroutine does wrong while it is thrown away cannot be caught; pytest fails a test in which that happens.
"""

import ast
import gc
from collections.abc import Generator
from datetime import timedelta
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

import workflows
from tests.parameters import first_fast
from tests.scripted_model import Held, Script, answer, topics
from tests.waiting import until
from tests.workflows.conftest import OpenEnvironment
from tests.workflows.test_asking import GOAL, unsure
from worker import workers


@workflow.defn(name="Collector")
class Collector:
    """Collects garbage while it runs, as any workflow may."""

    @workflow.run
    async def run(self) -> str:
        """Give the memo of this workflow after the collection."""
        gc.collect()
        return ", ".join(workflow.memo())


@pytest.fixture
def garbage_stays() -> Generator[None]:
    """Leave garbage until it is collected on purpose, and have that look at nothing older: a task has two seconds."""
    gc.collect()
    gc.freeze()
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()


@pytest.mark.usefixtures("garbage_stays")
@pytest.mark.parametrize("waits_for", first_fast(["agents", "approval", "an answer"]))
async def test_what_a_stopped_worker_leaves_does_nothing_more(
    environment: OpenEnvironment, client: Client, monkeypatch: pytest.MonkeyPatch, waits_for: str
) -> None:
    """The workflow in which the garbage is collected keeps its own memo and ends as if nothing had been there."""
    monkeypatch.setattr(workers, "GRACE", timedelta(0))
    monkeypatch.setattr(workers, "Worker", partial(Worker, disable_safe_workflow_eviction=True))
    held = Held(answer("Known."))
    script = unsure("T1", "T2") if waits_for == "an answer" else Script().plan(*topics(2)).work("", held)
    async with environment(script) as opened:
        session = await opened.chargehand.start(
            GOAL.model_copy(update={"approval": "plan"}) if waits_for == "approval" else GOAL
        )

        async def waits() -> bool:
            status = await session.status()
            match waits_for:
                case "approval":
                    return status.state == "awaiting_approval"
                case "an answer":
                    return bool(status.questions)
                case _:
                    return held.reached.is_set()

        await until(waits)
    queue = f"collector-{uuid4().hex[:8]}"
    async with Worker(client, task_queue=queue, workflows=[Collector], workflow_runner=UnsandboxedWorkflowRunner()):
        assert not await client.execute_workflow("Collector", id=queue, task_queue=queue)


def test_workflows_use_no_finally() -> None:
    """`finally` runs for what is thrown away too; `on_exit` does not."""
    modules = sorted(Path(workflows.__file__).parent.rglob("*.py"))
    found = [
        f"{module.name}:{node.lineno}"
        for module in modules
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Try) and node.finalbody
    ]
    assert modules
    assert not found
