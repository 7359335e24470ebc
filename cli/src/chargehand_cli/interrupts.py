"""Ctrl-C and SIGTERM: the first one asks the command to come to an end, the second one ends it at once."""

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from typing import Final

from chargehand_cli.exit_codes import Exit

_SHOW_CURSOR: Final = "\x1b[?25h"


def run_interruptible(work: Coroutine[object, object, Exit]) -> Exit:
    """Run a command's work; the first interrupt cancels it, and it may still clean up."""
    try:
        return asyncio.run(_guarded(work))
    except asyncio.CancelledError:
        return Exit.INTERRUPTED


async def _guarded(work: Coroutine[object, object, Exit]) -> Exit:
    task = asyncio.create_task(work)
    interrupts = 0

    def interrupt() -> None:
        nonlocal interrupts
        interrupts += 1
        if interrupts > 1:
            _leave_at_once()
        task.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    return await task


def _leave_at_once() -> None:
    if sys.stderr.isatty():
        sys.stderr.write(_SHOW_CURSOR)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(Exit.INTERRUPTED)
