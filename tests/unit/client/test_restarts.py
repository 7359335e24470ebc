"""The pauses before an ended process is started again."""

from chargehand.restarts import Restarts


def test_restart_pauses_grow_with_consecutive_failures() -> None:
    restarts = Restarts()
    pauses = [restarts.pause_after(1) for _ in range(9)]

    assert pauses == [0, 0.5, 1, 2, 5, 10, 30, 30, 30]
    assert (restarts.failures, restarts.pause_after(21), restarts.failures) == (9, 0, 1)
