"""Stall timeout of models and tools: reset by any progress, independent of the total deadline."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Final

Progress = Callable[[], None]
"""Called on progress, in the event loop's thread."""
_SLACK: Final = 0.02
"""Tolerated excess over the limit, since resetting a timer costs more than processing most pieces."""
_note: Final[ContextVar[Progress | None]] = ContextVar("progress", default=None)


@asynccontextmanager
async def stall_limit(first_seconds: float, gap_seconds: float) -> AsyncGenerator[Progress]:
    """Raise `TimeoutError` if progress is not reported for too long; yield the function that reports it."""
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
                is_open = False  # a running task may still report progress
    except TimeoutError:
        if not silence.expired():
            raise
        raise TimeoutError(f"it sent nothing for {allowed:g} seconds.") from None


@asynccontextmanager
async def tool_stall_limit(seconds: float) -> AsyncGenerator[None]:
    """Raise `TimeoutError` if a tool call is silent for too long; the call's helpers report progress."""
    async with stall_limit(seconds, seconds) as progress:
        token = _note.set(progress)
        try:
            yield
        finally:
            _note.reset(token)


def note_progress() -> None:
    """Report progress of the current tool call, if any, such as bytes, rows or output."""
    progress = _note.get()
    if progress is not None:
        progress()
