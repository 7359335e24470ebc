"""Cancellations that come when a session is about to end, in virtual time."""

from chargehand.contracts import SessionRequest
from tests.scripted_model import Held, Script, answer, subtask
from tests.simulation.directed import VirtualSession

GOAL = SessionRequest(goal="What do the documents say?", review="never", webhook="https://localhost/")
SCRIPT = Script().plan(subtask("T1")).work("T1", Held(answer("Known."), seconds=10))
LATENCY = 400
"""Milliseconds that every message takes."""


def test_the_end_that_is_announced_is_the_end_that_comes() -> None:
    """A report that is written is not lost to a cancellation that comes while its webhook is called."""
    ends: list[str] = []
    for moment in range(100, 140, 2):
        session = VirtualSession(GOAL, SCRIPT, LATENCY)
        session.run_until(moment / 10)
        status, announced = session.cancel()
        assert announced == ["finished" if status == "completed" else status]
        ends.append(status)

    assert sorted(ends) == ends
    assert set(ends) == {"cancelled", "completed"}
