"""Attacks from inside bubblewrap: on the host, the network and the sandbox's own limits."""

import asyncio
import resource
import time

import pytest

from activities.tools.code.protocol import CodeResult
from activities.tools.outputs import ToolOutput
from chargehand_plugins.bubblewrap import isolation
from chargehand_plugins.bubblewrap.runner import BubblewrapRunner
from chargehand_plugins.bubblewrap.tests.bubblewrap_sandbox import ALLOW_ALL, LIMITS, inside, ran
from tests.child_processes import children


@inside
async def test_the_network_namespace_alone_blocks_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even without the seccomp filter, a server on the host's loopback is unreachable."""
    monkeypatch.setattr(isolation, "filter_program", lambda: ALLOW_ALL)
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    async with server:
        result = await ran(f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 2)\nprint('reached')")

    assert result.stdout == ""
    assert result.error.endswith("ConnectionRefusedError: [Errno 111] Connection refused")


@inside
async def test_each_run_starts_with_a_clean_folder() -> None:
    """Files left by one run are not visible to the next, whatever its session."""
    await ran("open('secret.txt', 'w').write('canary')")

    result = await ran("import os\nprint(os.listdir('.'), os.listdir('artifacts'))")

    assert result == CodeResult(stdout="['artifacts'] []\n")


# fmt: off
REFUSED = {
    "files, environment, devices and powers of the host": [
        "open('/etc/passwd').read()", "open('/etc/hostname').read()", "open('/proc/self/environ').read()",
        "open('/proc/1/cmdline').read()", "import os\nos.listdir('/home')", "import os\nos.listdir('/root/.ssh')",
        "import os\nos.listdir('/sys')", "import os\nos.symlink('/etc/passwd', 'link')\nopen('link').read()",
        "import os\nassert 'CANARY' not in os.environ\nopen('/var/run/secrets').read()",
        "open('/usr/lib/x', 'w')", "open('/x', 'w')", "open('/dev/shm/x', 'w')", "open('/tmp/x', 'w')",
        "import os\nos.mknod('/work/null', 0o20666, os.makedev(1, 3))", "import os\nos.chroot('/work')",
        "import os\nos.setuid(0)", "import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))",
    ],
    "the network, outside or loopback, by any socket": [
        "import socket\nsocket.create_connection(('127.0.0.1', 7233), 1)",
        "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 53))",
        "import socket\nsocket.socket(socket.AF_INET6)",
        "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_RAW)",
        "import socket\nsocket.socket(socket.AF_UNIX).connect('\\0abstract')",
        "import socket\nsocket.socket(socket.AF_UNIX).bind('/work/socket')",
        "import socket\nsocket.socket(16, socket.SOCK_RAW)", "import socket\nsocket.socket(17, socket.SOCK_RAW)",
        "import socket\nsocket.getaddrinfo('example.org', 80)",
        "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:7233', timeout=1)",
        "import socket\nsocket.create_server(('127.0.0.1', 0))",
    ],
    "processes, memory that no limit counts, and more of anything than there may be": [
        "import os\nos.fork()", "import subprocess\nsubprocess.run(['/bin/true'])",
        "import multiprocessing as m\nm.Process(target=print).start()",
        "import mmap\nmmap.mmap(-1, 2**30)", "import os\nos.memfd_create('x')", "open('sparse', 'wb').truncate(2**40)",
        "kept = [open('x', 'w') for i in range(1000)]", "for i in range(99): open(str(i), 'wb').write(bytes(2**20))",
    ],
}
# fmt: on


@pytest.mark.parametrize("attempts", REFUSED.values(), ids=REFUSED)
@inside
async def test_access_outside_the_sandbox_is_refused(monkeypatch: pytest.MonkeyPatch, attempts: list[str]) -> None:
    """Each attempt raises an error, and the worker's environment variables are absent."""
    monkeypatch.setenv("CANARY", "canary-in-the-environment")
    code = (
        f"for attempt in {attempts!r}:\n"
        "    try:\n        exec(attempt, {})\n    except (OSError, ValueError):\n        pass\n"
        "    else:\n        print(attempt)\n"
    )

    assert await ran(code) == CodeResult()


@pytest.mark.slow
@inside
async def test_code_over_its_time_limit_is_stopped() -> None:
    """Sleeping, ignoring signals, forking or closing descriptors does not prevent it."""
    cases = [
        "import time\ntime.sleep(3600)",
        "import signal\n[signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]\nwhile True: pass",
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        "import os\nos.setsid()\nwhile True: os.closerange(0, 64)",
    ]
    for code in cases:
        limits = LIMITS.model_copy(update={"seconds": 1.0})
        started = time.monotonic()
        result = await ran(code, limits)
        assert time.monotonic() - started <= limits.seconds + 10
        assert result == CodeResult(error="The code ran longer than 1 seconds and was stopped. Do less at once.")
        assert children("bwrap") == set()


@pytest.mark.slow
@inside
async def test_code_that_exhausts_a_resource_is_stopped() -> None:
    """No process remains and the worker's memory grows by at most 64 MB, whatever the code uses up."""
    cases = [
        ("import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(99,)).start()", ""),
        ("kept = []\nwhile True: kept.append(bytearray(2**20))", "512 MB of memory"),
        ("f = open('big', 'wb')\nwhile True: f.write(bytes(2**20))", "OSError"),
        ("i = 0\nwhile True:\n    open(str(i), 'w')\n    i += 1", "more than 500 files"),
        ("import sys\nwhile True: sys.stderr.write('x' * 1000)", "printed more than 10000 bytes"),
        ("import os\nwhile True: os.write(1, bytes(2**20))", "printed more than 10000 bytes"),
        ("import os\nos._exit(0)", "ended its process"),
        ("import os\nos.kill(-1, 9)", ""),
        ("import ctypes\nctypes.string_at(0)", "ended its process"),
        ("(" * 10_000, "Error"),
        ("print('begun'", "SyntaxError: '(' was never closed"),
        ("import os\n[os.write(d, b'junk\\n') for d in range(3, 64)]", ""),
        ("import os\nos.closerange(0, 64)", ""),
    ]
    for code, says in cases:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        started = time.monotonic()
        result = await ran(code)

        assert time.monotonic() - started <= LIMITS.seconds + 10
        assert says in result.error
        assert len(result.stdout) + len(result.stderr) <= LIMITS.output_bytes
        assert children("bwrap") == set()
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before <= 64 << 10


@pytest.mark.slow
@inside
async def test_a_fork_bomb_does_not_affect_another_sandbox() -> None:
    """A program that runs beside the fork bomb returns its value as usual."""
    runner = BubblewrapRunner(LIMITS.model_copy(update={"seconds": 2.0}))
    runner.start()

    forks = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    bomb, answer = await asyncio.gather(runner.run(forks, "s/1"), runner.run("6 * 7", "s/2"))

    assert "ran longer" in bomb.error
    assert answer == CodeResult(value="42")


@inside
async def test_only_regular_files_come_back() -> None:
    """Links, pipes, folders and oversized files are left out and listed with the reason."""
    code = (
        "import os\nos.chdir('artifacts')\n"
        "os.symlink('/etc/passwd', 'a-link')\nos.symlink('../../program.py', 'b-link')\nos.mkfifo('c-pipe')\n"
        "os.mkdir('d-folder')\nopen('e.txt', 'w').write('kept')\nos.link('e.txt', 'f.txt')\n"
        "open('g-sparse', 'wb').truncate(30 * 2**20)\nopen('h\\n..\\\\..\\\\x', 'w').write('odd')\n"
    )

    result = await ran(code)

    content = {file.name: file.content for file in result.files}
    assert content == {"e.txt": b"kept", "f.txt": b"kept", "h\n..\\..\\x": b"odd"}
    irregular = [f"{name}: not a regular file" for name in ("a-link", "b-link", "c-pipe", "d-folder")]
    assert result.left_out == (*irregular, "g-sparse: too many or too large files")


@inside
async def test_code_that_forges_the_sandboxs_answer_gains_nothing() -> None:
    """A forged answer can contain only what the program could return anyway."""
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
