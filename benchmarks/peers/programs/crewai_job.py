"""CrewAI: a flow of three steps with agents; its state is saved in SQLite after each step."""

import asyncio
import time

from crewai import LLM, Agent
from crewai.flow.flow import Flow, FlowState, listen, start
from crewai.flow.persistence import SQLiteFlowPersistence, persist
from crewai.tools import tool

from benchmarks.peers.programs.job import GOAL, MODEL, PASSAGE, PLANNER, RESEARCHER, TOOL_SECONDS, WRITER, Plan, serve


@tool
def search(query: str) -> str:
    """Search the logs."""
    time.sleep(TOOL_SECONDS)
    return PASSAGE


def agent(role: str, backstory: str, **options) -> Agent:
    return Agent(role=role, goal=GOAL, backstory=backstory, llm=LLM(model=f"openai/{MODEL}"), **options)


class State(FlowState):
    questions: list[str] = []
    findings: list[str] = []
    cap: int | None = None


@persist(SQLiteFlowPersistence("crewai.db"))
class Job(Flow[State]):
    @start()
    async def plan(self) -> None:
        if self.state.questions:
            return  # done before the restart
        answered = await agent("planner", PLANNER).akickoff(GOAL, response_format=Plan)
        self.state.questions = answered.pydantic.questions

    @listen(plan)
    async def research(self) -> None:
        if self.state.findings:
            return
        limit = {"max_iter": self.state.cap} if self.state.cap else {}
        researchers = [agent("researcher", RESEARCHER, tools=[search], **limit) for _ in self.state.questions]
        asked = zip(researchers, self.state.questions, strict=True)
        answered = await asyncio.gather(*(each.akickoff(question) for each, question in asked))
        self.state.findings = [each.raw for each in answered]

    @listen(research)
    async def write(self) -> str:
        return (await agent("writer", WRITER).akickoff("\n\n".join(self.state.findings))).raw


async def run(job: str, cap: int | None) -> str:
    return await Job().akickoff(inputs={"id": job, "cap": cap})


if __name__ == "__main__":
    serve(run)
