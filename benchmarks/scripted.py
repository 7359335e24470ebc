"""The measured job: a model and a tool that take a fixed time and return fixed texts.

`python -m benchmarks.scripted` serves the model over OpenAI's and Anthropic's wires, and prints its address.
"""

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Final

from pydantic import JsonValue

from activities.contracts.tool import READS_DOCUMENTS, READS_THE_WEB, ToolAnswer, ToolContext, ToolSpec
from activities.turn_kinds.judgements import ClaimVerdict, JudgeClaimsAnswer
from activities.turn_kinds.plan import PlanAnswer
from activities.turn_kinds.protocol import SubtaskDraft
from activities.turn_kinds.synthesis import SynthesisAnswer
from activities.turn_kinds.work import FindingDraft, WorkAnswer
from chargehand.contracts import Limits, Source
from tests.scripted_provider import ScriptedProvider, ScriptedReply, ScriptedRequest, ToolUse, calling, saying

TURN: Final = timedelta(milliseconds=200)
TOOL: Final = timedelta(milliseconds=100)
MODEL_NAME: Final = "scripted-1"
WIDEST: Final = Limits(max_turns=1_000, budget_usd=Decimal(10_000), max_parallel=100, max_rounds=50)
"""What the widest and the longest job need."""

_AGENTS: Final = {"researcher": "search", "reader": "search_documents", "analyst": "query_data"}
"""The crew's agents that have tools, and the tool that each one uses."""
TOOLS: Final = tuple(_AGENTS.values())
_SENTENCE: Final = "The evening ferry ran late on 14 of 61 days, chiefly because of fog and one failed ramp motor. "
QUOTE: Final = _SENTENCE * 3
CONTENT: Final = _SENTENCE * 4
REPORT: Final = _SENTENCE * 6


@dataclass(frozen=True)
class Shape:
    """The size of a job. It is part of the goal, so that one worker serves jobs of every shape."""

    subtasks: int = 5
    rounds: int = 1
    """How often each agent uses a tool before it answers, which takes one more turn."""
    read_bytes: int = 2 * len(QUOTE)
    """Bytes read in each round."""

    @property
    def goal(self) -> str:
        each = f"{self.rounds} rounds of reading {self.read_bytes} bytes"
        return f"Look into {self.subtasks} parts of the ferry line, each with {each}."

    @property
    def turns(self) -> int:
        return 3 + self.subtasks * (self.rounds + 1)

    @property
    def ideal(self) -> timedelta:
        """The lower bound: plan, the turns and tools of one subtask, report, and its check."""
        return TURN + TURN * (self.rounds + 1) + TOOL * self.rounds + TURN * 2

    @classmethod
    def told_in(cls, text: str) -> "Shape":
        """Parse the shape from any text that quotes the goal."""
        found = re.search(r"Look into (\d+) parts of the ferry line, each with (\d+) rounds of reading (\d+)", text)
        if not found:
            raise ValueError("this is not the job that the benchmarks measure")
        return cls(int(found[1]), int(found[2]), int(found[3]))


_LOOK: Final = "Look into part "


def instruction(number: int) -> str:
    """Return the instruction of a subtask."""
    return f"{_LOOK}{number} of the ferry line: give the facts, the figures, and where exactly they stand."


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
    """Answer a subtask from what its tools returned."""
    findings = [FindingDraft(claim=_SENTENCE, source_refs=[ref], quote=_SENTENCE.strip(), confidence=80)] * 2
    return WorkAnswer(
        status="success", content=f"{CONTENT}[{ref}]", findings=findings, confidence=80, gaps=[], message=""
    )


def report(shape: Shape) -> SynthesisAnswer:
    """Write the report."""
    cited = " ".join(f"[S{number}]" for number in range(1, shape.subtasks + 1))
    return SynthesisAnswer(answer=f"{REPORT}{cited}", gaps=[], contradictions=[], confidence=85)


def respond(request: ScriptedRequest) -> ScriptedReply:
    """Answer one request after the duration of a turn."""
    return said(request).after(TURN.total_seconds())


def said(request: ScriptedRequest) -> ScriptedReply:
    """Answer one request at once."""
    match request.answer:
        case "PlanAnswer":
            return saying(plan(Shape.told_in(request.text)))
        case "SynthesisAnswer":
            return saying(report(Shape.told_in(request.text)))
        case "WorkAnswer":
            return _work(request)
        case "JudgeClaimsAnswer":
            return saying(JudgeClaimsAnswer(verdicts=[ClaimVerdict(claim=1, verdict="says", reason="")]))
        case _:  # a hand-written workflow asks for plain text; its agent asks for a query if it has read nothing
            return saying(
                "late departures" if request.text.startswith(_LOOK) and QUOTE not in request.text else CONTENT
            )


def _work(request: ScriptedRequest) -> ScriptedReply:
    shape = Shape.told_in(request.text)
    if request.tools and request.rounds < shape.rounds:
        tool = next(name for name in _AGENTS.values() if name in request.tools)
        return calling(ToolUse(tool, {"query": f"{shape.read_bytes} bytes on late departures {request.rounds + 1}"}))
    read = re.search(r"\[(p\d+)\] log-", request.text)
    return saying(answer(read[1] if read else ""))


def input_bytes(request: ScriptedRequest) -> int:
    """Return the bytes sent: prompts, conversation, and the descriptions of tools and answers."""
    sent = ("instructions", "input", "messages", "tools", "text", "response_format")
    return sum(len(json.dumps(request.body[name], ensure_ascii=False)) for name in sent if name in request.body)


class ScriptedTool:
    """Returns the same two passages for every call."""

    def __init__(self, name: str, *, own_step: bool = False) -> None:
        self.capabilities = READS_THE_WEB if name in {"search", "read_page"} else READS_DOCUMENTS
        self.spec = ToolSpec(
            name=name,
            description=f"The scripted tool {name}.",
            parameters={
                "type": "object",
                "properties": {"query": {"type": "string"}},
                "required": ["query"],
                "additionalProperties": False,
            },
            own_step=own_step,
        )

    async def use(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> ToolAnswer:
        await asyncio.sleep(TOOL.total_seconds())
        # Every subtask and every round reads different passages.
        read = f"{context.idempotency_key.rpartition('/')[2][:4]}-{str(arguments['query'])[-2:].strip()}"
        found = re.match(r"(\d+) bytes", str(arguments["query"]))
        most = int(found[1]) // 2 if found else len(QUOTE)
        quote = (_SENTENCE * (most // len(_SENTENCE) + 1))[:most]
        sources = tuple(
            Source(ref=f"log-{read}.md#L{line}-L{line + 9}", title="Log > Departures", quote=quote) for line in (1, 40)
        )
        return ToolAnswer(output={"found": len(sources)}, sources=sources)


async def _serve() -> None:
    async with ScriptedProvider(respond) as server:
        print(server.base_url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve())
