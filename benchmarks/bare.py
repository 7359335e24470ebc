"""The same job written by hand on the bare SDK: what durability alone costs, without anything that Chargehand adds."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

from temporalio import activity, workflow

_TIMEOUT = timedelta(minutes=2)


@dataclass
class Job:
    goal: str
    subtasks: int
    rounds: int


@dataclass
class Part:
    goal: str
    instruction: str
    rounds: int


@dataclass
class Turn:
    instruction: str
    read: list[str]


@dataclass
class Writing:
    goal: str
    answers: list[str]


class BareActivities:
    """A model turn and a tool call; what they say is given from outside."""

    def __init__(
        self,
        ask: Callable[[str], Awaitable[str]],
        use: Callable[[str], Awaitable[str]],
        word: Callable[[int], str],
    ) -> None:
        self._ask = ask
        self._use = use
        self._word = word

    @activity.defn(name="bare_plan")
    async def plan(self, job: Job) -> list[str]:
        await self._ask(job.goal)
        return [self._word(number) for number in range(1, job.subtasks + 1)]

    @activity.defn(name="bare_turn")
    async def turn(self, turn: Turn) -> str:
        return await self._ask("\n".join([turn.instruction, *turn.read]))

    @activity.defn(name="bare_tool")
    async def tool(self, query: str) -> str:
        return await self._use(query)

    @activity.defn(name="bare_write")
    async def write(self, writing: Writing) -> str:
        return await self._ask("\n".join([writing.goal, *writing.answers]))


@workflow.defn(name="BareJob")
class BareJob:
    @workflow.run
    async def run(self, job: Job) -> str:
        instructions: list[str] = await workflow.execute_activity_method(
            BareActivities.plan, job, start_to_close_timeout=_TIMEOUT
        )
        answers = await asyncio.gather(
            *(
                workflow.execute_child_workflow(
                    BarePart.run,
                    Part(job.goal, instruction, job.rounds),
                    id=f"{workflow.info().workflow_id}/{number}",
                )
                for number, instruction in enumerate(instructions, start=1)
            )
        )
        writing = Writing(job.goal, answers)
        return await workflow.execute_activity_method(BareActivities.write, writing, start_to_close_timeout=_TIMEOUT)


@workflow.defn(name="BarePart")
class BarePart:
    @workflow.run
    async def run(self, part: Part) -> str:
        read: list[str] = []
        for _ in range(part.rounds):
            query = await self._turn(part, read)
            read.append(
                await workflow.execute_activity_method(BareActivities.tool, query, start_to_close_timeout=_TIMEOUT)
            )
        return await self._turn(part, read)

    async def _turn(self, part: Part, read: list[str]) -> str:
        turn = Turn(part.instruction, read)
        return await workflow.execute_activity_method(BareActivities.turn, turn, start_to_close_timeout=_TIMEOUT)
