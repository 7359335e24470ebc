"""The job that every program runs, and the loop that receives jobs from the benchmark."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext

from pydantic import BaseModel

MODEL = "gpt-4.1-mini"
GOAL = "Look into 5 parts of the ferry line, each with 1 rounds of reading 570 bytes."
"""That of `benchmarks.scripted`."""
PLANNER = "You are the planner. Split the request into five independent research questions."
RESEARCHER = "You are a researcher. Look the question up with the search tool, then answer it in a paragraph."
WRITER = "You are the writer. Write one page from the findings, the most important first."
PASSAGE = "The evening ferry ran late on 14 of 61 days, chiefly because of fog and one failed ramp motor. " * 6
TOOL_SECONDS = 0.1


class Plan(BaseModel):
    """The planner's answer."""

    questions: list[str]


Run = Callable[[str, int | None], Awaitable[str]]
"""Runs the job with this id and at most this many model calls, if the framework can limit them."""


def serve(run: Run, opened: AbstractAsyncContextManager[None] | None = None) -> None:
    """Run the jobs that arrive as lines of JSON, and answer each with a line, while something such as a worker runs."""
    # Output of the frameworks must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    asyncio.run(_serve(run, opened or nullcontext(), lambda said: print(json.dumps(said), file=answers, flush=True)))


async def _serve(run: Run, opened: AbstractAsyncContextManager[None], tell: Callable[[dict[str, str]], None]) -> None:
    async with opened:
        tell({"state": "ready"})
        while line := await asyncio.to_thread(sys.stdin.readline):
            asked = json.loads(line)
            try:
                tell({"state": "answered", "answer": await run(asked["id"], asked["cap"])})
            except Exception as error:  # noqa: BLE001  # any exception of the framework is its answer
                tell({"state": "failed", "error": f"{type(error).__name__}: {error}"})
