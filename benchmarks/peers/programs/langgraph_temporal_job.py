"""LangGraph on Temporal: its functional API; each model or tool call is a task, which runs as an activity."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from importlib import import_module

from temporalio import workflow
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from langchain_core.messages import convert_to_openai_messages
    from langchain_openai import ChatOpenAI
    from langgraph.func import entrypoint, task
    from temporalio.langgraph import LangGraphPlugin
    from temporalio.langgraph import entrypoint as durable

from benchmarks.peers.programs.job import GOAL, MODEL, PASSAGE, PLANNER, RESEARCHER, TOOL_SECONDS, WRITER, Plan, serve

QUEUE = "langgraph"


async def search(query: str) -> str:
    """Search the logs."""
    await asyncio.sleep(TOOL_SECONDS)
    return PASSAGE


@task
async def plan(goal: str) -> list[str]:
    planner = ChatOpenAI(model=MODEL).with_structured_output(Plan)
    return (await planner.ainvoke([("system", PLANNER), ("user", goal)])).questions


@task
async def ask(messages: list[dict]) -> dict:
    return convert_to_openai_messages(await ChatOpenAI(model=MODEL).bind_tools([search]).ainvoke(messages))


@task
async def look_up(query: str) -> str:
    return await search(query)


@task
async def write(findings: list[str]) -> str:
    return (await ChatOpenAI(model=MODEL).ainvoke([("system", WRITER), ("user", "\n\n".join(findings))])).text


async def research(question: str) -> str:
    messages = [{"role": "system", "content": RESEARCHER}, {"role": "user", "content": question}]
    while (reply := await ask(messages)).get("tool_calls"):
        queries = [call["function"]["arguments"] for call in reply["tool_calls"]]
        found = await asyncio.gather(*map(look_up, queries))
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": text}
            for call, text in zip(reply["tool_calls"], found, strict=True)
        ]
        messages = [*messages, reply, *results]
    return reply["content"]


@entrypoint()
async def job(goal: str) -> str:
    questions = await plan(goal)
    return await write(await asyncio.gather(*map(research, questions)))


@workflow.defn
class Job:
    @workflow.run
    async def run(self) -> str:
        return await durable("job").ainvoke(GOAL)


@asynccontextmanager
async def worker() -> AsyncGenerator[None]:
    tasks = [plan, ask, look_up, write]
    plugin = LangGraphPlugin(
        entrypoints={"job": job},
        tasks=tasks,
        activity_options={each.func.__name__: {"execute_in": "activity"} for each in tasks},
        default_activity_options={"start_to_close_timeout": timedelta(seconds=60)},
    )
    client = await Client.connect(os.environ["TEMPORAL_ADDRESS"])
    async with Worker(client, task_queue=QUEUE, workflows=[Job], plugins=[plugin]):
        yield


async def run(job: str, cap: int | None) -> str:  # LangGraph does not count calls across tasks
    client = await Client.connect(os.environ["TEMPORAL_ADDRESS"])
    attach = WorkflowIDConflictPolicy.USE_EXISTING
    return await client.execute_workflow(Job.run, id=job, task_queue=QUEUE, id_conflict_policy=attach)


if __name__ == "__main__":
    # Its tasks must not belong to a module called `__main__`.
    named = import_module("benchmarks.peers.programs.langgraph_temporal_job")
    serve(named.run, named.worker())
