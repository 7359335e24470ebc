"""The guarantees of a limited process: it ends when it should, and its parent learns of it."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from activities.processes.child import ChildDiedError, ChildProcess
from tests.child_processes import is_alive
from tests.waiting import until

_PARSER = "activities.documents.parser_process"
_ROOT = Path(__file__).parents[3]


@pytest.fixture
def probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ChildProcess]:
    """Make a child whose answer is this expression."""
    monkeypatch.setattr("activities.processes.child._APPLICATION_ROOT", f"{tmp_path}:{_ROOT}")
    monkeypatch.setattr(
        "activities.processes.child._BOOTSTRAP",
        "import sys, runpy; sys.path += sys.argv[1].split(':'); runpy.run_module(sys.argv[2], run_name='__main__')",
    )

    def make(answer: str) -> ChildProcess:
        program = f"import os, time\nfrom activities.processes import limits\nlimits.serve(lambda _: {answer})\n"
        (tmp_path / "probe.py").write_text(program)
        return ChildProcess("probe")

    return make


async def test_a_child_process_inherits_no_secrets(
    probe: Callable[[str], ChildProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment of a process that parses untrusted files has only LANG and PATH."""
    monkeypatch.setenv("SECRET_KEY", "canary")

    async with probe("{'names': sorted(os.environ)}") as child:
        answer = await child.ask({}, 30)

    assert answer == {"names": ["LANG", "PATH"]}


async def test_each_question_limits_the_processor_time_of_its_child(probe: Callable[[str], ChildProcess]) -> None:
    """A child that uses it up is killed long before its wall-clock limit, however busy the machine is."""
    async with probe("{'sum': sum(iter(int, 1))}") as child:
        with pytest.raises(ChildDiedError):
            await child.ask({"processor_seconds": 1}, 120)


async def test_a_cancelled_child_is_killed_with_what_it_forked(
    probe: Callable[[str], ChildProcess], tmp_path: Path
) -> None:
    """A fork that holds the pipes open does not delay the worker."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    child = probe(f"(os.fork(), open({str(pipe)!r}, 'w'), time.sleep(300))")
    asking = asyncio.ensure_future(child.ask({}, 300))
    reader = await asyncio.to_thread(pipe.open)  # waits until the child is busy

    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await child.close()

    # Both processes have the pipe open for writing: it ends when they have ended.
    assert await asyncio.to_thread(reader.read) == ""
    reader.close()


async def test_a_child_dies_with_a_killed_parent(tmp_path: Path) -> None:
    """A killed worker leaves no parser process behind, not even a busy one."""
    pipe = tmp_path / "pipe.html"
    os.mkfifo(pipe)
    file = {"name": "a.html", "path": str(pipe), "tables": str(tmp_path / "t"), "result": str(tmp_path / "r")}
    question = {"files": [file], "first_seconds": 5, "most_seconds": 5}
    program = (
        "import asyncio, sys\nfrom activities.processes.child import ChildProcess\n"
        "async def main():\n"
        f"    async with ChildProcess({_PARSER!r}) as child:\n"
        "        print(child._process.pid, flush=True)\n"
        f"        await child.ask({question!r}, 300)\n"
        "asyncio.run(main())\n"
    )
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, cwd=_ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    child = int(await parent.stdout.readline())
    # Opening the pipe for writing waits until the child reads it: it is busy from then on.
    writer = await asyncio.to_thread(os.open, pipe, os.O_WRONLY)

    parent.send_signal(signal.SIGKILL)
    await parent.wait()

    await until(lambda: not is_alive(child))
    os.close(writer)
