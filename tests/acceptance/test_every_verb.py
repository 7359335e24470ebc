"""Every verb with anything missing: no output has a traceback or a library's words, exit codes are documented."""

import io
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Final
from unittest.mock import patch

import pytest
import typer
from temporalio.client import Client

from chargehand_cli.main import VerbGroups, app, execute
from chargehand_cli.session_files import keep
from chargehand_cli.terminal import Exit
from tests.acceptance.commands import Ran, command_environment, run_command
from tests.unit.cli.reports import report, trace

_NOBODY: Final = "127.0.0.1:1"
_FOREIGN: Final = re.compile(
    r"Traceback|unexpected error|os error|transport|tcp connect|tonic|panicked|RPCError|Status \{"
)
_ARGUMENTS: Final[dict[str, tuple[str, ...]]] = {
    "run": ("What is new?",),
    "start": ("What is new?",),
    "ask": ("unknown", "What is new?"),
    "tell": ("unknown", "Hurry."),
    "edit": ("unknown", "--drop", "T1"),
    "plan": ("unknown", "--approve"),
    "answer": ("unknown", "Yes."),
    "raise": ("unknown", "--turns", "30"),
    "calls": ("unknown", "--approve"),
    "report": ("unknown", "--to", "-"),
    "reconcile": ("--since", "2h"),
    "clean": ("--older-than", "30d"),
}
"""Arguments of verbs; all others take a session, or nothing."""
_APART: Final = {"up", "codec-server", "docs", "init", "crew", "worker", "mcp", "tape", "memory"}
"""Verbs that connect to no existing server, or serve until they are interrupted."""
_GROUP: Final = typer.main.get_command(app)
assert isinstance(_GROUP, VerbGroups)
_GROUP.add_plugin_verbs()
_COMMANDS: Final = {name: each for name, each in _GROUP.commands.items() if name not in _APART}


def _arguments(verb: str) -> tuple[str, ...]:
    return _ARGUMENTS.get(verb) or (("unknown",) if _takes_a_session(verb) else ())


def _takes_a_session(verb: str) -> bool:
    return any(each.name == "session" for each in _COMMANDS[verb].params)


def _run(verb: str, *arguments: str | Path) -> Ran:
    # A stand-in for the worker program: the tests of `doctor` check the output of a real one.
    return run_command([verb, *arguments], command_environment(CHARGEHAND_WORKER="true"))


def _check(ran: Ran, expected: Sequence[Exit]) -> None:
    assert not _FOREIGN.search(ran.out + ran.said), ran
    assert ran.code in expected, ran


@pytest.mark.parametrize("verb", _COMMANDS)
def test_unreachable_server_or_unknown_session_is_reported(verb: str, client: Client, tmp_path: Path) -> None:
    """An unreachable server exits with 4 and its address; an unknown session exits with 2, without any worker."""
    ran = _run(verb, *_arguments(verb), "--address", _NOBODY, "--state-dir", tmp_path)
    _check(ran, [Exit.UNREACHABLE])
    assert f"No Temporal server answers at {_NOBODY}" in ran.out + ran.said

    if _takes_a_session(verb):
        address = client.service_client.config.target_host
        ran = _run(verb, *_arguments(verb), "--address", address, "--state-dir", tmp_path)
        _check(ran, [Exit.BAD_INPUT])
        assert "There is no session or conversation 'unknown' here." in ran.said


@pytest.mark.parametrize(
    "verb", ["status", "result", "advise", "artifacts", "open", "report", "trace", "list", "setup"]
)
def test_closed_output_pipe_is_not_an_error(verb: str, client: Client, tmp_path: Path) -> None:
    """A command whose pipe was closed, as by `head`, prints no error."""
    keep(tmp_path, report(session="unknown"), trace())
    reading, writing = os.pipe()
    os.close(reading)
    said, code = io.StringIO(), Exit.FAILED
    server = () if _takes_a_session(verb) else ("--address", client.service_client.config.target_host)
    with (
        suppress(BrokenPipeError),  # of the pipe itself, when it is closed
        os.fdopen(writing, "w") as closed,
        patch.dict(os.environ, command_environment(CHARGEHAND_WORKER="true"), clear=True),
        redirect_stdout(closed),
        redirect_stderr(said),
    ):
        code = execute([verb, *_arguments(verb), "--state-dir", str(tmp_path), *server])

    _check(Ran(code, "", said.getvalue()), [Exit.DONE, Exit.FAILED])
    assert "chargehand:" not in said.getvalue()


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stdin_is_read_as_empty(closed: str) -> None:
    """A command started without stdin, as by some schedulers, reads the null device."""
    command = ["/bin/sh", "-c", f'exec "$0" -m chargehand_cli.main run - {closed}', sys.executable]
    ran = subprocess.run(command, check=False, input="", env=command_environment(), capture_output=True, text=True)

    assert (ran.returncode, ran.stdout, "unexpected" in ran.stderr) == (Exit.BAD_INPUT, "", False)


def test_a_result_for_a_closed_stdout_is_an_error() -> None:
    """A script does not take a result that was lost for success."""
    command = ["/bin/sh", "-c", 'exec "$0" -m chargehand_cli.main --version >&-', sys.executable]
    ran = subprocess.run(command, check=False, env=command_environment(), capture_output=True, text=True)

    assert (ran.returncode, ran.stderr.partition(",")[0]) == (Exit.FAILED, "chargehand: Standard output is closed")
