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


async def test_a_run_returns_output_value_and_pictures(service: E2BServer) -> None:
    """The sandbox is named after the call and ended afterwards, and has internet only if allowed."""
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


async def test_query_rows_are_loaded_before_the_program(service: E2BServer, tmp_path: Path) -> None:
    """They are written to the sandbox and read into `rows`; the program itself runs unchanged."""
    await runner(service).run("len(rows)", "s/1", rows=[{"a": "é"}])

    loading, program = (execution["code"] for execution in service.executed)
    [content] = [content for path, content in service.written.items() if path.endswith(".rows.json")]
    (tmp_path / "rows.json").write_bytes(content)
    defined: dict[str, object] = {}
    exec(loading.replace("/home/user/.rows.json", str(tmp_path / "rows.json")), defined)  # as the sandbox does
    assert (program, defined["rows"]) == ("len(rows)", [{"a": "é"}])


async def test_javascript_programs_get_the_rows_in_javascript(service: E2BServer) -> None:
    """Both the loading of the rows and the program run in JavaScript."""
    await runner(service).run("rows.length", "s/1", rows=[{"a": "é</script>"}], language="javascript")

    assert [(each["code"], each["language"]) for each in service.executed] == [
        ('globalThis.rows = JSON.parse("[{\\"a\\":\\"\\u00e9</script>\\"}]");', "javascript"),
        ("rows.length", "javascript"),
    ]


async def test_an_exception_in_the_code_is_a_result(service: E2BServer) -> None:
    """Output printed before the failure is returned with the traceback."""
    service.lines = [
        {"type": "stdout", "text": "begun\n", "timestamp": 1},
        {"type": "error", "name": "ZeroDivisionError", "value": "division by zero", "traceback": "Traceback: 1/0"},
    ]

    result = await runner(service).run("1/0", "s/1")

    assert result == CodeResult(stdout="begun\n", error="Traceback: 1/0")
    assert service.killed == ["sb1"]


async def test_an_execution_timeout_is_a_result(service: E2BServer) -> None:
    """The agent is told of the time limit; the timeout is not a fault of the service."""
    service.hold_execution = threading.Event()
    limits = LIMITS.model_copy(update={"execution": timedelta(seconds=0.2)})

    result = await runner(service, limits).run("while True: pass", "s/1")

    assert result == CodeResult(error="The code ran longer than 0.2 seconds and was stopped. Do less at once.")
    assert service.killed == ["sb1"]


PERMANENT = (ErrorType.TOOL_UNAVAILABLE, True)
PASSING = (ErrorType.TOOL_UNAVAILABLE, False)
LIMITED = (ErrorType.RATE_LIMITED, False)


async def test_a_refused_sandbox_raises_a_typed_error(service: E2BServer) -> None:
    """Only Temporal retries, and only what can pass by itself."""
    ends = {**dict.fromkeys((400, 401, 403), PERMANENT), 429: LIMITED, **dict.fromkeys((500, 503), PASSING)}
    for service.create_status, kind in ends.items():
        service.created.clear()
        error = await fault(service)
        assert (error.type, error.non_retryable) == kind
        assert (len(service.created), "e2b_key" in str(error)) == (1, False)


@pytest.mark.nightly
async def test_lost_sandboxes_and_connections_are_retryable(
    service: E2BServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sandbox lost during execution and an unreachable service are transient faults."""
    # The SDK retries a refused connection three times, seconds apart.
    monkeypatch.setattr("e2b.api.client_async.connection_retries", 0)
    monkeypatch.setattr("e2b.api.client_async._transports", {})
    service.execute_status = 502
    with serve_e2b() as unreachable:
        pass

    lost, unreached = await fault(service), await fault(unreachable)

    assert [(error.type, error.non_retryable) for error in (lost, unreached)] == [PASSING, PASSING]
    assert service.killed == ["sb1"]


async def test_only_a_retry_ends_the_sandbox_of_a_lost_worker(service: E2BServer) -> None:
    """The sandbox is found by the name of its call; those of other calls are left alone."""
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


async def test_failing_to_end_the_sandbox_keeps_the_result(service: E2BServer) -> None:
    """The service ends the sandbox itself when its time is over."""
    service.lines = [{"type": "stdout", "text": "done", "timestamp": 1}]
    service.kill_status = 500

    result = await runner(service).run("print('done')", "s/1")

    assert result == CodeResult(stdout="done")
    assert service.killed == ["sb1"]


@pytest.mark.parametrize("held", ["execution", "creation"])
async def test_cancelling_a_run_ends_its_sandbox(service: E2BServer, held: str) -> None:
    """No sandbox is left, whether cancelled during execution or while the sandbox is created."""
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


async def test_documents_are_uploaded_and_saved_files_returned(service: E2BServer, tmp_path: Path) -> None:
    """Documents are placed where the program looks for them; saved files are returned with its pictures."""
    (tmp_path / "0").write_bytes(b"a,b\n\x00\xff")
    service.saved = {"sum.csv": b"3\n"}
    service.lines = [{"type": "result", "svg": "<svg/>", "jpeg": "aGk=", "html": "<p>", "is_main_result": False}]

    result = await runner(service).run("compute()", "s/1", [GivenFile("in/sales.csv", tmp_path / "0")])

    files = {"figure-1.jpg": b"hi", "figure-1.svg": b"<svg/>", "sum.csv": b"3\n"}
    assert result == CodeResult(files=tuple(ToolOutput(name=name, content=files[name]) for name in files))
    assert service.written == {"/home/user/documents/in/sales.csv": b"a,b\n\x00\xff", "/home/user/artifacts/.keep": b""}
    assert service.read == ["/home/user/artifacts/sum.csv"]
    assert service.killed == ["sb1"]


async def test_only_regular_files_of_the_artifacts_folder_are_returned(service: E2BServer) -> None:
    """Path traversal, links and files larger than stated are left out and listed by name."""
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
    no_file = [f"{name}: not a regular file" for name in ("../../etc/passwd", "/etc/passwd", "..", "link")]
    assert result.left_out == (*no_file, *(f"{name}: too many or too large files" for name in ("sparse", "lies")))
    assert service.read == [f"/home/user/artifacts/{name}" for name in ("lies", "gone", "good.txt")]


async def test_a_200_mb_output_line_is_cut_off_in_transit(service: E2BServer) -> None:
    """The SDK would assemble the whole line in memory before its size could be checked."""
    service.flood_bytes = 200 * 1024 * 1024
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    result = await runner(service).run("print('x' * 200_000_000)", "s/1")

    assert "showed too much" in result.error
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150 << 10
    assert service.killed == ["sb1"]
