"""Fixtures for tests of commands: a terminal, and the folder of an embedded server."""

import os
import pty
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from chargehand.local_server import is_held
from chargehand_cli.embedded.state import StateDirectory
from tests.acceptance.commands import Terminal
from tests.waiting import hold_until


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    opened = Terminal(*pty.openpty())
    yield opened
    os.close(opened.theirs)
    os.close(opened.ours)


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """A state directory whose keeper is stopped afterwards if a failed test has left it running."""
    directory = StateDirectory(tmp_path / "state")
    yield directory.path
    if (note := directory.read_note()) and is_held(directory.keeper_lock):
        os.kill(note.keeper_pid, signal.SIGTERM)
        hold_until(lambda: not is_held(directory.keeper_lock), "the end of the keeper")
