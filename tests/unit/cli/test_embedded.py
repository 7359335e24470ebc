"""The embedded server: which program it is, and what is reported about its worker."""

import os
import sys
from pathlib import Path

import pytest

from chargehand_cli.embedded.program import EmbeddedServerFailed, check_temporal, find_temporal
from chargehand_cli.embedded.server import ServerFailed, start_server
from chargehand_cli.embedded.state import WORKER_STARTS, last_lines, reported_problems

INSTALLED = Path(sys.executable).parent / "temporal"


@pytest.mark.parametrize(("version", "is_used"), [("1.9.1", True), ("2.0.0", True), ("1.8.7", False)])
def test_the_temporal_program_on_the_path_is_preferred(
    version: str, *, is_used: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "temporal"
    own.write_text(f"#!/bin/sh\necho temporal version {version}\n", encoding="utf-8")
    own.chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(INSTALLED.parent), str(tmp_path)]))

    assert find_temporal() == (own if is_used else INSTALLED)


def test_a_modified_bundled_temporal_program_is_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program beside Python must have the digest of the release; each file is hashed once."""
    check_temporal(INSTALLED, tmp_path)
    noted = (tmp_path / "temporal.checked").read_text(encoding="utf-8")
    assert noted.startswith(str(INSTALLED))

    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    (tmp_path / "temporal").write_text("#!/bin/sh\n", encoding="utf-8")
    with pytest.raises(EmbeddedServerFailed, match="not the program that Chargehand was released with"):
        check_temporal(tmp_path / "temporal", tmp_path)


def test_log_lines_of_an_earlier_worker_are_not_shown_for_the_next(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    log.write_text(f"no crew 'a'\n{WORKER_STARTS}\nno crew 'b'\n{WORKER_STARTS}\n", encoding="utf-8")
    assert last_lines(log) == ""

    with log.open("a", encoding="utf-8") as file:
        file.write("worker polls\n")
    assert last_lines(log) == "worker polls"


def test_a_server_that_exits_during_startup_is_reported_as_exited(tmp_path: Path) -> None:
    """Killed by the kernel for its memory, it leaves no message, only an exit code."""
    program = tmp_path / "temporal"
    program.write_text("#!/bin/sh\nkill -9 $$\n")
    program.chmod(0o755)

    with (tmp_path / "lock").open("w") as lock, pytest.raises(ServerFailed, match=r"^it exited with code -9$"):
        start_server(program, tmp_path / "db", tmp_path / "log", lock_descriptor=lock.fileno())


def test_only_problems_of_the_running_worker_are_shown(tmp_path: Path) -> None:
    record = "2026-11-29 10:00:00,000 ERROR chargehand.worker: "
    log = tmp_path / "worker.log"
    assert reported_problems(log) == []

    log.write_text(f"{record}old\n{WORKER_STARTS}\n{record}spans: refused\nplain\n{record}payloads: full\n")

    assert reported_problems(log) == ["spans: refused", "payloads: full"]
