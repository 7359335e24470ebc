"""Sessions that arrive at a rate, whether those before them have ended or not."""

import asyncio
import time
from collections.abc import Callable

from chaos.harness import Harness, Outcome


async def arrive(
    harness: Harness,
    rate: float,
    seconds: float,
    ended: Callable[[Outcome], object] = lambda _: None,
    *,
    prefix: str = "s",
    patience: float = 300,
) -> list[Outcome]:
    """Start so many sessions a second, evenly, and wait for the end of all; in the order of their starts."""

    async def one(number: int) -> Outcome:
        outcome = await harness.session(f"{prefix}-{number:06}", patience)
        ended(outcome)
        return outcome

    began = time.monotonic()
    running: list[asyncio.Task[Outcome]] = []
    async with asyncio.TaskGroup() as sessions:
        while (due := len(running) / rate) < seconds:
            await asyncio.sleep(max(0.0, began + due - time.monotonic()))
            running.append(sessions.create_task(one(len(running))))
    return [task.result() for task in running]
