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
def test_interrupting_run_without_a_terminal_leaves_the_session_running(served: Path, documents: Path) -> None:
    """SIGINT exits with 130 and prints the `watch` command; the session is still listed as running."""
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
def test_session_survives_sigkill_of_server_and_worker(state: Path, documents: Path) -> None:
    """After kill -9 of keeper, server and worker, the plan is approved on the next server and `watch` ends."""
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
    """The command exits with the reason; the next worker cancels the session instead of answering it."""
    where = ("--state-dir", state, "--docs", documents)
    failed = chargehand(*verb, *where, given="Hello", **settings)
    held = is_held(state / "keeper.lock")
    chargehand("run", *where, "What happens to a lamp that flickers?")
    listed = json.loads(chargehand("list", "--state-dir", state, "--json").out)

    assert (failed.code, failed.out, held) == (code, "", False)
    assert reason in failed.said
    assert {each["state"] for each in listed[1:]} <= {"canceled"}


def test_first_run_uses_project_tools_and_survives_a_killed_worker(tmp_path: Path) -> None:
    """A call approved after kill -9 acts once, no turn is paid twice, and all stored files are private."""
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
def test_worker_with_an_unloadable_plugin_opens_no_console(state: Path) -> None:
    """The command exits with code 2 and reports the plug-in before it prints any address."""
    with process("worker", "--state-dir", state, "--plugin", "no_such_module") as run:
        out, said = run.communicate(timeout=100)

    assert (run.returncode, out) == (2, "")
    assert said.startswith("chargehand: The worker cannot start: The plug-in 'no_such_module'")
    assert "Console" not in said


# Commands: what they print and how they exit.


def test_quiet_omits_only_the_progress(served: Path, documents: Path) -> None:
    """Standard output still has the session state and the answer with its sources."""
    run = ("run", "--state-dir", served, "--docs", documents, "What happens to a lamp that flickers?")
    told, quiet = chargehand(*run), chargehand(*run, "--quiet")
    (state, *answer), (quiet_state, *quiet_answer) = told.out.splitlines(), quiet.out.splitlines()

    assert (quiet.said, quiet_answer) == ("", answer)
    assert quiet_state.partition(" · ")[0] == state.partition(" · ")[0] == "Answered, not all verified"


def test_json_option_prints_only_the_report_on_standard_output(served: Path, documents: Path) -> None:
    """The request may come from standard input with --input -."""
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
    """`up` prints a sign-in link; the API answers 401 without the token in $CHARGEHAND_CONSOLE_TOKEN."""
    _, said = up
    console = re.search(r"Console: (\S+)/login\?code=\S+", said)
    assert console, said

    refused = get(f"{console[1]}/api/v1/sessions", trust_env=False)
    answered = get(f"{console[1]}/api/v1/sessions", headers={"Authorization": f"Bearer {_TOKEN}"}, trust_env=False)

    assert f"HTTP API: {console[1]}/api/v1 with the token $CHARGEHAND_CONSOLE_TOKEN" in said
    assert (refused.status_code, [*answered.json()]) == (401, ["sessions"])


def test_worker_command_refuses_to_share_a_running_worker(served: Path) -> None:
    """`worker` exits with code 2 if another command already runs a worker in the state directory."""
    refused = chargehand("worker", "--state-dir", served)

    assert refused.code == 2
    assert f"Another command runs a worker in {served}" in refused.said


def test_invalid_output_leaves_standard_output_empty(served: Path, documents: Path, tmp_path: Path) -> None:
    """The exit code and standard error report the failure, and the text answer is kept."""
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object"}')

    ran = chargehand("run", "--state-dir", served, "--docs", documents, "--output-schema", schema, _QUESTION)

    assert (ran.code, ran.out) == (Exit.PARTIAL, "")
    assert "No valid output: To put a report into another shape takes a language model" in ran.said
    assert "Go on: chargehand open session-" in ran.said


def test_sessions_are_inspected_and_controlled_by_id(served: Path, documents: Path) -> None:
    """Limits can be raised but not lowered, `finish` writes a report, and an ended session is read-only."""
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


def test_a_saved_report_is_not_shown_while_its_session_is_running(served: Path, documents: Path) -> None:
    """After a reset or a restored database, a session is shown in its current state, and with its new end."""
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
def test_wrong_usage_exits_before_any_server_starts(state: Path, arguments: tuple[str, ...], message: str) -> None:
    """Invalid arguments exit with code 2 and create no state directory."""
    ran = chargehand(*arguments, "--state-dir", state)

    assert (ran.code, ran.out) == (2, "")
    assert message in ran.said
    assert not state.exists()


def test_tape_commands_require_their_own_worker(served: Path, tmp_path: Path) -> None:
    """While another command uses the embedded worker, nothing is recorded and no tape file is left."""
    tape = tmp_path / "tape.jsonl"
    ran = chargehand("tape", "record", "--state-dir", served, tape, _QUESTION)

    assert ran.code == 2
    assert f"The embedded worker was started without CHARGEHAND_TAPE_RECORD={tape}" in ran.said
    assert not tape.exists()


@pytest.mark.nightly
def test_temporal_address_replaces_the_embedded_server(state: Path, documents: Path) -> None:
    """Uploads then require a shared artifact store, and doctor reports that no worker polls the task queue."""
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
def test_doctor_reports_active_components_and_the_reason_for_each(served: Path) -> None:
    """Model, payload storage, workers and stuck sessions are listed, each choice with its setting."""
    doctor = chargehand("doctor", "--state-dir", served)

    assert doctor.code == 0, doctor.out
    assert "✔ model: extractive (no ANTHROPIC_API_KEY, OPENAI_BASE_URL or OPENAI_API_KEY" in doctor.out
    assert f"✔ large payloads: {served / 'payloads'} (CHARGEHAND_STORAGE; a trial write succeeded)" in doctor.out
    assert "✔ 1 worker(s) on task queue 'chargehand'" in doctor.out
    assert "none stuck" in doctor.out
