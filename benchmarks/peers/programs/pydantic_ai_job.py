"""Pydantic AI: hand-off by code, with usage and limits shared by all runs."""

import asyncio

from pydantic_ai import Agent, RunUsage, UsageLimits

from benchmarks.peers.programs.job import GOAL, MODEL, PASSAGE, PLANNER, RESEARCHER, TOOL_SECONDS, WRITER, Plan, serve

planner = Agent(f"openai:{MODEL}", instructions=PLANNER, output_type=Plan)
researcher = Agent(f"openai:{MODEL}", instructions=RESEARCHER)
writer = Agent(f"openai:{MODEL}", instructions=WRITER)


@researcher.tool_plain
async def search(query: str) -> str:
    """Search the logs."""
    await asyncio.sleep(TOOL_SECONDS)
    return PASSAGE


async def run(job: str, cap: int | None) -> str:
    shared = {"usage": RunUsage(), "usage_limits": UsageLimits(request_limit=cap or 50)}
    plan = (await planner.run(GOAL, **shared)).output
    found = await asyncio.gather(*(researcher.run(question, **shared) for question in plan.questions))
    return (await writer.run("\n\n".join(each.output for each in found), **shared)).output


if __name__ == "__main__":
    serve(run)
