"""The command line with the embedded server and the real worker, without any key or network.

What concerns processes runs as one, as users run it; the rest is called in this process, which spares the imports.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import Protocol

import pytest

from chargehand.contracts import Plan, Report, Trace
from chargehand.local_server import is_held
from chargehand_cli.embedded.state import StateDirectory
from chargehand_cli.embedded.user import EmbeddedServer
from chargehand_cli.terminal import Exit
from tests.acceptance.commands import Ran, command_environment, run_command
from tests.waiting import hold_until

pytestmark = pytest.mark.slow

_QUESTION = "How are boilers tested?"
_TAPE = Path(__file__).resolve().parents[2] / "examples" / "tapes" / "wind-limits.jsonl"


class Commands(Protocol):
    """Runs a command in this process."""

    def __call__(self, *arguments: str | Path, given: str = "") -> Ran: ...


@pytest.fixture
def chargehand() -> Commands:
    return lambda *arguments, given="": run_command(arguments, command_environment(), given)


@contextmanager
def process(*arguments: str | Path, here: Path | None = None, **more: str) -> Generator[subprocess.Popen[str]]:
    """Run a command as a process of its own; it is interrupted if it still runs in the end."""
    command = [sys.executable, "-m", "chargehand_cli.main", *(str(argument) for argument in arguments)]
    with subprocess.Popen(
        command,
        cwd=here,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=command_environment(**more),
        start_new_session=True,
        umask=0o022,
    ) as started:
        try:
            yield started
        finally:
            if started.poll() is None:
                started.send_signal(signal.SIGINT)
                started.communicate(timeout=60)


def read_until(running: subprocess.Popen[str], pattern: str) -> None:
    """Read what a command says until a line matches."""
    assert running.stderr
    said: list[str] = []
    for line in running.stderr:
        said.append(line)
        if re.search(pattern, line):
            return
    raise AssertionError(f"{pattern!r} was never said, but: {''.join(said)}")


def write_documents(folder: Path) -> Path:
    folder.mkdir()
    (folder / "boilers.md").write_text(
        "# Boiler rules\n\nThe pressure valve of a boiler is tested every six months.\n\n"
        "# Lamp rules\n\nA lamp that flickers is replaced within a day.\n"
    )
    return folder


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    return write_documents(tmp_path / "notes")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A state directory whose server and worker stay up for all tests that share it."""
    state = tmp_path_factory.mktemp("served") / "state"
    with process("up", "--state-dir", state) as up:
        read_until(up, "Embedded Temporal server at")
        yield state


# Processes: who starts what, and what is left.


def test_run_answers_keeps_its_files_and_leaves_nothing(state: Path, documents: Path) -> None:
    """One command from a question to cited passages: report on stdout, private files kept, all ended."""
    question = "How often is the valve of a boiler tested?"
    with process("run", "--state-dir", state, "--docs", documents, question) as run:
        out, said = run.communicate(timeout=100)

    (folder,) = (state / "sessions").iterdir()
    report = Report.model_validate_json((folder / "report.json").read_text())
    trace = Trace.model_validate_json((folder / "trace.json").read_text())
    assert (run.returncode, report.stop_reason) == (0, "completed"), said
    assert "every six months" in out
    assert "boilers.md" in out
    assert re.match(r"Embedded Temporal server at 127\.0\.0\.1:\d+, Web UI http://127\.0\.0\.1:\d+\n", said)
    assert f"/namespaces/default/workflows/{report.session}" in said
    assert "session finished" in said
    assert f"Go on: chargehand open {report.session}" in said
    assert (folder / "report.html").read_text().startswith("<!doctype html>")
    assert sum(step.usage.turns for step in trace.steps) == report.usage.turns
    assert {step.state for step in trace.steps} == {"completed"}
    assert [path for path in state.rglob("*") if path.lstat().st_mode & 0o077] == []
    assert not is_held(state / "keeper.lock")
    assert not is_held(state / "server.lock")


@pytest.mark.nightly
def test_a_run_without_a_terminal_leaves_its_session_running(
    served: Path, documents: Path, chargehand: Commands
) -> None:
    """An interruption: exit code 130, how to go on, and the session neither stopped nor lost."""
    begin = ("run", "--state-dir", served, "--docs", documents, "--approve-plan", "--id", "left")
    with process(*begin, _QUESTION) as run:
        read_until(run, "session awaiting approval")
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=60)
    listed = json.loads(chargehand("list", "--state-dir", served, "--json").out)
    chargehand("cancel", "--state-dir", served, "left")

    assert run.returncode == 130
    assert "`chargehand watch left`" in said
    assert [session["state"] for session in listed if session["id"] == "left"] == ["running"]


@pytest.mark.nightly
def test_a_session_outlives_its_server_and_its_worker(state: Path, documents: Path, chargehand: Commands) -> None:
    """Started and left, watched, everything killed with kill -9, approved on the next server: it answers."""
    where = ("--state-dir", state)
    started = chargehand("start", *where, "--docs", documents, "--approve-plan", "--id", "one", _QUESTION)
    no_worker = command_environment(CHARGEHAND_PROVIDER="none")
    mistyped = run_command(["tell", *where, "on", "Hurry."], no_worker)
    with process("watch", *where, "one") as watch:
        read_until(watch, "session awaiting approval")
        note = StateDirectory(state).read_note()
        assert note
        for pid in (note.keeper_pid, note.server_pid, note.worker_pid):
            with suppress(ProcessLookupError):
                os.kill(pid or 0, signal.SIGKILL)
        hold_until(lambda: (now := StateDirectory(state).read_note()) is not None and now != note, "the new server")
        approval = chargehand("plan", *where, "one", "--approve")
        answer, watched = watch.communicate(timeout=100)

    assert (started.code, started.out) == (0, "one\n"), started.said
    assert "The session resumes the next time it runs" in started.said
    assert "There is no session 'on' here." in mistyped.said  # a worker would have resumed the other one, and paid
    assert approval.code == 0, approval.said
    assert watch.returncode == 0, watched
    assert "every six months" in answer


@pytest.mark.nightly
def test_a_worker_that_cannot_start_is_reported(state: Path, documents: Path) -> None:
    """A program that exits ends the run, not with a wait for ever."""
    with process("run", "--state-dir", state, "--docs", documents, "A fair question", CHARGEHAND_WORKER="false") as run:
        out, said = run.communicate(timeout=100)

    assert (run.returncode, out) == (4, "")
    assert "The worker keeps exiting." in said
    assert not is_held(state / "keeper.lock")


def test_the_first_run_uses_the_projects_tools_and_outlives_a_killed_worker(tmp_path: Path) -> None:
    """As the project's page says: played, approved after `kill -9`, acted once, nothing paid twice, exit code 0."""
    project = tmp_path / "my-crew"
    assert run_command(["init", project], command_environment()).code == Exit.DONE
    settings = {"CHARGEHAND_CREWS": str(project / "crews"), "CHARGEHAND_PLUGINS": "my_crew_tools"}
    state = project / ".chargehand"
    replay = ("tape", "replay", project / "first-run.jsonl", "--id", "first", "--state-dir", state)

    with process(*replay, here=project, **settings) as run:
        read_until(run, "A tool call awaits approval")
        killed = json.loads((state / "server.json").read_text("utf-8"))["worker_pid"]
        os.kill(killed, signal.SIGKILL)
        approved = run_command(["calls", "first", "--approve", "--state-dir", state], command_environment(**settings))
        out, said = run.communicate(timeout=100)

    report = Report.model_validate_json((state / "sessions" / "first" / "report.json").read_text("utf-8"))
    assert (approved.code, run.returncode) == (Exit.DONE, Exit.DONE), said
    assert "Two pieces of A-17 are reserved" in out
    assert report.brain == "played (replayed)"
    assert len((project / "reservations.csv").read_text("utf-8").splitlines()) == 1
    assert (report.usage.turns, report.usage.cost_usd) == (4, Decimal("0.022425"))


@pytest.mark.nightly
def test_a_worker_that_cannot_be_used_opens_no_console(state: Path) -> None:
    """A module that cannot be loaded is bad input, told in one line before any address is."""
    with process("worker", "--state-dir", state, "--plugin", "no_such_module") as run:
        out, said = run.communicate(timeout=100)

    assert (run.returncode, out) == (2, "")
    assert said.startswith("chargehand: The worker cannot start: The plug-in 'no_such_module'")
    assert "Console" not in said


# Commands: what they put out, and how they end.


def test_json_is_alone_on_standard_output(served: Path, documents: Path, chargehand: Commands) -> None:
    """With --json, standard output is one report and nothing else; a request may come from standard input."""
    request = json.dumps({"goal": "What happens to a lamp that flickers?", "limits": {"max_turns": 15}})

    ran = chargehand("run", "--state-dir", served, "--docs", documents, "--input", "-", "--json", given=request)

    report = Report.model_validate_json(ran.out)
    assert (ran.code, report.stop_reason) == (0, "completed"), ran.said
    assert report.goal == "What happens to a lamp that flickers?"
    assert {use.allowed for use in report.limits if "turns" in use.limit} == {15}


def test_a_running_worker_is_not_taken_for_ones_own(served: Path, chargehand: Commands) -> None:
    """`worker` never leaves its user with the crews and tools of another command's worker."""
    refused = chargehand("worker", "--state-dir", served)

    assert refused.code == 2
    assert f"Another command runs a worker in {served}" in refused.said


def test_without_a_valid_output_standard_output_stays_empty(
    served: Path, documents: Path, tmp_path: Path, chargehand: Commands
) -> None:
    """A program that reads JSON from it gets none; the exit code and standard error say so, and the text is kept."""
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object"}')

    ran = chargehand("run", "--state-dir", served, "--docs", documents, "--output-schema", schema, _QUESTION)

    assert (ran.code, ran.out) == (Exit.PARTIAL, "")
    assert "No valid output: To put a report into another shape takes a language model" in ran.said
    assert "Go on: chargehand open session-" in ran.said


def test_a_session_is_looked_at_from_elsewhere(served: Path, documents: Path, chargehand: Commands) -> None:
    """Status, plan, trace, list, cancel and result find a session by its id, whoever started it."""
    where = ("--state-dir", served)
    _start_awaiting_approval(chargehand, served, documents, "first")

    status = chargehand("status", *where, "first")
    plan = chargehand("plan", *where, "first")
    typed = chargehand("plan", *where, "first", "--json")
    trace = chargehand("trace", *where, "first")
    listed = chargehand("list", *where)
    cancelled = chargehand("cancel", *where, "first")
    result = chargehand("result", *where, "first")

    assert "awaiting approval" in status.out
    assert plan.out.startswith("T1 ")
    assert Plan.model_validate_json(typed.out).subtasks[0].id == "T1"
    assert Trace.model_validate_json(trace.out).steps[0].id == "first"
    assert re.search(r"awaiting approval .* first ", listed.out)
    assert cancelled.code == 0, cancelled.said
    assert (result.code, result.out) == (1, "")
    assert "Session 'first' was cancelled." in result.said


def _start_awaiting_approval(chargehand: Commands, served: Path, documents: Path, session: str) -> None:
    where = ("--state-dir", served)
    assert chargehand("start", *where, "--docs", documents, "--approve-plan", "--id", session, _QUESTION).code == 0
    hold_until(lambda: "awaiting_approval" in chargehand("status", *where, "--json", session).out, "the plan")


def test_limits_are_raised_and_the_report_is_called_for(served: Path, documents: Path, chargehand: Commands) -> None:
    """A session that runs takes over higher limits, refuses lower ones, and ends with what it has when told to."""
    where = ("--state-dir", served)
    _start_awaiting_approval(chargehand, served, documents, "raised")

    raised = chargehand("raise", *where, "raised", "--turns", "25", "--budget", "3", "--deadline", "20m")
    lowered = chargehand("raise", *where, "raised", "--turns", "20")
    finished = chargehand("finish", *where, "raised")
    result = chargehand("result", *where, "raised", "--json")
    too_late = chargehand("finish", *where, "raised")

    assert raised.code == 0, raised.said
    assert "New limits of session raised: 25 turns, $3.00, until " in raised.said
    assert lowered.code == 1
    assert "max_turns: 20 is not more than the present 25" in lowered.said
    assert finished.code == 0, finished.said
    assert (result.code, Report.model_validate_json(result.out).stop_reason) == (3, "finish_now")
    assert too_late.code == 1
    assert "Session 'raised' has ended and cannot be changed." in too_late.said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run",), "either GOAL or --input FILE"),
        (("run", "--input", "-", "A question"), "either GOAL or --input FILE"),
        (("run", "--turns", "many", "A fair question"), "Invalid value for '--turns'"),
        (("run", "--docs", "/nowhere/at/all", "A fair question"), "No such file or folder: /nowhere/at/all"),
        (("raise", "any"), "--turns, --budget and --deadline"),
    ],
)
def test_wrong_usage_starts_nothing(
    state: Path, arguments: tuple[str, ...], message: str, chargehand: Commands
) -> None:
    """What can be seen to be wrong ends with exit code 2 before any server is started."""
    ran = chargehand(*arguments, "--state-dir", state)

    assert (ran.code, ran.out) == (2, "")
    assert message in ran.said
    assert not state.exists()


def test_a_tape_needs_a_worker_of_its_own(served: Path, tmp_path: Path, chargehand: Commands) -> None:
    """While another command uses the embedded worker, nothing is recorded or replayed, and no file is left."""
    tape = tmp_path / "tape.jsonl"
    ran = chargehand("tape", "record", "--state-dir", served, tape, _QUESTION)

    assert ran.code == 2
    assert f"The embedded worker was started without CHARGEHAND_TAPE_RECORD={tape}" in ran.said
    assert not tape.exists()


@pytest.mark.nightly
def test_a_shipped_tape_is_replayed_by_one_command(state: Path, chargehand: Commands) -> None:
    """Without a key, a goal or documents: the report of the tape, which says that it is a replay."""
    ran = chargehand("tape", "replay", "--state-dir", state, _TAPE, "--json")

    report = Report.model_validate_json(ran.out)
    assert ran.code == 0, ran.said
    assert f"No model is called: {_TAPE} is replayed." in ran.said
    assert report.answer.startswith("**26 knots.**")
    assert report.brain == "hand-written (replayed)"


@pytest.mark.nightly
def test_a_named_server_is_used_and_its_worker_missed(state: Path, documents: Path) -> None:
    """With a server named, no embedded one is started; documents need a shared directory; doctor misses a worker."""
    server = EmbeddedServer(state, None)
    server.join()
    named = command_environment(TEMPORAL_ADDRESS=server.wait().address)
    own = state.with_name("own")

    listed = run_command(("list", "--state-dir", own), named)
    upload = run_command(("run", "--state-dir", own, "--docs", documents, "A fair question"), named)
    doctor = run_command(("doctor", "--state-dir", own), named)
    server.leave()

    assert (listed.code, listed.out, listed.said) == (0, "", "There are no sessions.\n")
    assert upload.code == 2
    assert "the server set by TEMPORAL_ADDRESS" in upload.said
    assert "--artifacts or CHARGEHAND_ARTIFACTS" in upload.said
    assert doctor.code == 4
    assert "✘ No worker polls task queue 'chargehand'" in doctor.out
    assert not own.exists()


@pytest.mark.nightly
def test_doctor_says_what_is_active_and_why(served: Path, chargehand: Commands) -> None:
    """Everything that a session needs is named, with the reason for its choice."""
    doctor = chargehand("doctor", "--state-dir", served)

    assert doctor.code == 0, doctor.out
    assert "✔ model: extractive (no ANTHROPIC_API_KEY, OPENAI_BASE_URL or OPENAI_API_KEY" in doctor.out
    assert f"✔ large payloads: {served / 'payloads'} (set by CHARGEHAND_STORAGE)" in doctor.out
    assert "✔ 1 worker(s) on task queue 'chargehand'" in doctor.out
    assert "none stuck" in doctor.out
