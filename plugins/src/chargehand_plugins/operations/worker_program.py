"""Run the worker program's own checks, since commands do not load workflows or open documents."""

import asyncio
import json
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

from chargehand.environment import BAD_SETTINGS
from chargehand_cli.embedded.state import WorkerCommand
from chargehand_cli.run_options import BadRequest
from chargehand_cli.terminal import put_json

Checked = dict[str, Any]
"""The result for one item; `problem` is empty if the item passed."""
_LONGEST_RESULT: Final = 16 << 20
"""Maximum bytes of a result line, which may contain all prompts of a crew."""


async def check(
    worker: WorkerCommand, option: str, file: Path, settings: dict[str, str], *, show: Callable[[Checked], None] | None
) -> list[Checked]:
    """Run `worker_main.py OPTION FILE` and show each result on arrival; without `show`, write JSON at the end.

    Raises:
        BadRequest: the file or the worker's settings are invalid.
    """
    process = await _start(worker, option, str(file), settings=settings)
    assert process.stdout, "it is a pipe"
    assert process.stderr, "it is a pipe"
    reading_errors = asyncio.create_task(process.stderr.read())
    results: list[Checked] = []
    try:
        async for line in process.stdout:
            results.append(cast("Checked", json.loads(line)))
            if show:
                show(results[-1])
    except BaseException:
        process.terminate()
        raise
    finally:
        await process.wait()
    errors = (await reading_errors).decode(errors="replace").strip()
    if process.returncode != (1 if any(each["problem"] for each in results) else 0):
        raise BadRequest(f"{errors[-2_000:]} (the worker's {option} exited with code {process.returncode})".lstrip())
    if show is None:
        put_json(json.dumps(results, indent=1))
    return results


async def explain(worker: WorkerCommand, *, timeout_seconds: float = 30) -> dict[str, Any]:
    """Run `worker_main.py --explain`, which describes the chosen backends.

    Raises:
        ValueError: the settings are invalid.
        TimeoutError: the program does not answer in time; its settings may be valid.
        BadRequest: the program cannot be started or is not the worker.
    """
    process = await _start(worker, "--explain", in_own_group=True)
    try:
        async with asyncio.timeout(timeout_seconds):
            output, errors = await process.communicate()
    except BaseException as error:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # its children may keep its pipes open
        await process.wait()
        if not isinstance(error, TimeoutError):
            raise
        program = f"{worker.command[0]} did not answer within {timeout_seconds:g} s"
        raise TimeoutError(f"{program}: this machine is slow or busy. Try again") from None
    words = errors.decode(errors="replace").strip()[-600:]
    if process.returncode == BAD_SETTINGS:
        raise ValueError(words)
    try:
        return cast("dict[str, Any]", json.loads(output))
    except ValueError:
        ended = f"{worker.command[0]} ended with code {process.returncode}, and did not describe its settings"
        raise BadRequest(f"{ended}: {words}. See CHARGEHAND_WORKER.") from None


async def _start(
    worker: WorkerCommand, *arguments: str, settings: dict[str, str] | None = None, in_own_group: bool = False
) -> asyncio.subprocess.Process:
    command: Sequence[str] = (*worker.command, *arguments)
    try:
        return await asyncio.create_subprocess_exec(
            *command,
            cwd=worker.directory,
            env=os.environ | worker.environment | (settings or {}),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=_LONGEST_RESULT,
            start_new_session=in_own_group,
        )
    except OSError as error:
        problem = f"The worker program {worker.command[0]} cannot be started: {error.strerror}. See CHARGEHAND_WORKER."
        raise BadRequest(problem) from error
