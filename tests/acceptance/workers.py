"""Workers as separate processes, which can be killed."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from temporalio.service import RPCError

from tests.waiting import until

ROOT: Final = Path(__file__).resolve().parents[2]
_FOR_OTHERS: Final = """
import sys
from worker import program, workers
check = workers.CallerCheck
workers.CallerCheck = lambda _: check(sys.argv[1])
sys.exit(program.main([]))
"""


@asynccontextmanager
async def worker_process(
    settings: Mapping[str, str], serves: str | None = None, *, program: str = _FOR_OTHERS
) -> AsyncGenerator[asyncio.subprocess.Process]:
    """Run `worker_main.py` with these environment variables; the process is gone afterwards, however it was stopped.

    It serves the sessions of its own task queue, or with `serves` a front's workflows on that queue. Another `program`
    is given that name as its argument.
    """
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **settings}
    command = ("-c", program, serves) if serves else (str(ROOT / "worker_main.py"),)
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, env=environment, cwd=ROOT, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def answered(call: Callable[[], Awaitable[object]]) -> None:
    """Wait until the server answers a call; it learns of a deployment only after its first worker has started."""

    async def is_answered() -> bool:
        with suppress(RPCError):
            await call()
            return True
        return False

    await until(is_answered)
