"""Workers as processes of their own, which can be killed."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]


@asynccontextmanager
async def worker_process(settings: Mapping[str, str]) -> AsyncGenerator[asyncio.subprocess.Process]:
    """Run `worker_main.py` with these environment variables; it is gone afterwards, however it was stopped."""
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **settings}
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(ROOT / "worker_main.py"), env=environment, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
