"""The job that is measured: a model and a tool that take a fixed time and say fixed things."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from pydantic import BaseModel, JsonValue

from activities.contracts import SubtaskDraft, ToolCall
from activities.models.protocol import ModelCall, ModelReply
from activities.tools import READS_DOCUMENTS, READS_THE_WEB, ToolAnswer, ToolContext, ToolSpec
from activities.turn_kinds.plan import PlanAnswer, PlanTask
from activities.turn_kinds.synthesis import SynthesisAnswer, SynthesisTask
from activities.turn_kinds.work import FindingDraft, WorkAnswer, WorkTask
from chargehand.contracts import Source, Usage
from tests import scripted_model
from tests.scripted_model import Held

TURN: Final = timedelta(milliseconds=200)
TOOL: Final = timedelta(milliseconds=100)
TOOL_NAMES: Final = ("search", "read_page", "search_documents", "read_document", "query_data", "draw_chart", "run_code")
MODEL_NAME: Final = "scripted-1"

_USAGE: Final = Usage(turns=1, input_tokens=1_000, output_tokens=100)
_AGENTS: Final = {"researcher": "search", "reader": "search_documents", "analyst": "query_data"}
"""Agents of the crew that have tools, and the one that each of them uses."""
_SENTENCE: Final = "The evening ferry ran late on 14 of 61 days, chiefly because of fog and one failed ramp motor. "
QUOTE: Final = _SENTENCE * 5
CONTENT: Final = _SENTENCE * 6
REPORT: Final = _SENTENCE * 8


@dataclass(frozen=True)
class Shape:
    """How large a job is. It travels in the goal, so that one worker serves jobs of every shape."""

    subtasks: int = 5
    rounds: int = 1
    """How often each agent uses a tool before it answers: it takes one turn more."""
    read_bytes: int = 2 * len(QUOTE)
    """How much is read in each round."""

    @property
    def goal(self) -> str:
        each = f"{self.rounds} rounds of reading {self.read_bytes} bytes"
        return f"Look into {self.subtasks} parts of the ferry line, each with {each}."

    @property
    def turns(self) -> int:
        return 2 + self.subtasks * (self.rounds + 1)

    @property
    def ideal(self) -> timedelta:
        """The time that nothing can beat: plan, the turns and tools of one subtask, report."""
        return TURN + TURN * (self.rounds + 1) + TOOL * self.rounds + TURN

    @classmethod
    def told_in(cls, text: str) -> "Shape":
        """Read the shape back from any text that quotes the goal."""
        found = re.search(r"Look into (\d+) parts of the ferry line, each with (\d+) rounds of reading (\d+)", text)
        if not found:
            raise ValueError("this is not the job that the benchmarks measure")
        return cls(int(found[1]), int(found[2]), int(found[3]))


def instruction(number: int) -> str:
    """Word the instruction of a subtask."""
    return f"Look into part {number} of the ferry line: give the facts, the figures, and where exactly they stand."


def plan(shape: Shape) -> PlanAnswer:
    """Plan subtasks that do not depend on each other."""
    agents = list(_AGENTS)
    subtasks = [
        SubtaskDraft(
            id=f"T{number}",
            agent=agents[number % len(agents)],
            instruction=instruction(number),
            depends_on=[],
            required=[],
            for_each="",
        )
        for number in range(1, shape.subtasks + 1)
    ]
    return PlanAnswer(
        subtasks=subtasks,
        strategy="merge",
        final_instruction="One page, the most important first.",
        deliver="",
        length_words=0,
        omitted=[],
    )


def answer(ref: str) -> WorkAnswer:
    """Answer a subtask from what was read."""
    findings = [FindingDraft(claim=_SENTENCE, source_refs=[ref], quote=_SENTENCE.strip(), confidence=80)] * 2
    return WorkAnswer(
        status="success", content=f"{CONTENT}[{ref}]", findings=findings, confidence=80, gaps=[], message=""
    )


def report(shape: Shape) -> SynthesisAnswer:
    """Write the report."""
    cited = " ".join(f"[S{number}]" for number in range(1, shape.subtasks + 1))
    return SynthesisAnswer(answer=f"{REPORT}{cited}", gaps=[], contradictions=[], confidence=85)


def respond(call: ModelCall) -> Held:
    """Say the job's lines in the worker's own process."""
    return Held(_turn(call), seconds=TURN.total_seconds())


def _turn(call: ModelCall) -> ModelReply:
    match call.task:
        case PlanTask(goal=goal):
            return _reply(plan(Shape.told_in(goal)))
        case SynthesisTask(goal=goal):
            return _reply(report(Shape.told_in(goal)))
        case WorkTask(goal=goal, rounds=rounds):
            shape = Shape.told_in(goal)
            if call.tools and len(rounds) < shape.rounds:
                return _tool_use(call.agent, len(rounds) + 1, shape.read_bytes)
            return _reply(answer(rounds[0].results[0].sources[0].ref))
        case other:
            raise ValueError(f"the job that is measured has no {other.kind} task")


def _reply(said: BaseModel) -> ModelReply:
    return scripted_model.reply(said).model_copy(update={"usage": _USAGE})


def _tool_use(agent: str, number: int, read_bytes: int) -> ModelReply:
    query = f"{read_bytes} bytes on late departures {number}"
    call = ToolCall(id=f"call-{number}", tool=_AGENTS[agent], arguments={"query": query})
    return scripted_model.use().model_copy(update={"tool_calls": (call,), "usage": _USAGE})


class ScriptedTool:
    """Finds the same two passages at every call."""

    def __init__(self, name: str) -> None:
        self.capabilities = READS_THE_WEB if name in {"search", "read_page"} else READS_DOCUMENTS
        self.spec = ToolSpec(
            name=name,
            at_once=name in {"search_documents", "read_document", "query_data"},
            description=f"The scripted tool {name}.",
            parameters={
                "type": "object",
                "properties": {"query": {"type": "string"}},
                "required": ["query"],
                "additionalProperties": False,
            },
        )

    async def use(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> ToolAnswer:
        await asyncio.sleep(TOOL.total_seconds())
        # Every subtask reads passages of its own, and every round others.
        read = f"{context.idempotency_key.rpartition('/')[2][:4]}-{str(arguments['query'])[-2:].strip()}"
        found = re.match(r"(\d+) bytes", str(arguments["query"]))
        most = int(found[1]) // 2 if found else len(QUOTE)
        quote = (_SENTENCE * (most // len(_SENTENCE) + 1))[:most]
        sources = tuple(
            Source(ref=f"log-{read}.md#L{line}-L{line + 9}", title="Log > Departures", quote=quote) for line in (1, 40)
        )
        return ToolAnswer(output={"found": len(sources)}, sources=sources)
