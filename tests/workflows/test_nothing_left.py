"""What a worker holds of sessions that have ended: nothing, so that it can run for ever."""

import gc

import pytest
from temporalio.workflow import Info

from activities.heartbeat import Pulse
from chargehand.errors import ChargehandError
from tests.parameters import first_fast
from tests.scripted_model import Script, answer, report, topics
from tests.waiting import until
from tests.workflows.conftest import OpenEnvironment
from tests.workflows.test_main_path import GOAL
from workflows import registry
from workflows.state.progress import Progress
from workflows.state.session import Session
from workflows.subtask import SubtaskWorkflow
from workflows.supervisor import SupervisorWorkflow

_OF_A_SESSION = (SupervisorWorkflow, SubtaskWorkflow, Session, Progress, Pulse)


def _held() -> list[object]:
    gc.collect()
    return [each for each in gc.get_objects() if isinstance(each, _OF_A_SESSION)]


def _forget(_: Info) -> None:
    pass


@pytest.mark.real_server
@pytest.mark.parametrize(("cached", "is_known"), first_fast([(1_000, True), (0, True), (1_000, False), (0, False)]))
async def test_sessions_that_ended_leave_nothing_in_their_worker(
    environment: OpenEnvironment, monkeypatch: pytest.MonkeyPatch, cached: int, *, is_known: bool
) -> None:
    """Of reports, refusals and cancellations alike, no workflow and no activity is held but the latest.

    The SDK's loop holds on to the task of that one.
    """
    if not is_known:
        monkeypatch.setattr(registry, "recognise", _forget)
    script = Script().plan(*topics(2)).work("", answer("Known.")).synthesis(report("All is known."))
    before = _held()
    others = {id(each) for each in before}

    async with environment(script, cached_workflows=cached) as opened:
        await opened.run(GOAL)
        with pytest.raises(ChargehandError):
            await opened.run(GOAL.model_copy(update={"crew": "nobody"}))
        waiting = await opened.chargehand.start(GOAL.model_copy(update={"approval": "plan"}))
        await waiting.cancel()
        with pytest.raises(ChargehandError):
            await waiting.result()
        opened.model.calls.clear()  # the scripted model remembers them for other tests

        async def is_empty() -> bool:
            left = [type(each) for each in _held() if id(each) not in others]
            return left in ([], [Pulse])

        await until(is_empty)
