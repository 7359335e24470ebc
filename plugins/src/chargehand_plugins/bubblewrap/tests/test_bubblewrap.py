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


async def test_it_is_refused_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An operator who asks for it is told what is missing; nothing weaker takes its place."""
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
async def test_a_program_that_makes_no_sandbox_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, reason: str
) -> None:
    """The reason of bwrap is handed on, with what it needs; success counts only from inside a sandbox."""
    fake = tmp_path / "bwrap"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.defpath}")

    with pytest.raises(SandboxUnusableError, match=reason):
        await require_tight(BubblewrapRunner())


async def test_a_folder_of_packages_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """A wrong path is found at worker start."""
    reason = "there is no folder" if shutil.which("bwrap") else "not installed"

    with pytest.raises(SandboxUnusableError, match=reason):
        BubblewrapRunner(packages=tmp_path / "none").start()


async def test_it_holds_wherever_the_host_can_hold_it() -> None:
    """Where bwrap alone makes a namespace, our sandbox starts and every way out that is tried is shut, Node's too."""
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
async def test_a_program_has_the_rows_of_its_query() -> None:
    """As a variable, and nothing but the rows; without a query there is none."""
    runner = BubblewrapRunner(LIMITS)
    runner.start()

    given = await runner.run("rows[1]['b'] + len(rows)", "s/1", rows=[{"b": 1}, {"b": 40}])
    without = await runner.run("rows", "s/1")

    assert given == CodeResult(value="42")
    assert without.error.endswith("NameError: name 'rows' is not defined")


@inside
async def test_the_self_test_sees_a_sandbox_with_holes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the filter of system calls the namespaces alone let processes, sockets and uncounted memory through."""
    monkeypatch.setattr(isolation, "filter_program", lambda: ALLOW_ALL)

    with pytest.raises(SandboxUnusableError) as caught:
        await require_tight(BubblewrapRunner())

    assert str(caught.value) == (
        "on this host, code in the bubblewrap sandbox can start processes, reach rarely used parts of the kernel, "
        "take memory that no limit counts, open sockets"
    )


@inside
async def test_the_self_test_sees_the_host_through_a_hole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of the host that can be read and written is found by what was left in it."""
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
async def test_output_and_value_come_back() -> None:
    """Full Python: both streams, the value of the last expression, inheritance, generators, threads."""
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
async def test_an_error_is_a_result() -> None:
    """The traceback shows the program's own lines, and what was printed until then is kept."""
    result = await ran("print('begun')\ndef share(parts):\n    return 1 / parts\nshare(0)")

    assert result.stdout == "begun\n"
    assert result.error.endswith(
        "line 3, in share\n    return 1 / parts\n           ~~^~~~~~~\nZeroDivisionError: division by zero"
    )
    assert "bubblewrap" not in result.error


@inside
async def test_documents_go_in_and_files_come_out(tmp_path: Path) -> None:
    """A program reads the documents it was given, cannot change them, and its files come back."""
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
async def test_packages_are_those_of_the_folder(tmp_path: Path) -> None:
    """Code may import what the operator put there and nothing that the worker has installed."""
    (tmp_path / "greeting.py").write_text("text = 'hello'")

    result = await ran("import greeting\nprint(greeting.text)\nimport pydantic", packages=tmp_path)

    assert result.stdout == "hello\n"
    assert result.error.endswith("ModuleNotFoundError: No module named 'pydantic'\nPackages cannot be installed.")
    assert "and the packages greeting and no others" in BubblewrapRunner(packages=tmp_path).language


@inside
async def test_figures_come_back(tmp_path: Path) -> None:
    """What a program still shows by matplotlib when it ends is saved for it."""
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
async def test_cancelling_ends_the_sandbox() -> None:
    """A cancelled program stops at once, long before its own limit."""
    runner = BubblewrapRunner(LIMITS.model_copy(update={"seconds": 60.0}))
    runner.start()
    running = asyncio.create_task(runner.run("while True: pass", "s/1"))
    await until(lambda: bool(children("bwrap")))

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert children("bwrap") == set()
