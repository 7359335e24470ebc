"""The time-out for silence of models and tools: any progress resets it, apart from the deadline of the whole."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Final

Progress = Callable[[], None]
"""Called at every sign of life, in the event loop's thread."""
_SLACK: Final = 0.02
"""By which share a silence may be longer than allowed: setting a timer costs more than most pieces that arrive."""
_note: Final[ContextVar[Progress | None]] = ContextVar("progress", default=None)


@asynccontextmanager
async def stall_limit(first_seconds: float, gap_seconds: float) -> AsyncGenerator[Progress]:
    """Give up after a silence, until the first progress and between two; call the yielded function at each.

    Raises:
        TimeoutError: there was a silence that was too long.
    """
    loop = asyncio.get_running_loop()
    allowed = first_seconds

    def progress() -> None:
        nonlocal allowed, due
        if not is_open or silence.expired():
            return
        allowed = gap_seconds
        now = loop.time()
        if now + allowed > due or due - now > (1 + _SLACK) * allowed:
            due = now + (1 + _SLACK) * allowed
            silence.reschedule(due)

    due = loop.time() + allowed
    silence, is_open = asyncio.timeout_at(due), True
    try:
        async with silence:
            try:
                yield progress
            finally:
                is_open = False  # a task that goes on may still note progress
    except TimeoutError:
        if not silence.expired():
            raise
        raise TimeoutError(f"it sent nothing for {allowed:g} seconds.") from None


@asynccontextmanager
async def tool_stall_limit(seconds: float) -> AsyncGenerator[None]:
    """Give up a tool's call after a silence; what it uses notes its progress.

    Raises:
        TimeoutError: there was a silence that was too long.
    """
    async with stall_limit(seconds, seconds) as progress:
        token = _note.set(progress)
        try:
            yield
        finally:
            _note.reset(token)


def note_progress() -> None:
    """Note that bytes, rows or output have arrived for the running tool call, if there is one."""
    progress = _note.get()
    if progress is not None:
        progress()
