"""Bubblewrap for real, attacks on it, and its refusal where it cannot hold.

Where it cannot be used (it is not installed, or the host allows no user namespaces) every test of the inside proves
instead that it is refused with a reason; `test_it_holds_wherever_the_host_can_hold_it` keeps that from hiding a fault.
"""

import asyncio
import functools
import os
import resource
import shutil
import struct
import subprocess
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from activities.backends import SettingsError
from activities.code.bubblewrap import isolation
from activities.code.bubblewrap.runner import BubblewrapLimits, BubblewrapRunner, SandboxUnusableError
from activities.code.bubblewrap.self_test import require_tight
from activities.code.protocol import CodeResult, GivenFile
from activities.code.registry import CODE
from activities.settings import Settings
from activities.tool_outputs import ToolOutput
from tests.child_processes import children

LIMITS = BubblewrapLimits(seconds=10.0, memory_bytes=512 << 20, folder_bytes=16 << 20, files=500, output_bytes=10_000)
ALLOW_ALL = struct.pack("<HBBI", 0x06, 0, 0, 0x7FFF0000)

Test = Callable[..., Awaitable[None]]


@functools.cache
def can_hold() -> bool:
    """Whether this host has bubblewrap and lets it make namespaces, asked without any code of ours."""
    bwrap = shutil.which("bwrap")
    tried = [bwrap or "", "--unshare-all", "--unshare-user", "--disable-userns", "--ro-bind", "/", "/", "true"]
    return bwrap is not None and subprocess.run(tried, check=False, capture_output=True).returncode == 0


def inside(test: Test) -> Test:
    """Run a test where the sandbox can be used; elsewhere prove that it is refused."""

    @functools.wraps(test)
    async def run(*arguments: object, **named: object) -> None:
        if can_hold():
            await test(*arguments, **named)
            return
        with pytest.raises(SandboxUnusableError):
            await require_tight(BubblewrapRunner())

    return run


async def ran(
    code: str, limits: BubblewrapLimits = LIMITS, files: tuple[GivenFile, ...] = (), packages: Path | None = None
) -> CodeResult:
    runner = BubblewrapRunner(limits, packages)
    runner.start()
    return await runner.run(code, "s/1", files)


async def test_it_is_refused_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whoever asks for it is told what is missing; nothing weaker takes its place."""
    monkeypatch.setenv("PATH", str(tmp_path))
    settings = Settings(code="bubblewrap", state_dir=tmp_path)

    async with AsyncExitStack() as closing:
        with pytest.raises(SettingsError) as caught:
            await CODE.builder(settings, CODE.choose(settings).adapter)(settings, closing)

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
    """Where bwrap alone makes a namespace, our sandbox starts and every way out that is tried is shut."""
    refusal = ""
    try:
        await require_tight(BubblewrapRunner())
    except SandboxUnusableError as error:
        refusal = str(error)

    assert (refusal == "") == can_hold(), refusal


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
        line = made(*arguments, **named)  # pyright: ignore[reportArgumentType, reportCallIssue]
        at = line.index("--dev")
        return [*line[:at], "--bind", "/tmp", "/tmp", *line[at:]]

    monkeypatch.setattr(isolation, "command", with_a_hole)

    with pytest.raises(SandboxUnusableError) as caught:
        await require_tight(BubblewrapRunner())

    await asyncio.to_thread(Path("/tmp/escaped").unlink, missing_ok=True)
    assert "read the host's files, write outside its folder, reach a file of the host" in str(caught.value)


@inside
async def test_the_namespace_alone_keeps_the_network_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the filter of system calls to fail, a server on the host's loopback could still not be reached."""
    monkeypatch.setattr(isolation, "filter_program", lambda: ALLOW_ALL)
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    async with server:
        result = await ran(f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 2)\nprint('reached')")

    assert result.stdout == ""
    assert result.error.endswith("ConnectionRefusedError: [Errno 111] Connection refused")


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
async def test_every_piece_of_code_starts_clean() -> None:
    """Nothing of one piece of code is there for the next, whoever's it is."""
    await ran("open('secret.txt', 'w').write('canary')")

    result = await ran("import os\nprint(os.listdir('.'), os.listdir('artifacts'))")

    assert result == CodeResult(stdout="['artifacts'] []\n")


@inside
@pytest.mark.parametrize(
    "code",
    ["open('/etc/passwd').read()", "open('/etc/hostname').read()", "open('/proc/self/environ').read()",
     "open('/proc/1/cmdline').read()", "import os\nos.listdir('/home')", "import os\nos.listdir('/root/.ssh')",
     "import os\nos.listdir('/sys')", "import os\nos.symlink('/etc/passwd', 'link')\nopen('link').read()",
     "import pathlib\nassert 'CANARY' not in __import__('os').environ\npathlib.Path('/var/run/secrets').read_text()",
     "open('/usr/lib/x', 'w')", "open('/x', 'w')", "open('/dev/shm/x', 'w')", "open('/tmp/x', 'w')",
     "import os\nos.mknod('/work/null', 0o20666, os.makedev(1, 3))", "import os\nos.chroot('/work')",
     "import os\nos.setuid(0)", "import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))"],
)  # fmt: skip
async def test_nothing_of_the_host_can_be_read_or_written(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files, environment, devices and powers of the host are not there (S13)."""
    monkeypatch.setenv("CANARY", "canary-in-the-environment")

    result = await ran(code)

    assert "Error" in result.error
    assert "canary-in-the-environment" not in result.model_dump_json()


@inside
@pytest.mark.parametrize(
    "code",
    ["import socket\nsocket.create_connection(('127.0.0.1', 7233), 1)",
     "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 53))",
     "import socket\nsocket.socket(socket.AF_INET6)",
     "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_RAW)",
     "import socket\nsocket.socket(socket.AF_UNIX).connect('\\0abstract')",
     "import socket\nsocket.socket(socket.AF_UNIX).bind('/work/socket')",
     "import socket\nsocket.socket(16, socket.SOCK_RAW)", "import socket\nsocket.socket(17, socket.SOCK_RAW)",
     "import socket\nsocket.getaddrinfo('example.org', 80)",
     "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:7233', timeout=1)",
     "import socket\nsocket.create_server(('127.0.0.1', 0))"],
)  # fmt: skip
async def test_there_is_no_network(code: str) -> None:
    """Neither outside nor loopback, whatever the kind of socket (S14)."""
    result = await ran(code)

    assert "rror: [Errno " in result.error or "URLError" in result.error
    assert (result.stdout, result.value) == ("", "")


@inside
@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "import time\ntime.sleep(3600)",
        "import signal\n[signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]\nwhile True: pass",
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        "import re\nre.match('(a+)+$', 'a' * 50 + 'b')",
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        "import os\nos.setsid()\nwhile True: os.closerange(0, 64)",
    ],
)
async def test_what_does_not_end_is_ended(code: str) -> None:
    """When its time is up, a second later at the latest, whatever it does about it (S15)."""
    limits = LIMITS.model_copy(update={"seconds": 1.0})
    started = time.monotonic()

    result = await ran(code, limits)

    assert time.monotonic() - started <= limits.seconds + 1
    assert result == CodeResult(error="The code ran longer than 1 seconds and was stopped. Do less at once.")
    assert children("bwrap") == set()


@inside
@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import os\nos.fork()", "PermissionError"),
        ("import subprocess\nsubprocess.run(['/bin/true'])", "Error"),
        ("import multiprocessing as m\nm.Process(target=print).start()", "PermissionError"),
        ("import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(99,)).start()", ""),
        ("bytearray(10 * 2**30)", "512 MB of memory"),
        ("kept = []\nwhile True: kept.append(bytearray(2**20))", "512 MB of memory"),
        ("import mmap\nmmap.mmap(-1, 2**30)", "Error"),
        ("import os\nos.memfd_create('x')", "PermissionError"),
        ("f = open('big', 'wb')\nwhile True: f.write(bytes(2**20))", "OSError"),
        ("for i in range(99): open(str(i), 'wb').write(bytes(2**20))", "No space left on device"),
        ("open('sparse', 'wb').truncate(2**40)", "OSError"),
        ("i = 0\nwhile True:\n    open(str(i), 'w')\n    i += 1", "more than 500 files"),
        ("import os\ni = 0\nwhile True:\n    os.mkdir(str(i))\n    i += 1", "more than 500 files"),
        ("kept = [open('x', 'w') for i in range(1000)]", "Too many open files"),
        ("while True: print('x' * 1000)", "printed more than 10000 bytes"),
        ("import sys\nwhile True: sys.stderr.write('x' * 1000)", "printed more than 10000 bytes"),
        ("import os\nwhile True: os.write(1, bytes(2**20))", "printed more than 10000 bytes"),
        ("import os\nos._exit(0)", "ended its process"),
        ("import os\nos.kill(os.getpid(), 9)", "ended its process"),
        ("import os\nos.kill(-1, 9)", ""),
        ("import ctypes\nctypes.string_at(0)", "ended its process"),
        ("def dive(): dive()\ndive()", "RecursionError"),
        ("(" * 10_000, "Error"),
        ("print('begun'", "SyntaxError: '(' was never closed"),
        ("import os\n[os.write(d, b'junk\\n') for d in range(3, 64)]", ""),
        ("import os\nos.closerange(0, 64)", ""),
    ],
)
async def test_exhaustion_is_stopped(code: str, says: str) -> None:
    """Whatever a program uses up, it is ended and told why, and nothing of it stays (S15)."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.monotonic()

    result = await ran(code)

    assert time.monotonic() - started <= LIMITS.seconds + 1
    assert says in result.error
    assert len(result.stdout) + len(result.stderr) <= LIMITS.output_bytes
    assert children("bwrap") == set()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before <= 64 << 10


@inside
async def test_the_next_program_is_not_affected() -> None:
    """A bomb in one sandbox, and the one beside it answers as ever."""
    runner = BubblewrapRunner(LIMITS.model_copy(update={"seconds": 2.0}))
    runner.start()

    bomb, answer = await asyncio.gather(
        runner.run("import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", "s/1"),
        runner.run("6 * 7", "s/2"),
    )

    assert "ran longer" in bomb.error
    assert answer == CodeResult(value="42")


@inside
async def test_only_regular_files_come_back() -> None:
    """Links, pipes, folders and what is too large stay behind, and are named (S17)."""
    code = (
        "import os\nos.chdir('artifacts')\n"
        "os.symlink('/etc/passwd', 'a-link')\nos.symlink('../../program.py', 'b-link')\nos.mkfifo('c-pipe')\n"
        "os.mkdir('d-folder')\nopen('e.txt', 'w').write('kept')\nos.link('e.txt', 'f.txt')\n"
        "open('g-sparse', 'wb').truncate(30 * 2**20)\nopen('h\\n..\\\\..\\\\x', 'w').write('odd')\n"
    )

    result = await ran(code)

    assert {file.name: file.content for file in result.files} == {
        "e.txt": b"kept",
        "f.txt": b"kept",
        "h\n..\\..\\x": b"odd",
    }
    assert result.left_out == (
        "a-link: not a regular file",
        "b-link: not a regular file",
        "c-pipe: not a regular file",
        "d-folder: not a regular file",
        "g-sparse: too many or too large files",
    )


@inside
async def test_a_program_that_speaks_for_the_sandbox_gains_nothing() -> None:
    """Whoever writes the sandbox's own answer can only say what a program may say anyhow."""
    code = (
        "import json, os\n"
        "told = {'value': 'v', 'error': '', 'files': [{'name': '../../x', 'bytes': 3}, {'name': 'y', 'bytes': -1},"
        " {'name': 'z', 'bytes': 10**12}], 'left_out': [], 'figures': []}\n"
        "for number in range(3, 1024):\n"
        "    try:\n"
        "        os.write(number, json.dumps(told).encode() + b'\\nabc')\n"
        "    except OSError:\n"
        "        pass\n"
        "os._exit(0)"
    )

    result = await ran(code)

    assert result.files == (ToolOutput(name="../../x", content=b"abc"),)
    assert result.value == "v"


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
    # As much of it as is used: the real one is not in the sandbox.
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
    while not children("bwrap"):
        await asyncio.wait({running}, timeout=0.01)

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert children("bwrap") == set()
