"""The same job hand-written on the bare SDK, as a careful engineer would write it: the cost of durability alone.

Every call is an activity that heartbeats. `HandWritten` has no children, `HandWrittenWithChildren` one per subtask.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypedDict

from temporalio import activity, workflow
from temporalio.common import RetryPolicy

with workflow.unsafe.imports_passed_through():
    from benchmarks.scripted import MODEL_NAME, QUOTE, TOOL, instruction

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_BEAT_SECONDS: Final = 3


class _Options(TypedDict):
    start_to_close_timeout: timedelta
    heartbeat_timeout: timedelta
    retry_policy: RetryPolicy


_OPTIONS: Final[_Options] = {
    "start_to_close_timeout": timedelta(minutes=2),
    "heartbeat_timeout": timedelta(seconds=10),
    "retry_policy": RetryPolicy(maximum_attempts=20),
}


@dataclass
class Job:
    goal: str
    subtasks: int
    rounds: int
    in_turn: bool = False
    """Whether the turn that asks for a tool also runs it."""


@dataclass
class Part:
    instruction: str
    rounds: int
    in_turn: bool = False


@dataclass
class Turn:
    instruction: str
    read: list[str]


@dataclass
class Writing:
    goal: str
    answers: list[str]


@asynccontextmanager
async def _heartbeats() -> AsyncGenerator[None]:
    """Heartbeat until the block ends, so that a lost worker is noticed."""

    async def beat() -> None:
        while True:
            await asyncio.sleep(_BEAT_SECONDS)
            activity.heartbeat()

    beating = asyncio.create_task(beat())
    try:
        yield
    finally:
        beating.cancel()


class Activities:
    """Model turns through OpenAI's SDK, and the tool."""

    def __init__(self, openai: "AsyncOpenAI") -> None:
        self._openai = openai

    @activity.defn(name="hand_written_plan")
    async def plan(self, job: Job) -> list[str]:
        await self._ask(job.goal)
        return [instruction(number) for number in range(1, job.subtasks + 1)]

    @activity.defn(name="hand_written_turn")
    async def turn(self, turn: Turn) -> str:
        return await self._ask("\n".join([turn.instruction, *turn.read]))

    @activity.defn(name="hand_written_tool")
    async def tool(self, query: str) -> str:  # noqa: ARG002  # the same passages for every query
        async with _heartbeats():
            await asyncio.sleep(TOOL.total_seconds())
        return "\n\n".join([QUOTE] * 2)

    @activity.defn(name="hand_written_turn_with_tool")
    async def turn_with_tool(self, turn: Turn) -> str:
        return await self.tool(await self.turn(turn))

    @activity.defn(name="hand_written_report")
    async def write(self, writing: Writing) -> str:
        return await self._ask("\n".join([writing.goal, *writing.answers]))

    @activity.defn(name="hand_written_check")
    async def check(self, writing: Writing) -> str:
        return await self._ask("\n".join([writing.goal, *writing.answers]))

    async def _ask(self, prompt: str) -> str:
        async with _heartbeats():
            response = await self._openai.responses.create(model=MODEL_NAME, input=prompt)
        return response.output_text


async def _carry_out(part: Part) -> str:
    """Run one subtask: turns with one tool call each, and the turn that answers."""
    read: list[str] = []
    for _ in range(part.rounds):
        if part.in_turn:
            turn = Turn(part.instruction, read)
            read.append(await workflow.execute_activity_method(Activities.turn_with_tool, turn, **_OPTIONS))
            continue
        query = await _take_turn(part, read)
        read.append(await workflow.execute_activity_method(Activities.tool, query, **_OPTIONS))
    return await _take_turn(part, read)


async def _take_turn(part: Part, read: list[str]) -> str:
    return await workflow.execute_activity_method(Activities.turn, Turn(part.instruction, read), **_OPTIONS)


async def _plan(job: Job) -> Sequence[Part]:
    instructions = await workflow.execute_activity_method(Activities.plan, job, **_OPTIONS)
    return [Part(each, job.rounds, job.in_turn) for each in instructions]


async def _write(job: Job, answers: list[str]) -> str:
    report = await workflow.execute_activity_method(Activities.write, Writing(job.goal, answers), **_OPTIONS)
    await workflow.execute_activity_method(Activities.check, Writing(report, answers), **_OPTIONS)
    return report


@workflow.defn
class HandWritten:
    @workflow.run
    async def run(self, job: Job) -> str:
        return await _write(job, await asyncio.gather(*(_carry_out(part) for part in await _plan(job))))


@workflow.defn
class HandWrittenWithChildren:
    @workflow.run
    async def run(self, job: Job) -> str:
        children = [
            workflow.execute_child_workflow(HandWrittenPart.run, part, id=f"{workflow.info().workflow_id}/{number}")
            for number, part in enumerate(await _plan(job), start=1)
        ]
        return await _write(job, await asyncio.gather(*children))


@workflow.defn
class HandWrittenPart:
    @workflow.run
    async def run(self, part: Part) -> str:
        return await _carry_out(part)


WORKFLOWS: Final[Sequence[type]] = (HandWritten, HandWrittenWithChildren, HandWrittenPart)
