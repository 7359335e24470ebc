"""Sessions that arrive at a given rate, whether or not earlier ones have ended."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final

from chaos.harness import PATIENT, Harness, Outcome

_CAPACITY_SESSIONS: Final = 40


async def carry(harness: Harness) -> tuple[list[Outcome], float]:
    """Run a burst of sessions; also return the sessions a second that the machine now carries with its other load."""
    began = time.monotonic()
    outcomes = await harness.sessions(_CAPACITY_SESSIONS, at_once=_CAPACITY_SESSIONS, prefix="capacity")
    return outcomes, len(outcomes) / (time.monotonic() - began)


async def arrive(
    harness: Harness,
    rate: float,
    seconds: float,
    ended: Callable[[Outcome], object] = lambda _: None,
    *,
    prefix: str = "s",
    most_open: int = 100_000,
    limits: Mapping[str, object] = PATIENT,
) -> list[Outcome]:
    """Start sessions at a steady rate, and wait until all have ended; results are in the order of their starts.

    While `most_open` of them are open, none is started, and those that were due in the meantime are skipped.
    """
    free = asyncio.Semaphore(most_open)

    async def one(number: int) -> Outcome:
        try:
            outcome = await harness.session(f"{prefix}-{number:06}", 300, limits=limits)
        finally:
            free.release()
        ended(outcome)
        return outcome

    began = time.monotonic()
    running: list[asyncio.Task[Outcome]] = []
    due = began
    async with asyncio.TaskGroup() as sessions:
        while due < began + seconds:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            await free.acquire()
            running.append(sessions.create_task(one(len(running))))
            due = max(due, time.monotonic() - 1 / rate) + 1 / rate
    return [task.result() for task in running]
