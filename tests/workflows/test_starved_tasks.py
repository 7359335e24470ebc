"""Workflow tasks that get no processor time for longer than the SDK allows: it repeats them, and the session ends."""

import logging
import threading
from collections.abc import Generator

import pytest

from chargehand.contracts import SessionState
from tests.scripted_model import Script, answer, report, topics
from tests.workflows.conftest import RunSession
from tests.workflows.test_main_path import GOAL
from workflows.state.progress import Progress

pytestmark = [pytest.mark.nightly, pytest.mark.real_server]

_SDK = logging.getLogger("temporalio.worker._workflow")
_GIVES_UP = "running eviction job"
"""What the SDK logs when it could not throw away a workflow whose task it has given up."""


class _Starvation(logging.Handler):
    """Holds the first workflow task that enters a state, in the middle of a step, until the SDK has given it up."""

    def __init__(self, state: SessionState) -> None:
        super().__init__()
        self._state = state
        self.given_up = threading.Event()
        self.times = 0
        self._enter = Progress.enter

    def emit(self, record: logging.LogRecord) -> None:
        """Note what the SDK does."""
        if _GIVES_UP in record.getMessage():
            self.given_up.set()

    def enter(self, progress: Progress, state: SessionState) -> None:
        """Enter a state as ever, later."""
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
async def test_a_session_outlives_a_starved_task(run: RunSession, starvation: _Starvation) -> None:
    """The task is carried out to its end before its workflow is thrown away, and repeated afterwards."""
    script = Script().plan(*topics(2)).work("", answer("Known.")).synthesis(report("All is known."))

    result, _ = await run(script, GOAL)

    assert result.stop_reason == "completed"
    assert starvation.given_up.is_set()
    assert starvation.times > 1
