"""deepagents: an agent that delegates questions to subagents by its `task` tool; checkpoints in SQLite."""

import asyncio

from deepagents import create_deep_agent
from langchain.agents.middleware import ModelCallLimitMiddleware
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from benchmarks.peers.programs.job import GOAL, MODEL, PASSAGE, PLANNER, RESEARCHER, TOOL_SECONDS, WRITER, serve


async def search(query: str) -> str:
    """Search the logs."""
    await asyncio.sleep(TOOL_SECONDS)
    return PASSAGE


async def run(job: str, cap: int | None) -> str:
    limits = [ModelCallLimitMiddleware(run_limit=cap)] if cap else []
    researcher = {
        "name": "researcher",
        "description": "Looks one question up and answers it.",
        "system_prompt": RESEARCHER,
        "tools": [search],
        "middleware": limits,
    }
    async with AsyncSqliteSaver.from_conn_string("deepagents.db") as checkpoints:
        agent = create_deep_agent(
            ChatOpenAI(model=MODEL),
            system_prompt=f"{PLANNER} Give each to a researcher, all at once. Then: {WRITER}",
            subagents=[researcher],
            middleware=limits,
            checkpointer=checkpoints,
        )
        thread = {"configurable": {"thread_id": job}}
        begun = (await agent.aget_state(thread)).next
        ended = await agent.ainvoke(None if begun else {"messages": [("user", GOAL)]}, thread)
    return ended["messages"][-1].text


if __name__ == "__main__":
    serve(run)
