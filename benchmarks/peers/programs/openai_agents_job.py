"""OpenAI Agents SDK: orchestration by code, as in its research example: planner, parallel researchers, writer."""

import asyncio

from agents import Agent, Runner, function_tool

from benchmarks.peers.programs.job import GOAL, MODEL, PASSAGE, PLANNER, RESEARCHER, TOOL_SECONDS, WRITER, Plan, serve


@function_tool
async def search(query: str) -> str:
    """Search the logs."""
    await asyncio.sleep(TOOL_SECONDS)
    return PASSAGE


planner = Agent(name="planner", instructions=PLANNER, model=MODEL, output_type=Plan)
researcher = Agent(name="researcher", instructions=RESEARCHER, model=MODEL, tools=[search])
writer = Agent(name="writer", instructions=WRITER, model=MODEL)


async def run(job: str, cap: int | None) -> str:
    limit = {"max_turns": cap} if cap else {}
    plan = (await Runner.run(planner, GOAL, **limit)).final_output
    found = await asyncio.gather(*(Runner.run(researcher, question, **limit) for question in plan.questions))
    return (await Runner.run(writer, "\n\n".join(each.final_output for each in found), **limit)).final_output


if __name__ == "__main__":
    serve(run)
