"""What remains of workflows that a worker evicts, gives up or ends: nothing that acts, and nothing in memory."""

import gc
import logging
import threading
from collections.abc import Generator
from datetime import timedelta
from functools import partial
from uuid import uuid4

import pytest
from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker
from temporalio.workflow import Info

from activities.heartbeat import Pulse
from chargehand.contracts import SessionState
from chargehand.errors import ChargehandError
from tests.parameters import first_fast
from tests.scripted_model import Held, Script, answer, report, topics
from tests.waiting import until
from tests.workflows.conftest import OpenEnvironment, RunSession
from tests.workflows.test_main_path import GOAL as PLANNED
from tests.workflows.test_stopping import UNSURE, unsure
from worker import workers
from workflows import registry
from workflows.state.progress import Progress
from workflows.state.session import Session
from workflows.subtask import SubtaskWorkflow
from workflows.supervisor import SupervisorWorkflow


@workflow.defn(name="Collector")
class Collector:
    """Collects garbage while it runs, as any workflow may."""

    @workflow.run
    async def run(self) -> str:
        """Return the keys of this workflow's memo after the collection."""
        gc.collect()
        return ", ".join(workflow.memo())


@pytest.fixture
def garbage_stays() -> Generator[None]:
    """Disable automatic garbage collection, and exempt older objects from explicit ones: a task has two seconds."""
    gc.collect()
    gc.freeze()
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()


@pytest.mark.usefixtures("garbage_stays")
@pytest.mark.parametrize("waits_for", first_fast(["executing", "awaiting_approval", "awaiting_answer"]))
async def test_garbage_of_a_stopped_worker_does_not_affect_other_workflows(
    environment: OpenEnvironment, client: Client, monkeypatch: pytest.MonkeyPatch, waits_for: SessionState
) -> None:
    """A workflow in which it is collected keeps its own memo and ends normally."""
    monkeypatch.setattr(workers, "GRACEFUL_SHUTDOWN_TIMEOUT", timedelta(0))
    monkeypatch.setattr(workers, "Worker", partial(Worker, disable_safe_workflow_eviction=True))
    held = Held(answer("Known."))
    script = unsure("T1", "T2") if waits_for == "awaiting_answer" else Script().plan(*topics(2)).work("", held)
    request = UNSURE.model_copy(update={"approval": "plan"}) if waits_for == "awaiting_approval" else UNSURE
    async with environment(script) as opened:
        await opened.start(request, until=held if waits_for == "executing" else waits_for)
    queue = f"collector-{uuid4().hex[:8]}"
    async with Worker(client, task_queue=queue, workflows=[Collector], workflow_runner=UnsandboxedWorkflowRunner()):
        assert not await client.execute_workflow("Collector", id=queue, task_queue=queue)


pytestmark = [pytest.mark.nightly, pytest.mark.real_server]
_SDK = logging.getLogger("temporalio.worker._workflow")
_GIVES_UP = "running eviction job"
"""Logged by the SDK when it could not evict a workflow whose task it has given up."""


class _Starvation(logging.Handler):
    """Holds the first workflow task that enters a state, in the middle of a step, until the SDK has given it up."""

    def __init__(self, state: SessionState) -> None:
        super().__init__()
        self._state = state
        self.given_up = threading.Event()
        self.times = 0
        self._enter = Progress.enter

    def emit(self, record: logging.LogRecord) -> None:
        """Note when the SDK gives up."""
        if _GIVES_UP in record.getMessage():
            self.given_up.set()

    def enter(self, progress: Progress, state: SessionState) -> None:
        """Enter a state as usual, but later the first time."""
        if state == self._state:
            self.times += 1
            if self.times == 1:
                self.given_up.wait(30)
        self._enter(progress, state)


@pytest.fixture
def starvation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Generator[_Starvation]:
    """Starve the task that enters a state."""
    starvation = _Starvation(request.param)

    def enter(progress: Progress, state: SessionState) -> None:
        starvation.enter(progress, state)

    monkeypatch.setattr(Progress, "enter", enter)
    _SDK.addHandler(starvation)
    yield starvation
    _SDK.removeHandler(starvation)


@pytest.mark.parametrize("starvation", ["executing", "synthesising"], indirect=True)
async def test_a_session_survives_a_starved_workflow_task(run: RunSession, starvation: _Starvation) -> None:
    """The task runs to its end before its workflow is evicted, and is repeated afterwards."""
    script = Script().plan(*topics(2)).work("", answer("Known.")).synthesis(report("All is known."))

    result, _ = await run(script, PLANNED)

    assert result.stop_reason == "completed"
    assert starvation.given_up.is_set()
    assert starvation.times > 1


_OF_A_SESSION = (SupervisorWorkflow, SubtaskWorkflow, Session, Progress, Pulse)


def _held() -> list[object]:
    gc.collect()
    return [each for each in gc.get_objects() if isinstance(each, _OF_A_SESSION)]


def _forget(_: Info) -> None:
    pass


@pytest.mark.real_server
@pytest.mark.parametrize(("cached", "is_known"), first_fast([(1_000, True), (0, True), (1_000, False), (0, False)]))
async def test_ended_sessions_leave_nothing_in_the_workers_memory(
    environment: OpenEnvironment, monkeypatch: pytest.MonkeyPatch, cached: int, *, is_known: bool
) -> None:
    """After reports, refusals and cancellations only the last workflow remains, held by the SDK's loop."""
    if not is_known:
        monkeypatch.setattr(registry, "recognise", _forget)
    script = Script().plan(*topics(2)).work("", answer("Known.")).synthesis(report("All is known."))
    before = _held()
    others = {id(each) for each in before}

    async with environment(script, cached_workflows=cached) as opened:
        await opened.run(PLANNED)
        with pytest.raises(ChargehandError):
            await opened.run(PLANNED.model_copy(update={"crew": "nobody"}))
        waiting = await opened.chargehand.start(PLANNED.model_copy(update={"approval": "plan"}))
        await waiting.cancel()
        with pytest.raises(ChargehandError):
            await waiting.result()
        opened.model.calls.clear()  # the scripted model remembers them for other tests

        async def is_empty() -> bool:
            left = [type(each) for each in _held() if id(each) not in others]
            return left in ([], [Pulse])

        await until(is_empty)
