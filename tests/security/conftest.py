"""An honest report, to be made hostile."""

from datetime import UTC, datetime, timedelta

import pytest

from chargehand.contracts import Report, Timing

_START = datetime(2026, 11, 2, 9, 30, tzinfo=UTC)


@pytest.fixture
def honest() -> Report:
    """A report of nothing in particular."""
    timing = Timing(
        started_at=_START,
        ended_at=_START + timedelta(seconds=9),
        wall=timedelta(seconds=9),
        subtasks_one_after_another=timedelta(seconds=9),
        critical_path=timedelta(seconds=9),
        speed_up=1,
    )
    return Report(session="s", goal="g", answer="a", stop_reason="completed", timing=timing)
