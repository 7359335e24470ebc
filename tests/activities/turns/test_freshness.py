"""An attempt that its server may have given up asks before it pays."""

from datetime import UTC, datetime, timedelta

from activities.turn.retry_policy import Freshness

STARTED = datetime(2026, 11, 21, 12, tzinfo=UTC)
PATIENCE = timedelta(seconds=5)


def test_only_a_young_attempt_by_a_credible_clock_is_fresh() -> None:
    """I19: attempts of these ages in seconds, by this host's clock, ask the server unless they are surely young."""
    cases = [
        ([0.0], [False]),  # new
        ([2.5], [False]),  # half the heartbeat timeout
        ([2.6], [True]),  # older than half the heartbeat timeout
        ([15.0], [True]),  # old
        ([-0.2], [False]),  # clocks differ a little
        ([3600.0, 3600.1], [True, True]),  # clock far ahead
        ([-2.0, -1.9, 4.0], [False, False, True]),  # clock behind, which is allowed for
        ([-3600.0, -3599.9], [True, True]),  # clock far behind
        ([0.1, -3599.9, -3599.8], [False, True, True]),  # clock jumps back
    ]
    for ages, doubtful in cases:
        now = (STARTED + timedelta(seconds=age) for age in ages)
        freshness = Freshness(now.__next__)
        assert [freshness.is_doubtful(STARTED, PATIENCE) for _ in ages] == doubtful
