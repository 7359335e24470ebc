"""OpenAI Agents SDK on Temporal: the orchestration of the plain program as a workflow."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta

from agents import Agent, Runner
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.openai_agents import ModelActivityParameters, OpenAIAgentsPlugin
from temporalio.openai_agents.workflow import activity_as_tool
from temporalio.worker import Worker

from benchmarks.peers.programs.job import GOAL, MODEL, PASSAGE, PLANNER, RESEARCHER, TOOL_SECONDS, WRITER, Plan, serve

QUEUE = "openai-agents"


@activity.defn
async def search(query: str) -> str:
    """Search the logs."""
    await asyncio.sleep(TOOL_SECONDS)
    return PASSAGE


@workflow.defn
class Job:
    @workflow.run
    async def run(self, cap: int | None) -> str:
        limit = {"max_turns": cap} if cap else {}
        tool = activity_as_tool(search, start_to_close_timeout=timedelta(seconds=30))
        planner = Agent(name="planner", instructions=PLANNER, model=MODEL, output_type=Plan)
        researcher = Agent(name="researcher", instructions=RESEARCHER, model=MODEL, tools=[tool])
        writer = Agent(name="writer", instructions=WRITER, model=MODEL)
        plan = (await Runner.run(planner, GOAL, **limit)).final_output
        found = await asyncio.gather(*(Runner.run(researcher, question, **limit) for question in plan.questions))
        return (await Runner.run(writer, "\n\n".join(each.final_output for each in found), **limit)).final_output


async def connect() -> Client:
    model = ModelActivityParameters(
        start_to_close_timeout=timedelta(seconds=60), heartbeat_timeout=timedelta(seconds=10)
    )
    return await Client.connect(os.environ["TEMPORAL_ADDRESS"], plugins=[OpenAIAgentsPlugin(model_params=model)])


@asynccontextmanager
async def worker() -> AsyncGenerator[None]:
    async with Worker(await connect(), task_queue=QUEUE, workflows=[Job], activities=[search]):
        yield


async def run(job: str, cap: int | None) -> str:
    attach = WorkflowIDConflictPolicy.USE_EXISTING
    client = await connect()
    return await client.execute_workflow(Job.run, cap, id=job, task_queue=QUEUE, id_conflict_policy=attach)


if __name__ == "__main__":
    serve(run, worker())
