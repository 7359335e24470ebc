"""Check the worker's settings before anything is started."""

import asyncio
import hashlib
import json
import os
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Final

from chargehand import ChargehandError
from chargehand.environment import COMMAND_SETTINGS, PREFIX
from chargehand.plugins import installed
from chargehand_cli.embedded.state import StateDirectory, WorkerCommand, write_private
from chargehand_cli.rendering.escaping import one_safe_line

_ADDRESSES: Final = frozenset({"ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "TAVILY_BASE_URL"})
_SECONDS: Final = 60


class WrongSettings(ChargehandError):  # noqa: N818  # reads as a statement: `except WrongSettings`
    """The settings of the worker are invalid; the message names each."""


async def check_settings(worker: WorkerCommand, state: Path) -> None:
    """Make the worker program check its settings, unless none are set or they were valid last time.

    Raises:
        WrongSettings: they are invalid.
    """
    environment = os.environ | worker.environment
    named = {each for each in environment if each.startswith(PREFIX)} | (_ADDRESSES & environment.keys())
    named, own = named - COMMAND_SETTINGS, worker.environment.keys()
    if named <= own or (named := named - installed().command_variables) <= own:
        return
    settings = {name: environment[name] for name in named}
    facts = json.dumps([version("chargehand-cli"), worker.command, str(worker.directory), sorted(settings.items())])
    digest = hashlib.sha256(facts.encode()).hexdigest()
    checked = state / "settings.checked"
    with suppress(OSError):
        if checked.read_text() == digest:
            return
    if problem := await _problem(worker, environment):
        raise WrongSettings(problem)
    with suppress(OSError):
        StateDirectory(state).create()
        write_private(checked, digest)


async def _problem(worker: WorkerCommand, environment: dict[str, str]) -> str:
    try:
        process = await asyncio.create_subprocess_exec(
            *(*worker.command, "--check-settings"),
            cwd=worker.directory,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError:
        return ""  # reported when the worker itself is started
    try:
        async with asyncio.timeout(_SECONDS):
            _, errors = await process.communicate()
    except BaseException:
        process.kill()
        raise
    return one_safe_line(errors.decode(errors="replace"), 2_000) if process.returncode else ""
