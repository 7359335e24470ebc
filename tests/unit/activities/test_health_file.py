"""The file that tells health checks that the worker is polling."""

import logging
import os
import time
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from activities.backends import SettingsError
from tests.waiting import until
from worker import health
from worker.health import health_file


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_EVERY", timedelta(milliseconds=10))


async def test_the_health_file_exists_and_stays_fresh_while_the_worker_polls(tmp_path: Path) -> None:
    file = tmp_path / "polls"

    async with health_file(file):
        assert file.exists()
        os.utime(file, (0, 0))
        await until(lambda: time.time() - file.stat().st_mtime < 1_000)

    assert not file.exists()


async def test_an_unwritable_health_file_is_refused_by_setting_name() -> None:
    """A worker would otherwise run until its first health check failed."""
    with pytest.raises(SettingsError, match=r"CHARGEHAND_HEALTH_FILE: .*Not a directory"):
        async with health_file(Path("/dev/null/polls")):
            pass


async def test_a_health_file_write_error_is_logged_once_and_can_clear(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, away = tmp_path / "folder", tmp_path / "away"
    folder.mkdir()
    with caplog.at_level(logging.WARNING, "chargehand.worker"):
        async with health_file(folder / "polls"):
            folder.rename(away)
            await until(lambda: bool(caplog.records))
            os.utime(away / "polls", (0, 0))
            away.rename(folder)
            await until(lambda: (folder / "polls").stat().st_mtime > 0)

    assert [(each.message, vars(each)["problem"]) for each in caplog.records] == [
        ("the health file cannot be written", "No such file or directory")
    ]


async def test_the_group_health_file_is_as_fresh_as_its_worst_member(tmp_path: Path) -> None:
    file = tmp_path / "polls"

    async with AsyncExitStack() as members:
        second = await _join(members, file, 1)
        assert not file.exists()
        first = await _join(members, file, 0)
        assert time.time() - file.stat().st_mtime < 1_000
        await second.aclose()
        assert not file.exists()
        (tmp_path / "polls.1").touch()
        os.utime(tmp_path / "polls.1", (1_000, 1_000))  # as left by a member that was killed, or whose loop is blocked
        file.touch()
        await until(lambda: file.stat().st_mtime == 1_000)
        await first.aclose()

        assert not file.exists()


async def _join(members: AsyncExitStack, file: Path, number: int) -> AsyncExitStack:
    member = await members.enter_async_context(AsyncExitStack())
    await member.enter_async_context(health_file(file, member=number, members=2))
    return member
