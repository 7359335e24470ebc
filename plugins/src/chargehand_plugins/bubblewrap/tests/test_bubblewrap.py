"""The real bubblewrap: what programs can do in it, and its refusal where it cannot contain them."""

import asyncio
import os
import shutil
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from activities.backends import SettingsError
from activities.tools.code.protocol import CodeResult, GivenFile
from activities.tools.code.registry import code_backend
from activities.tools.outputs import ToolOutput
from chargehand_plugins.bubblewrap import isolation
from chargehand_plugins.bubblewrap.runner import BubblewrapRunner, SandboxUnusableError
from chargehand_plugins.bubblewrap.self_test import require_tight
from chargehand_plugins.bubblewrap.tests.bubblewrap_sandbox import ALLOW_ALL, LIMITS, can_hold, inside, ran
from tests.child_processes import children
from tests.waiting import until
from worker.settings import Settings


async def test_bubblewrap_is_refused_when_it_is_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The error says how to install it; there is no fallback to a weaker sandbox."""
    monkeypatch.setenv("PATH", str(tmp_path))
    settings = Settings(code="bubblewrap", state_dir=tmp_path)

    async with AsyncExitStack() as closing:
        with pytest.raises(SettingsError) as caught:
            await code_backend().builder(settings, code_backend().choose(settings).adapter)(settings, closing)

    assert str(caught.value) == (
        "CHARGEHAND_CODE=bubblewrap cannot be used here: bubblewrap is not installed "
        "(on Debian and Ubuntu: apt install bubblewrap)."
    )


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (
            "echo 'bwrap: No permissions to create a new namespace' >&2\nexit 1",
            "on this host: bwrap: No permissions to create a new namespace. It needs user namespaces, which many",
        ),
        ("cat >/dev/null\necho '[]'", "the self-test of the bubblewrap sandbox did not finish"),
    ],
    ids=["refused by the host", "only looks like bwrap"],
)
async def test_a_bwrap_that_creates_no_sandbox_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, reason: str
) -> None:
    """The error quotes bwrap and its requirements; only a self-test that ran inside the sandbox passes."""
    fake = tmp_path / "bwrap"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.defpath}")

    with pytest.raises(SandboxUnusableError, match=reason):
        await require_tight(BubblewrapRunner())


async def test_a_missing_packages_folder_is_refused(tmp_path: Path) -> None:
    """A wrong path is reported at worker start."""
    reason = "there is no folder" if shutil.which("bwrap") else "not installed"

    with pytest.raises(SandboxUnusableError, match=reason):
        BubblewrapRunner(packages=tmp_path / "none").start()


async def test_the_sandbox_passes_its_self_test_on_every_capable_host() -> None:
    """Where bwrap can create a namespace, the sandbox starts and every escape fails, including from Node."""
    refusal, runner = "", BubblewrapRunner()
    try:
        await require_tight(runner)
    except SandboxUnusableError as error:
        refusal = str(error)

    has_javascript = can_hold() and shutil.which("node") is not None
    assert (refusal == "") == can_hold(), refusal
    assert runner.languages == (("python", "javascript") if has_javascript else ("python",))
    assert ("JavaScript runs in Node within the same limits" in runner.language) == has_javascript


@inside
async def test_code_receives_the_rows_of_its_query() -> None:
    """The rows are in the variable `rows`; without a query, it is undefined."""
    runner = BubblewrapRunner(LIMITS)
    runner.start()

    given = await runner.run("rows[1]['b'] + len(rows)", "s/1", rows=[{"b": 1}, {"b": 40}])
    without = await runner.run("rows", "s/1")

    assert given == CodeResult(value="42")
    assert without.error.endswith("NameError: name 'rows' is not defined")


@inside
async def test_the_self_test_detects_a_missing_seccomp_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the filter, namespaces alone allow processes, sockets and unmetered memory."""
    monkeypatch.setattr(isolation, "filter_program", lambda: ALLOW_ALL)

    with pytest.raises(SandboxUnusableError) as caught:
        await require_tight(BubblewrapRunner())

    assert str(caught.value) == (
        "on this host, code in the bubblewrap sandbox can start processes, reach rarely used parts of the kernel, "
        "take memory that no limit counts, open sockets"
    )


@inside
async def test_the_self_test_detects_an_exposed_host_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host folder that code can read and write is found by a file left in it."""
    made = isolation.command

    def with_a_hole(*arguments: object, **named: object) -> list[str]:
        line = made(*arguments, **named)  # pyright: ignore[reportArgumentType]
        at = line.index("--dev")
        return [*line[:at], "--bind", "/tmp", "/tmp", *line[at:]]

    monkeypatch.setattr(isolation, "command", with_a_hole)

    with pytest.raises(SandboxUnusableError) as caught:
        await require_tight(BubblewrapRunner())

    await asyncio.to_thread(Path("/tmp/escaped").unlink, missing_ok=True)
    assert "read the host's files, write outside its folder, reach a file of the host" in str(caught.value)


@inside
async def test_code_returns_its_output_and_last_value() -> None:
    """Both streams and the last expression's value are returned; classes, generators and threads work."""
    code = (
        "import sys, statistics, threading\n"
        "class Base:\n    pass\n"
        "class Child(Base):\n    def numbers(self):\n        yield from (1, 2, 3)\n"
        "thread = threading.Thread(target=print, args=('from a thread',))\nthread.start(); thread.join()\n"
        "print('note', file=sys.stderr)\n"
        "statistics.mean(Child().numbers())"
    )

    assert await ran(code) == CodeResult(stdout="from a thread\n", stderr="note\n", value="2")


@inside
async def test_an_exception_is_returned_as_a_result() -> None:
    """The traceback shows only the program's own lines, and earlier output is kept."""
    result = await ran("print('begun')\ndef share(parts):\n    return 1 / parts\nshare(0)")

    assert result.stdout == "begun\n"
    assert result.error.endswith(
        "line 3, in share\n    return 1 / parts\n           ~~^~~~~~~\nZeroDivisionError: division by zero"
    )
    assert "bubblewrap" not in result.error


@inside
async def test_code_reads_documents_and_returns_files(tmp_path: Path) -> None:
    """Documents are read-only; files written to `artifacts` are returned."""
    document = tmp_path / "0"
    document.write_text("a,b\n1,2\n")
    code = (
        "import csv, pathlib\n"
        "rows = list(csv.reader(open('documents/in/sales.csv')))\n"
        "pathlib.Path('artifacts/sum.txt').write_text(str(rows))\n"
        "try:\n    open('documents/in/sales.csv', 'a')\nexcept OSError as error:\n    print(error.strerror)\n"
    )

    result = await ran(code, files=(GivenFile("in/sales.csv", document),))

    made = ToolOutput(name="sum.txt", content=b"[['a', 'b'], ['1', '2']]")
    assert result == CodeResult(stdout="Read-only file system\n", files=(made,))
    assert document.read_text() == "a,b\n1,2\n"


@inside
async def test_code_imports_only_packages_from_the_operators_folder(tmp_path: Path) -> None:
    """Packages installed in the worker's environment cannot be imported."""
    (tmp_path / "greeting.py").write_text("text = 'hello'")

    result = await ran("import greeting\nprint(greeting.text)\nimport pydantic", packages=tmp_path)

    assert result.stdout == "hello\n"
    assert result.error.endswith("ModuleNotFoundError: No module named 'pydantic'\nPackages cannot be installed.")
    assert "and the packages greeting and no others" in BubblewrapRunner(packages=tmp_path).language


@inside
async def test_open_matplotlib_figures_are_returned(tmp_path: Path) -> None:
    """Figures still open when the program ends are saved as PNG files."""
    folder = tmp_path / "matplotlib"
    folder.mkdir()
    (folder / "__init__.py").touch()
    # Only the part that is used: the real one is not in the sandbox.
    (folder / "pyplot.py").write_text(
        "class Figure:\n    def savefig(self, path):\n        open(path, 'wb').write(b'picture')\n"
        "def get_fignums(): return [1]\ndef figure(number): return Figure()\n"
    )

    result = await ran("import matplotlib.pyplot", packages=tmp_path)

    assert result == CodeResult(files=(ToolOutput(name="figure-1.png", content=b"picture"),))


@inside
async def test_cancelling_stops_the_sandbox_at_once() -> None:
    """A cancelled program leaves no process and does not run on to its own limit."""
    runner = BubblewrapRunner(LIMITS.model_copy(update={"seconds": 60.0}))
    runner.start()
    running = asyncio.create_task(runner.run("while True: pass", "s/1"))
    await until(lambda: bool(children("bwrap")))

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert children("bwrap") == set()
