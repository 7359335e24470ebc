"""LangGraph: a graph that plans, sends each question to an agent, and reports; checkpoints in SQLite."""

import asyncio
import operator
from functools import cache
from typing import Annotated, TypedDict

from langchain.agents import create_agent
from langchain.agents.middleware import ModelCallLimitMiddleware
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

from benchmarks.peers.programs.job import GOAL, MODEL, PASSAGE, PLANNER, RESEARCHER, TOOL_SECONDS, WRITER, Plan, serve


class State(TypedDict):
    goal: str
    questions: list[str]
    findings: Annotated[list[str], operator.add]
    report: str


class Question(TypedDict):
    question: str


async def search(query: str) -> str:
    """Search the logs."""
    await asyncio.sleep(TOOL_SECONDS)
    return PASSAGE


@cache
def graph(cap: int | None) -> StateGraph:
    model = ChatOpenAI(model=MODEL)
    planner = model.with_structured_output(Plan)
    limits = [ModelCallLimitMiddleware(run_limit=cap)] if cap else []
    researcher = create_agent(model, [search], system_prompt=RESEARCHER, middleware=limits)

    async def plan(state: State) -> dict:
        answered = await planner.ainvoke([("system", PLANNER), ("user", state["goal"])])
        return {"questions": answered.questions}

    def hand_out(state: State) -> list[Send]:
        return [Send("research", {"question": question}) for question in state["questions"]]

    async def research(task: Question) -> dict:
        ended = await researcher.ainvoke({"messages": [("user", task["question"])]})
        return {"findings": [ended["messages"][-1].text]}

    async def write(state: State) -> dict:
        answered = await model.ainvoke([("system", WRITER), ("user", "\n\n".join(state["findings"]))])
        return {"report": answered.text}

    steps = StateGraph(State)
    for step in (plan, research, write):
        steps.add_node(step.__name__, step)
    steps.add_edge(START, "plan")
    steps.add_conditional_edges("plan", hand_out, ["research"])
    steps.add_edge("research", "write")
    steps.add_edge("write", END)
    return steps


async def run(job: str, cap: int | None) -> str:
    async with AsyncSqliteSaver.from_conn_string("langgraph.db") as checkpoints:
        steps = graph(cap).compile(checkpointer=checkpoints)
        thread = {"configurable": {"thread_id": job}}
        begun = (await steps.aget_state(thread)).next
        ended = await steps.ainvoke(None if begun else {"goal": GOAL}, thread)
    return ended["report"]


if __name__ == "__main__":
    serve(run)
