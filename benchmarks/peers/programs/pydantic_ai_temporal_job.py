"""Pydantic AI on Temporal: the plain program's hand-off as a workflow; model and tool calls are activities."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta

from temporalio import workflow
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.worker import Worker
from temporalio.workflow import ActivityConfig

with workflow.unsafe.imports_passed_through():
    import openai  # noqa: F401  # the sandbox of workflows cannot import it
    from pydantic_ai import Agent, FunctionToolset, RunUsage, UsageLimits
    from pydantic_ai.durable_exec.temporal import PydanticAIPlugin, PydanticAIWorkflow, TemporalDurability

from benchmarks.peers.programs.job import GOAL, MODEL, PASSAGE, PLANNER, RESEARCHER, TOOL_SECONDS, WRITER, Plan, serve

QUEUE = "pydantic-ai"
logs = FunctionToolset(id="logs")


@logs.tool_plain
async def search(query: str) -> str:
    """Search the logs."""
    await asyncio.sleep(TOOL_SECONDS)
    return PASSAGE


def durable() -> TemporalDurability:
    return TemporalDurability(activity_config=ActivityConfig(start_to_close_timeout=timedelta(seconds=60)))


planner = Agent(f"openai:{MODEL}", instructions=PLANNER, output_type=Plan, name="planner", capabilities=[durable()])
researcher = Agent(
    f"openai:{MODEL}", instructions=RESEARCHER, toolsets=[logs], name="researcher", capabilities=[durable()]
)
writer = Agent(f"openai:{MODEL}", instructions=WRITER, name="writer", capabilities=[durable()])


@workflow.defn
class Job(PydanticAIWorkflow):
    __pydantic_ai_agents__ = (planner, researcher, writer)

    @workflow.run
    async def run(self, cap: int | None) -> str:
        shared = {"usage": RunUsage(), "usage_limits": UsageLimits(request_limit=cap or 50)}
        plan = (await planner.run(GOAL, **shared)).output
        found = await asyncio.gather(*(researcher.run(question, **shared) for question in plan.questions))
        return (await writer.run("\n\n".join(each.output for each in found), **shared)).output


async def connect() -> Client:
    return await Client.connect(os.environ["TEMPORAL_ADDRESS"], plugins=[PydanticAIPlugin()])


@asynccontextmanager
async def worker() -> AsyncGenerator[None]:
    async with Worker(await connect(), task_queue=QUEUE, workflows=[Job]):
        yield


async def run(job: str, cap: int | None) -> str:
    attach = WorkflowIDConflictPolicy.USE_EXISTING
    client = await connect()
    return await client.execute_workflow(Job.run, cap, id=job, task_queue=QUEUE, id_conflict_policy=attach)


if __name__ == "__main__":
    serve(run, worker())
