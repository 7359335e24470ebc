"""The file that shows health checks that the worker polls."""

import os
import time
from datetime import timedelta
from pathlib import Path

import pytest

from activities import health
from activities.backends import SettingsError
from activities.health import health_file
from tests.waiting import until


async def test_it_is_there_and_stays_fresh_while_the_worker_polls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made at once, touched again and again, and gone as soon as the worker stops polling."""
    monkeypatch.setattr(health, "_EVERY", timedelta(milliseconds=10))
    file = tmp_path / "polls"

    async def is_fresh() -> bool:
        return time.time() - file.stat().st_mtime < 1_000

    async with health_file(file):
        assert file.exists()
        os.utime(file, (0, 0))
        await until(is_fresh)

    assert not file.exists()


async def test_a_file_that_cannot_be_written_is_refused_by_name() -> None:
    """A worker would otherwise run until its first health check failed."""
    with pytest.raises(SettingsError, match=r"CHARGEHAND_HEALTH_FILE: .*Not a directory"):
        async with health_file(Path("/dev/null/polls")):
            pass
