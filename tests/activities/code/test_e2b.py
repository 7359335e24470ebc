"""E2B through its real SDK over the wire, against a loopback server."""

import asyncio
import resource
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import unquote

import pytest
from e2b_server import E2BServer, serve_e2b
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.tools.code.e2b import E2BRunner
from activities.tools.code.e2b_limits import E2BLimits
from activities.tools.code.protocol import CodeResult, GivenFile
from activities.tools.outputs import ToolOutput
from chargehand.wire import ErrorType

LIMITS = E2BLimits(execution=timedelta(seconds=20), request=timedelta(seconds=5), output_characters=1_000)


@pytest.fixture
def service() -> Iterator[E2BServer]:
    with serve_e2b() as server:
        yield server


def runner(service: E2BServer, limits: E2BLimits = LIMITS) -> E2BRunner:
    return E2BRunner("e2b_key", api_url=service.url, sandbox_url=service.url, limits=limits)


async def test_a_run_comes_back_whole(service: E2BServer) -> None:
    """Output, value and pictures come back, from a sandbox that is named and ended, without internet unless allowed."""
    service.lines = [
        {"type": "stdout", "text": "one\n", "timestamp": 1},
        {"type": "stderr", "text": "careful\n", "timestamp": 2},
        {"type": "stdout", "text": "two\n", "timestamp": 3},
        {"type": "result", "text": "42", "png": "aGk=", "is_main_result": True},
        {"type": "number_of_executions", "execution_count": 1},
    ]

    result = await runner(service).run("print('one')", "session/step")

    figure = ToolOutput(name="figure-1.png", content=b"hi")  # aGk= in base64
    made = service.created[0]
    assert result == CodeResult(stdout="one\ntwo\n", stderr="careful\n", value="42", files=(figure,))
    assert (service.executed[0]["code"], service.killed, service.keys) == ("print('one')", ["sb1"], ["e2b_key"])
    assert (made["allow_internet_access"], made["metadata"]) == (False, {"chargehand": "session/step"})
    assert made["timeout"] == 40  # 20 s of execution and four calls of 5 s
    allowed = E2BRunner("e2b_key", api_url=service.url, sandbox_url=service.url, internet=True, limits=LIMITS)
    await allowed.run("1", "s/1")
    assert service.created[1]["allow_internet_access"] is True
    assert ("with internet" in allowed.language, "without internet" in runner(service).language) == (True, True)


async def test_a_program_has_the_rows_of_its_query(service: E2BServer, tmp_path: Path) -> None:
    """They are written to the sandbox and read into the variable before the program, which runs as it is."""
    await runner(service).run("len(rows)", "s/1", rows=[{"a": "é"}])

    loading, program = (execution["code"] for execution in service.executed)
    [content] = [content for path, content in service.written.items() if path.endswith(".rows.json")]
    (tmp_path / "rows.json").write_bytes(content)
    defined: dict[str, object] = {}
    exec(loading.replace("/home/user/.rows.json", str(tmp_path / "rows.json")), defined)  # as the sandbox does
    assert (program, defined["rows"]) == ("len(rows)", [{"a": "é"}])


async def test_javascript_has_the_rows_in_its_own_language(service: E2BServer) -> None:
    """Rows and program run in JavaScript; what the program saved is listed as ever."""
    await runner(service).run("rows.length", "s/1", rows=[{"a": "é</script>"}], language="javascript")

    assert [(each["code"], each["language"]) for each in service.executed] == [
        ('globalThis.rows = JSON.parse("[{\\"a\\":\\"\\u00e9</script>\\"}]");', "javascript"),
        ("rows.length", "javascript"),
    ]


async def test_an_error_of_the_code_is_a_result(service: E2BServer) -> None:
    """What the code printed before it failed comes back with the traceback."""
    service.lines = [
        {"type": "stdout", "text": "begun\n", "timestamp": 1},
        {"type": "error", "name": "ZeroDivisionError", "value": "division by zero", "traceback": "Traceback: 1/0"},
    ]

    result = await runner(service).run("1/0", "s/1")

    assert result == CodeResult(stdout="begun\n", error="Traceback: 1/0")
    assert service.killed == ["sb1"]


async def test_code_that_runs_too_long_is_a_result(service: E2BServer) -> None:
    """A timeout of the execution is told to the agent; it is no fault of the service."""
    service.hold_execution = threading.Event()
    limits = LIMITS.model_copy(update={"execution": timedelta(seconds=0.2)})

    result = await runner(service, limits).run("while True: pass", "s/1")

    assert result == CodeResult(error="The code ran longer than 0.2 seconds and was stopped. Do less at once.")
    assert service.killed == ["sb1"]


PERMANENT = (ErrorType.TOOL_UNAVAILABLE, True)
PASSING = (ErrorType.TOOL_UNAVAILABLE, False)
LIMITED = (ErrorType.RATE_LIMITED, False)


async def test_a_refused_sandbox_is_a_typed_error(service: E2BServer) -> None:
    """Only Temporal retries, and only what can pass by itself."""
    ends = {**dict.fromkeys((400, 401, 403), PERMANENT), 429: LIMITED, **dict.fromkeys((500, 503), PASSING)}
    for service.create_status, kind in ends.items():
        service.created.clear()
        error = await fault(service)
        assert (error.type, error.non_retryable) == kind
        assert (len(service.created), "e2b_key" in str(error)) == (1, False)


@pytest.mark.nightly
async def test_a_sandbox_that_is_gone_is_tried_again(service: E2BServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sandbox lost while the code ran is a fault of the service, as is no connection: it passes."""
    # The SDK retries a refused connection three times, seconds apart.
    monkeypatch.setattr("e2b.api.client_async.connection_retries", 0)
    monkeypatch.setattr("e2b.api.client_async._transports", {})
    service.execute_status = 502
    with serve_e2b() as unreachable:
        pass

    lost, unreached = await fault(service), await fault(unreachable)

    assert [(error.type, error.non_retryable) for error in (lost, unreached)] == [PASSING, PASSING]
    assert service.killed == ["sb1"]


async def test_only_a_further_attempt_ends_what_a_crash_left_behind(service: E2BServer) -> None:
    """A lost worker's sandbox is found by the name of its call; those of other calls are left alone."""
    service.running = {"left": {"chargehand": "w:1/2"}, "other": {"chargehand": "w:1/3"}, "foreign": {}}
    first, second = ActivityEnvironment(), ActivityEnvironment()
    second.info = replace(second.info, attempt=2)

    await first.run(runner(service).run, "1", "w:1/2")
    assert (service.asked_for, service.killed) == ([], ["sb1"])

    await second.run(runner(service).run, "1", "w:1/2")
    asked = [unquote(unquote(asked["metadata"][0])) for asked in service.asked_for]  # the SDK quotes twice
    assert (asked, service.killed) == (["chargehand=w:1/2"], ["sb1", "left", "sb1"])


async def fault(service: E2BServer) -> ApplicationError:
    with pytest.raises(ApplicationError) as caught:
        await runner(service).run("1", "s/1")
    return caught.value


async def test_a_sandbox_that_cannot_be_ended_costs_no_result(service: E2BServer) -> None:
    """The result stands; the service ends the sandbox when its time is over."""
    service.lines = [{"type": "stdout", "text": "done", "timestamp": 1}]
    service.kill_status = 500

    result = await runner(service).run("print('done')", "s/1")

    assert result == CodeResult(stdout="done")
    assert service.killed == ["sb1"]


@pytest.mark.parametrize("held", ["execution", "creation"])
async def test_cancelling_a_run_ends_its_sandbox(service: E2BServer, held: str) -> None:
    """Cancelled while the code runs, or while the sandbox is being made, no sandbox is left behind."""
    hold = threading.Event()
    setattr(service, f"hold_{held}", hold)
    has_begun = service.executing if held == "execution" else service.creating
    running = asyncio.create_task(runner(service).run("while True: pass", "s/1"))
    assert await asyncio.to_thread(has_begun.wait, 10)

    running.cancel()
    if held == "creation":
        hold.set()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert (service.killed, len(service.executed)) == (["sb1"], held == "execution")


async def test_documents_go_in_and_files_come_out(service: E2BServer, tmp_path: Path) -> None:
    """Documents lie where the program looks for them, and what it saves comes back with its pictures."""
    (tmp_path / "0").write_bytes(b"a,b\n\x00\xff")
    service.saved = {"sum.csv": b"3\n"}
    service.lines = [{"type": "result", "svg": "<svg/>", "jpeg": "aGk=", "html": "<p>", "is_main_result": False}]

    result = await runner(service).run("compute()", "s/1", [GivenFile("in/sales.csv", tmp_path / "0")])

    assert result == CodeResult(
        files=(
            ToolOutput(name="figure-1.jpg", content=b"hi"),
            ToolOutput(name="figure-1.svg", content=b"<svg/>"),
            ToolOutput(name="sum.csv", content=b"3\n"),
        )
    )
    assert service.written == {"/home/user/documents/in/sales.csv": b"a,b\n\x00\xff", "/home/user/artifacts/.keep": b""}
    assert service.read == ["/home/user/artifacts/sum.csv"]
    assert service.killed == ["sb1"]


async def test_only_files_of_the_folder_come_back(service: E2BServer) -> None:
    """Names that lead elsewhere, links, and files that are larger than was said stay behind, and are named."""
    service.saved = {
        "../../etc/passwd": b"root",
        "/etc/passwd": b"root",
        "..": b"",
        "link": None,
        "sparse": b"",
        "lies": b"x" * (10 * 1024 * 1024 + 1),
        "gone": b"",
        "good.txt": b"good",
    }
    service.told_sizes = {"sparse": 4 * 2**30, "lies": 3}

    result = await runner(service).run("save()", "s/1")

    assert result.files == (ToolOutput(name="gone", content=b""), ToolOutput(name="good.txt", content=b"good"))
    assert result.left_out == (
        "../../etc/passwd: not a regular file",
        "/etc/passwd: not a regular file",
        "..: not a regular file",
        "link: not a regular file",
        "sparse: too many or too large files",
        "lies: too many or too large files",
    )
    assert service.read == [f"/home/user/artifacts/{name}" for name in ("lies", "gone", "good.txt")]


async def test_a_flood_in_one_piece_is_not_taken_in(service: E2BServer) -> None:
    """One line of 200 MB would be put together by the SDK before anyone could measure it; it is cut off on its way."""
    service.flood_bytes = 200 * 1024 * 1024
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    result = await runner(service).run("print('x' * 200_000_000)", "s/1")

    assert "showed too much" in result.error
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150 << 10
    assert service.killed == ["sb1"]
