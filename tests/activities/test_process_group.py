"""A group of worker processes: when it is ready, what it starts again, and how it ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from worker.settings import Settings

_ROOT = Path(__file__).parents[2]
_PROGRAM = """
import os, signal, sys
from worker.process_group import ProcessGroup

def say(*words):
    os.write(1, " ".join(map(str, words)).encode() + b"\\n")

def work(number, announce):
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    if "unusable" in sys.argv and number == 0:
        say("unusable")
        return 2
    say("member", number, os.getpid())
    announce()
    signal.sigwait([signal.SIGTERM])
    say("stopped", number)
    return 0

code = ProcessGroup(3, work, lambda: say("ready")).run()
say("over")
os._exit(code)
"""


@contextmanager
def _group(*options: str) -> Generator[subprocess.Popen[str]]:
    program = [sys.executable, "-c", _PROGRAM, *options]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, cwd=_ROOT) as running:
        try:
            yield running
        finally:
            running.kill()


def _lines(running: subprocess.Popen[str], count: int) -> list[list[str]]:
    assert running.stdout
    return [running.stdout.readline().split() for _ in range(count)]


def test_a_killed_member_is_started_again_and_all_stop_together() -> None:
    """The group is ready once, when all of its members are; one that is killed comes back under its number; at SIGTERM
    each stops as a single worker would."""
    with _group() as running:
        first, *others = _lines(running, 4)
        pids = {number: int(pid) for word, number, pid in [first, *others[:2]] if word == "member"}
        os.kill(pids["1"], signal.SIGKILL)
        ((word, number, pid),) = _lines(running, 1)
        running.send_signal(signal.SIGTERM)
        assert running.stdout
        rest = sorted(running.stdout.read().splitlines())

    assert first[:2] == ["member", "0"]
    assert others[2:] == [["ready"]]
    assert (word, number) == ("member", "1")
    assert int(pid) not in pids.values()
    assert rest == ["over", "stopped 0", "stopped 1", "stopped 2"]
    assert running.returncode == 0


def test_unusable_settings_end_the_group_once() -> None:
    """The first member finds them before the others start, and its exit code is the group's."""
    with _group("unusable") as running:
        said, _ = running.communicate(timeout=60)

    assert said.split() == ["unusable", "over"]
    assert running.returncode == 2


def test_members_end_with_their_parent() -> None:
    """A parent that is killed leaves no worker behind."""
    with _group() as running:
        _lines(running, 4)
        running.kill()
        assert running.stdout
        rest = sorted(running.stdout.read().splitlines())

    assert rest == ["stopped 0", "stopped 1", "stopped 2"]


def test_each_process_has_its_own_address_for_metrics() -> None:
    """Processes get consecutive ports, which have to exist."""
    settings = Settings(processes=3, metrics_address="127.0.0.1:9464")

    assert [settings.of_process(number).metrics_address for number in range(3)] == [
        "127.0.0.1:9464",
        "127.0.0.1:9465",
        "127.0.0.1:9466",
    ]
    with pytest.raises(ValueError, match="CHARGEHAND_METRICS_ADDRESS: there are not so many ports"):
        Settings(processes=3, metrics_address="127.0.0.1:65534")
