"""A command's interface to the shell: output streams, signals and exit codes."""

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from enum import IntEnum
from shutil import get_terminal_size
from textwrap import fill
from typing import TYPE_CHECKING, Final, TextIO

from chargehand_cli.rendering.escaping import json_text, one_safe_line, safe_text

if TYPE_CHECKING:
    from rich.console import Console

_RESTORE_SCREEN: Final = "\x1b[?1049l\x1b[?25h"
"""Leaves the screen of the live tree, and shows the cursor."""
_consoles: Final[list["Console"]] = []
_received: Final[list[signal.Signals]] = []
_passing: Final[list[str]] = []


class Exit(IntEnum):
    """Exit codes of every command; they are part of the interface."""

    DONE = 0
    """The command succeeded; its report, if any, is complete."""
    FAILED = 1
    """The session failed or was stopped, or `doctor`, `replay` or `verify` found a problem."""
    BAD_INPUT = 2
    """The request, an option or a session id is invalid."""
    PARTIAL = 3
    """There is a report, but it has gaps, or the session was stopped before its plan was finished."""
    UNREACHABLE = 4
    """The Temporal server or a worker does not answer."""
    INTERRUPTED = 130
    """Ctrl-C or SIGTERM."""


def say(line: str) -> None:
    """Write a line to standard error that is not part of the result."""
    _remove_passing_line()
    _write(sys.stderr, safe_text(line) + "\n")


def put(text: str) -> None:
    """Write a part of the result to standard output."""
    _write(sys.stdout, safe_text(text).removesuffix("\n") + "\n")


def put_row(row: str) -> None:
    """Write a row of a list; on a narrower terminal, wrap it without breaking words."""
    width = get_terminal_size().columns if sys.stdout.isatty() else len(row)
    if len(row) > width:
        row = fill(row, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    put(row)


def put_part(text: str) -> None:
    """Write a part of a line to standard output."""
    _write(sys.stdout, safe_text(text))


def put_check(summary: str, problem: str) -> None:
    """Write the result of a check, with its problem below."""
    put(f"{'✘' if problem else '✔'} {summary}")
    if problem:
        put(f"       {one_safe_line(problem, 600)}")


def put_json(text: str) -> None:
    """Write JSON to standard output, escaping terminal controls without changing values."""
    _write(sys.stdout, json_text(text).removesuffix("\n") + "\n")


def _write(stream: TextIO, text: str) -> None:
    stream.write(text)
    stream.flush()


def put_markdown(markdown: str) -> None:
    """Write Markdown to standard output: rendered on a terminal, as plain text elsewhere."""
    if not sys.stdout.isatty():
        put(markdown)
        return
    from rich.markdown import Markdown

    # Links show their address: a hidden one could lead anywhere.
    console(sys.stdout).print(Markdown(safe_text(markdown), hyperlinks=False))


def console(stream: TextIO) -> "Console":
    from rich.console import Console

    built = Console(file=stream, highlight=False)
    _consoles.append(built)
    return built


def run_interruptible(work: Coroutine[object, object, Exit]) -> Exit:
    """Run a command. The first Ctrl-C or SIGTERM cancels it and lets it clean up; the second exits immediately."""
    try:
        return asyncio.run(_cancel_on_signal(work))
    except asyncio.CancelledError:
        return Exit.INTERRUPTED


async def _cancel_on_signal(work: Coroutine[object, object, Exit]) -> Exit:
    task = asyncio.create_task(work)

    def interrupt(number: signal.Signals) -> None:
        if task.cancelling():
            _exit_at_once()
        _received.append(number)
        task.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt, number)
    return await task


@contextmanager
def ended_by_signals() -> Generator[None]:
    """Let Ctrl-C and SIGTERM end a blocking read, during which the loop's own handlers would not run."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def can_ask() -> bool:
    """Return whether there is a terminal for questions, and no signal has asked the process to end."""
    return sys.stdin.isatty() and sys.stderr.isatty() and signal.SIGTERM not in _received


def resume_after_interrupt() -> None:
    """Continue a command that a signal has cancelled; the next signal cancels it again."""
    if task := asyncio.current_task():
        task.uncancel()


def prompt(text: str) -> None:
    """Write a prompt to standard error; the answer is typed after it."""
    _write(sys.stderr, safe_text(text))


@contextmanager
def passing_line(text: str) -> Generator[None]:
    """Show a transient line on a terminal until other output appears or the context ends."""
    if sys.stderr.isatty():
        prompt(text)
        _passing.append(text)
    try:
        yield
    finally:
        _remove_passing_line()


def _remove_passing_line() -> None:
    if _passing:
        _passing.clear()
        _write(sys.stderr, "\r\x1b[K")


async def read_line() -> str:
    """Read a line from the terminal without blocking the event loop; empty at end of file."""
    loop = asyncio.get_running_loop()
    line: asyncio.Future[bytes] = loop.create_future()
    descriptor = sys.stdin.fileno()
    # A terminal delivers input by line; Python's own buffer would swallow the lines after this one.
    loop.add_reader(descriptor, lambda: line.done() or line.set_result(os.read(descriptor, 4_096)))
    try:
        return (await line).decode(errors="replace").strip()
    finally:
        loop.remove_reader(descriptor)


def _exit_at_once() -> None:
    if any(each.is_alt_screen for each in _consoles):  # otherwise the cursor would jump to where it was last saved
        sys.stderr.write(_RESTORE_SCREEN)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(Exit.INTERRUPTED)
