"""CrewAI: a flow of three steps with agents, checkpointed after each step."""

import asyncio
import time
from pathlib import Path

from crewai import LLM, Agent
from crewai.flow.flow import Flow, listen, start
from crewai.state.checkpoint_config import CheckpointConfig
from crewai.tools import tool
from pydantic import BaseModel

from benchmarks.peers.programs.job import GOAL, MODEL, PASSAGE, PLANNER, RESEARCHER, TOOL_SECONDS, WRITER, Plan, serve


@tool
def search(query: str) -> str:
    """Search the logs."""
    time.sleep(TOOL_SECONDS)
    return PASSAGE


def agent(role: str, backstory: str, **options) -> Agent:
    return Agent(role=role, goal=GOAL, backstory=backstory, llm=LLM(model=f"openai/{MODEL}"), **options)


class State(BaseModel):
    questions: list[str] = []
    findings: list[str] = []
    cap: int | None = None


class Job(Flow[State]):
    @start()
    async def plan(self) -> None:
        answered = await agent("planner", PLANNER).akickoff(GOAL, response_format=Plan)
        self.state.questions = answered.pydantic.questions

    @listen(plan)
    async def research(self) -> None:
        limit = {"max_iter": self.state.cap} if self.state.cap else {}
        researchers = [agent("researcher", RESEARCHER, tools=[search], **limit) for _ in self.state.questions]
        asked = zip(researchers, self.state.questions, strict=True)
        answered = await asyncio.gather(*(each.akickoff(question) for each, question in asked))
        self.state.findings = [each.raw for each in answered]

    @listen(research)
    async def write(self) -> str:
        return (await agent("writer", WRITER).akickoff("\n\n".join(self.state.findings))).raw


async def run(job: str, cap: int | None) -> str:
    folder = Path("crewai") / job
    written = sorted(folder.rglob("*.json"), key=lambda file: file.stat().st_mtime)
    saves = CheckpointConfig(location=str(folder), on_events=["method_execution_finished"])
    if written:
        return await Job().akickoff(from_checkpoint=saves.model_copy(update={"restore_from": written[-1]}))
    return await Job(checkpoint=saves).akickoff(inputs={"cap": cap})


if __name__ == "__main__":
    serve(run)
