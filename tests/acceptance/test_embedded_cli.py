"""The command line with the embedded server and the real worker, without any key or network.

Tests of processes start one, as users do; the others call commands in this process, which saves the imports.
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

import pytest
from httpx2 import get

from chargehand.contracts import Plan, Report, Status, Trace
from chargehand.local_server import is_held
from chargehand_cli.embedded.state import StateDirectory
from chargehand_cli.embedded.user import EmbeddedServer
from chargehand_cli.terminal import Exit
from tests.acceptance.commands import Ran, command_environment, run_command
from tests.waiting import hold_until

pytestmark = pytest.mark.slow

_QUESTION = "How are boilers tested?"
_TOKEN = "a-token-of-this-test"


def chargehand(*arguments: str | Path, given: str = "", **settings: str) -> Ran:
    """Run a command in this process."""
    return run_command(arguments, command_environment(**settings), given)


@contextmanager
def process(*arguments: str | Path, here: Path | None = None, **more: str) -> Generator[subprocess.Popen[str]]:
    """Run a command as a separate process, interrupted at the end if it is still running."""
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


def read_until(running: subprocess.Popen[str], pattern: str) -> str:
    """Read the messages of a command until a line matches."""
    assert running.stderr
    said: list[str] = []
    for line in running.stderr:
        said.append(line)
        if re.search(pattern, line):
            return "".join(said)
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
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A state directory with a running server and worker, shared by tests, and the messages of `up`."""
    state = tmp_path_factory.mktemp("served") / "state"
    settings = {"CHARGEHAND_CONSOLE_TOKEN": _TOKEN, "CHARGEHAND_CONSOLE_PORT": "0"}
    with process("up", "--state-dir", state, here=None, **settings) as running:
        yield state, read_until(running, "HTTP API")


@pytest.fixture(scope="module")
def served(up: tuple[Path, str]) -> Path:
    return up[0]


# Processes: which command starts what, and what it leaves.


@pytest.mark.nightly
def test_a_run_without_a_terminal_leaves_its_session_running(served: Path, documents: Path) -> None:
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
def test_a_session_outlives_its_server_and_its_worker(state: Path, documents: Path) -> None:
    """Started and left, watched, everything killed with kill -9, approved on the next server: it answers."""
    where = ("--state-dir", state)
    started = chargehand("start", *where, "--docs", documents, "--approve-plan", "--id", "one", _QUESTION)
    mistyped = chargehand("tell", *where, "on", "Hurry.", CHARGEHAND_PROVIDER="none")
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
    assert (
        "There is no session or conversation 'on' here." in mistyped.said
    )  # a worker would have resumed the other session and incurred costs
    assert approval.code == 0, approval.said
    assert watch.returncode == 0, watched
    assert "every six months" in answer


_UNPRICED = {"OPENAI_API_KEY": "sk-none", "CHARGEHAND_MODELS": '{"small": "unheard-of"}'}


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("verb", "settings", "code", "reason"),
    [
        (("run", "A fair question"), {"CHARGEHAND_WORKER": "false"}, 4, "The worker keeps exiting."),
        (("run", "A fair question"), _UNPRICED, 2, "CHARGEHAND_PRICES="),
        (("start", "A fair question"), _UNPRICED, 2, "CHARGEHAND_PRICES="),
        (("chat",), _UNPRICED, 2, "CHARGEHAND_PRICES="),
    ],
)
def test_a_worker_that_cannot_start_is_reported(
    state: Path, documents: Path, *, verb: tuple[str, ...], settings: dict[str, str], code: int, reason: str
) -> None:
    """It ends the command, and the next worker cancels the session instead of answering it."""
    where = ("--state-dir", state, "--docs", documents)
    failed = chargehand(*verb, *where, given="Hello", **settings)
    held = is_held(state / "keeper.lock")
    chargehand("run", *where, "What happens to a lamp that flickers?")
    listed = json.loads(chargehand("list", "--state-dir", state, "--json").out)

    assert (failed.code, failed.out, held) == (code, "", False)
    assert reason in failed.said
    assert {each["state"] for each in listed[1:]} <= {"canceled"}


def test_the_first_run_uses_the_projects_tools_and_outlives_a_killed_worker(tmp_path: Path) -> None:
    """Played, approved by a signature after `kill -9`, acted once, nothing paid twice; what is kept is private."""
    project = tmp_path / "my-crew"
    assert chargehand("init", project).code == Exit.DONE
    settings = {"CHARGEHAND_CREWS": str(project / "crews"), "CHARGEHAND_PLUGINS": "my_crew_tools"}
    settings["CHARGEHAND_CALLER_KEY"] = "k" * 32
    state = project / ".chargehand"
    replay = ("tape", "replay", project / "first-run.jsonl", "--id", "first", "--state-dir", state)

    with process(*replay, here=project, **settings) as run:
        begun = read_until(run, "A tool call awaits approval")
        killed = json.loads((state / "server.json").read_text("utf-8"))["worker_pid"]
        os.kill(killed, signal.SIGKILL)
        approved = chargehand("calls", "first", "--approve", "--state-dir", state, **settings)
        out, said = run.communicate(timeout=100)

    kept = state / "sessions" / "first"
    report = Report.model_validate_json((kept / "report.json").read_text("utf-8"))
    trace = Trace.model_validate_json((kept / "trace.json").read_text("utf-8"))
    assert (approved.code, run.returncode) == (Exit.DONE, Exit.DONE), said
    assert "Two pieces of A-17 are reserved" in out
    assert report.brain == "played (replayed)"
    assert len((project / "reservations.csv").read_text("utf-8").splitlines()) == 1
    assert (report.usage.turns, report.usage.cost_usd) == (4, Decimal("0.022425"))
    assert re.search(
        r"^Embedded Temporal server at 127\.0\.0\.1:\d+, Web UI http://127\.0\.0\.1:\d+\n", begun, re.MULTILINE
    )
    assert "/namespaces/default/workflows/first" in begun
    assert f"No model is called: {project / 'first-run.jsonl'} is replayed." in begun
    assert "session answered" in said
    assert "Go on: chargehand open first" in said
    assert (kept / "report.html").read_text("utf-8").startswith("<!doctype html>")
    assert sum(step.usage.turns for step in trace.steps) == report.usage.turns
    assert [path for path in state.rglob("*") if path.lstat().st_mode & 0o077] == []
    assert not is_held(state / "keeper.lock")
    assert not is_held(state / "server.lock")


@pytest.mark.nightly
def test_a_worker_that_cannot_be_used_opens_no_console(state: Path) -> None:
    """A module that cannot be loaded is bad input, told in one line before any address is."""
    with process("worker", "--state-dir", state, "--plugin", "no_such_module") as run:
        out, said = run.communicate(timeout=100)

    assert (run.returncode, out) == (2, "")
    assert said.startswith("chargehand: The worker cannot start: The plug-in 'no_such_module'")
    assert "Console" not in said


# Commands: what they print and how they exit.


def test_quiet_leaves_out_the_progress_alone(served: Path, documents: Path) -> None:
    """What is written to a file has its state and its sources, without which its labels say nothing."""
    run = ("run", "--state-dir", served, "--docs", documents, "What happens to a lamp that flickers?")
    told, quiet = chargehand(*run), chargehand(*run, "--quiet")
    (state, *answer), (quiet_state, *quiet_answer) = told.out.splitlines(), quiet.out.splitlines()

    assert (quiet.said, quiet_answer) == ("", answer)
    assert quiet_state.partition(" · ")[0] == state.partition(" · ")[0] == "Answered, not all verified"


def test_json_is_alone_on_standard_output(served: Path, documents: Path) -> None:
    """With --json, standard output is one report and nothing else; a request may come from standard input."""
    request = json.dumps({"goal": "What happens to a lamp that flickers?", "limits": {"max_turns": 15}})

    ran = chargehand("run", "--state-dir", served, "--docs", documents, "--input", "-", "--json", given=request)

    report = Report.model_validate_json(ran.out)
    assert (ran.code, report.stop_reason) == (0, "completed"), ran.said
    assert report.goal == "What happens to a lamp that flickers?"
    assert "replaced within a day" in report.answer
    assert "boilers.md" in {source.ref.partition("#")[0] for source in report.sources}
    assert [path for path in served.rglob("*") if path.lstat().st_mode & 0o077] == []
    assert {use.allowed for use in report.limits if "turns" in use.limit} == {15}


def test_up_serves_the_console_and_its_api(up: tuple[Path, str]) -> None:
    """`up` prints a link that signs in, and the API answers with the token of the environment alone."""
    _, said = up
    console = re.search(r"Console: (\S+)/login\?code=\S+", said)
    assert console, said

    refused = get(f"{console[1]}/api/v1/sessions", trust_env=False)
    answered = get(f"{console[1]}/api/v1/sessions", headers={"Authorization": f"Bearer {_TOKEN}"}, trust_env=False)

    assert f"HTTP API: {console[1]}/api/v1 with the token $CHARGEHAND_CONSOLE_TOKEN" in said
    assert (refused.status_code, [*answered.json()]) == (401, ["sessions"])


def test_a_running_worker_is_not_taken_for_ones_own(served: Path) -> None:
    """`worker` never leaves its user with the crews and tools of another command's worker."""
    refused = chargehand("worker", "--state-dir", served)

    assert refused.code == 2
    assert f"Another command runs a worker in {served}" in refused.said


def test_without_a_valid_output_standard_output_stays_empty(served: Path, documents: Path, tmp_path: Path) -> None:
    """A program that reads JSON from it gets none; the exit code and standard error say so, and the text is kept."""
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object"}')

    ran = chargehand("run", "--state-dir", served, "--docs", documents, "--output-schema", schema, _QUESTION)

    assert (ran.code, ran.out) == (Exit.PARTIAL, "")
    assert "No valid output: To put a report into another shape takes a language model" in ran.said
    assert "Go on: chargehand open session-" in ran.said


def test_a_session_is_looked_at_and_steered_from_elsewhere(served: Path, documents: Path) -> None:
    """Any session is found by its id, takes higher limits, ends when told to, and cannot be changed any more."""
    where = ("--state-dir", served)
    for name in ("first", "second"):
        begin = ("start", *where, "--docs", documents, "--approve-plan", "--id", name, _QUESTION)
        assert chargehand(*begin).code == 0
    for name in ("first", "second"):
        hold_until(
            lambda name=name: "awaiting_approval" in chargehand("status", *where, "--json", name).out, "the plan"
        )

    status = chargehand("status", *where, "first")
    plan = chargehand("plan", *where, "first")
    typed = chargehand("plan", *where, "first", "--json")
    trace = chargehand("trace", *where, "first")
    listed = chargehand("list", *where)
    raised = chargehand("raise", *where, "first", "--turns", "25", "--budget", "3", "--deadline", "20m")
    lowered = chargehand("raise", *where, "first", "--turns", "20")
    finished = chargehand("finish", *where, "first")
    result = chargehand("result", *where, "first", "--json")
    too_late = chargehand("finish", *where, "first")
    cancelled = chargehand("cancel", *where, "second")
    none = chargehand("result", *where, "second")

    assert "awaiting approval" in status.out
    assert plan.out.startswith("T1 ")
    assert Plan.model_validate_json(typed.out).subtasks[0].id == "T1"
    assert Trace.model_validate_json(trace.out).steps[0].id == "first"
    assert re.search(r"awaiting approval .* first ", listed.out)
    assert (raised.code, lowered.code, finished.code, too_late.code) == (0, 1, 0, 1), raised.said + finished.said
    assert "New limits of session first: 25 turns, $3.00, until " in raised.said
    assert "max_turns: 20 is not more than the present 25" in lowered.said
    assert (result.code, Report.model_validate_json(result.out).stop_reason) == (3, "finish_now")
    assert "'first' has ended (stopped by `finish`). It can no longer be changed" in too_late.said
    assert cancelled.code == 0, cancelled.said
    assert (none.code, none.out) == (1, "")
    assert "Session 'second' was cancelled." in none.said


def test_a_kept_report_is_not_shown_for_a_session_that_goes_on(served: Path, documents: Path) -> None:
    """After a reset, as after a restored database, a session is shown as it is now, and by its new end."""
    where, note = ("--state-dir", served), StateDirectory(served).read_note()
    assert note
    assert chargehand("run", *where, "--docs", documents, "--id", "twice", _QUESTION).code in {0, 3}
    before = chargehand("result", *where, "--json", "twice")
    reset = ("workflow", "reset", "--workflow-id", "twice", "--event-id", "4", "--reason", "a test")
    temporal = Path(sys.executable).with_name("temporal")
    subprocess.run([temporal, *reset, "--address", note.address], check=True, capture_output=True)
    after = chargehand("result", *where, "--json", "twice")
    status = chargehand("status", *where, "--json", "twice")

    ends = [Report.model_validate_json(each.out).timing.ended_at for each in (before, after)]
    again = Status.model_validate_json(status.out).subtasks[-1].ended_at
    assert again
    assert ends[0] < again <= ends[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run",), "either GOAL or --input FILE"),
        (("run", "--input", "-", "A question"), "either GOAL or --input FILE"),
        (("run", "--turns", "many", "A fair question"), "Invalid value for '--turns'"),
        (("run", "--docs", "", "A fair question"), "a path is not empty"),
        (("run", "--docs", "/nowhere/at/all", "A fair question"), "No such file or folder: /nowhere/at/all"),
        (("raise", "any"), "--turns, --budget and --deadline"),
    ],
)
def test_wrong_usage_starts_nothing(state: Path, arguments: tuple[str, ...], message: str) -> None:
    """What can be seen to be wrong ends with exit code 2 before any server is started."""
    ran = chargehand(*arguments, "--state-dir", state)

    assert (ran.code, ran.out) == (2, "")
    assert message in ran.said
    assert not state.exists()


def test_a_tape_needs_a_worker_of_its_own(served: Path, tmp_path: Path) -> None:
    """While another command uses the embedded worker, nothing is recorded or replayed, and no file is left."""
    tape = tmp_path / "tape.jsonl"
    ran = chargehand("tape", "record", "--state-dir", served, tape, _QUESTION)

    assert ran.code == 2
    assert f"The embedded worker was started without CHARGEHAND_TAPE_RECORD={tape}" in ran.said
    assert not tape.exists()


@pytest.mark.nightly
def test_a_named_server_is_used_and_its_worker_missed(state: Path, documents: Path) -> None:
    """With a server named, no embedded one is started; documents need a shared directory; doctor misses a worker."""
    server = EmbeddedServer(state, None)
    server.join()
    address, own = server.wait().address, state.with_name("own")

    listed = chargehand("list", "--state-dir", own, TEMPORAL_ADDRESS=address)
    upload = chargehand("run", "--state-dir", own, "--docs", documents, "A fair question", TEMPORAL_ADDRESS=address)
    doctor = chargehand("doctor", "--state-dir", own, TEMPORAL_ADDRESS=address)
    server.leave()

    assert (listed.code, listed.out, listed.said) == (0, "", "There are no sessions.\n")
    assert upload.code == 2
    assert "the server set by TEMPORAL_ADDRESS" in upload.said
    assert "--artifacts or CHARGEHAND_ARTIFACTS" in upload.said
    assert doctor.code == 4
    assert "✘ No worker polls task queue 'chargehand'" in doctor.out
    assert not own.exists()


@pytest.mark.nightly
def test_doctor_says_what_is_active_and_why(served: Path) -> None:
    """Everything that a session needs is named, with the reason for its choice."""
    doctor = chargehand("doctor", "--state-dir", served)

    assert doctor.code == 0, doctor.out
    assert "✔ model: extractive (no ANTHROPIC_API_KEY, OPENAI_BASE_URL or OPENAI_API_KEY" in doctor.out
    assert f"✔ large payloads: {served / 'payloads'} (CHARGEHAND_STORAGE; a trial write succeeded)" in doctor.out
    assert "✔ 1 worker(s) on task queue 'chargehand'" in doctor.out
    assert "none stuck" in doctor.out
