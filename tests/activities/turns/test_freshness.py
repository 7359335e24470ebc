"""An attempt that its server may have given up asks before it pays."""

from datetime import UTC, datetime, timedelta

import pytest

from activities.model_turn.retry_policy import Freshness

STARTED = datetime(2026, 11, 21, 12, tzinfo=UTC)
PATIENCE = timedelta(seconds=5)


@pytest.mark.parametrize(
    ("ages", "doubtful"),
    [
        pytest.param([0.0], [False], id="new"),
        pytest.param([2.5], [False], id="half the heartbeat timeout"),
        pytest.param([2.6], [True], id="older than half the heartbeat timeout"),
        pytest.param([15.0], [True], id="old"),
        pytest.param([-0.2], [False], id="clocks differ a little"),
        pytest.param([3600.0, 3600.1], [True, True], id="clock far ahead"),
        pytest.param([-2.0, -1.9, 4.0], [False, False, True], id="clock behind, which is allowed for"),
        pytest.param([-3600.0, -3599.9], [True, True], id="clock far behind"),
        pytest.param([0.1, -3599.9, -3599.8], [False, True, True], id="clock jumps back"),
    ],
)
def test_only_a_young_attempt_by_a_credible_clock_is_fresh(ages: list[float], doubtful: list[bool]) -> None:
    """I19: attempts of these ages in seconds, by this host's clock, ask the server unless they are surely young."""
    left = iter(ages)
    freshness = Freshness(lambda: STARTED + timedelta(seconds=next(left)))

    assert [freshness.is_doubtful(STARTED, PATIENCE) for _ in ages] == doubtful
