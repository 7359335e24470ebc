"""A model and a tool that answer as a test says: fakes of the protocols `Model` and `Tool`."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from pydantic import BaseModel, JsonValue

from activities.contracts import ContradictionDraft, SubtaskDraft, ToolCall
from activities.models.protocol import ModelCall, ModelReply, ToolSpec
from activities.tools import READS_DOCUMENTS, READS_THE_WEB, ToolAnswer, ToolContext
from activities.turn_kinds.compress import CompressAnswer
from activities.turn_kinds.critique import CritiqueAnswer
from activities.turn_kinds.judge import JudgeAnswer
from activities.turn_kinds.plan import PlanAnswer
from activities.turn_kinds.refine import RefineAnswer
from activities.turn_kinds.review import ReviewAnswer
from activities.turn_kinds.synthesis import SynthesisAnswer
from activities.turn_kinds.work import FindingDraft, WorkAnswer
from chargehand.contracts import Capability, Source, Usage

Respond = Callable[[ModelCall], "ModelReply | Held"]

COST = Decimal("0.01")
"""What every scripted reply costs unless it says otherwise, in dollars."""


@dataclass
class Held:
    """A reply that is given when an event is set; the call waits until then."""

    reply: ModelReply
    released: asyncio.Event


@dataclass
class ScriptedModel:
    """Replies by a function, and remembers every call it was asked."""

    respond: Respond
    calls: list[ModelCall] = field(default_factory=list[ModelCall])
    replies: int = 0

    async def complete(self, call: ModelCall) -> ModelReply:
        self.calls.append(call)
        reply = self.respond(call)
        if isinstance(reply, Held):
            await reply.released.wait()
            reply = reply.reply
        self.replies += 1
        return reply

    def of_kind(self, kind: str) -> list[ModelCall]:
        """Select the calls of one kind of task."""
        return [call for call in self.calls if call.task.kind == kind]


@dataclass
class ScriptedTool:
    """Answers every call alike, and remembers the arguments."""

    name: str
    answer: ToolAnswer
    calls: list[Mapping[str, JsonValue]] = field(default_factory=list[Mapping[str, JsonValue]])

    @property
    def capabilities(self) -> frozenset[Capability]:
        return READS_THE_WEB if self.name in {"search", "read_page"} else READS_DOCUMENTS

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(name=self.name, description=f"The scripted tool {self.name}.", parameters={"type": "object"})

    async def use(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> ToolAnswer:  # noqa: ARG002  # scripted
        self.calls.append(arguments)
        return self.answer


def usage(cost: Decimal = COST) -> Usage:
    return Usage(turns=1, input_tokens=100, output_tokens=50, cost_usd=cost)


def reply(answer: BaseModel, cost: Decimal = COST) -> ModelReply:
    """Reply with a final answer."""
    text = answer.model_dump_json(exclude={"kind"})
    return ModelReply(stop="answer", text=text, model="scripted-1", provider="scripted", usage=usage(cost))


def use(*tools: str, about: object = "", cost: Decimal = COST) -> ModelReply:
    """Reply by asking for tools; `about` makes one request differ from the next."""
    calls = tuple(
        ToolCall(id=f"call-{number}", tool=tool, arguments={"query": f"{tool} {number} {about}".strip()})
        for number, tool in enumerate(tools, start=1)
    )
    return ModelReply(stop="tools", tool_calls=calls, model="scripted-1", provider="scripted", usage=usage(cost))


def subtask(
    id: str,  # noqa: A002  # the contract's own name
    agent: str = "reader",
    after: Sequence[str] = (),
    required: Sequence[str] = (),
    instruction: str = "",
) -> SubtaskDraft:
    return SubtaskDraft(
        id=id,
        agent=agent,
        instruction=instruction or f"Find out everything about topic {id} in the documents.",
        depends_on=list(after),
        required=list(required),
    )


def plan(*subtasks: SubtaskDraft, strategy: str = "merge") -> PlanAnswer:
    return PlanAnswer(subtasks=list(subtasks), strategy=strategy, final_instruction="Briefly.")


def answer(
    content: str, *, ref: str = "", quote: str = "", status: str = "success", gaps: Sequence[str] = ()
) -> WorkAnswer:
    findings = [FindingDraft(claim=content, source_refs=[ref], quote=quote, confidence=80)] if ref else []
    return WorkAnswer.model_validate(
        {
            "status": status,
            "content": content,
            "findings": findings,
            "confidence": 80,
            "gaps": list(gaps),
            "message": "" if status == "success" else f"because of {status}",
        }
    )


def report(text: str) -> SynthesisAnswer:
    return SynthesisAnswer(answer=text, gaps=[], contradictions=[], confidence=90)


def refined(instruction: str = "") -> RefineAnswer:
    """Give a better instruction; none, and it is not worth while."""
    return RefineAnswer(worthwhile=bool(instruction), instruction=instruction, reason="because of the error")


def reviewed(
    *subtasks: SubtaskDraft, missing: Sequence[str] = (), contradictions: Sequence[ContradictionDraft] = ()
) -> ReviewAnswer:
    """Find that something is missing, and add subtasks; nothing of that, and it is enough."""
    return ReviewAnswer(
        enough=not subtasks and not missing,
        missing=list(missing),
        contradictions=list(contradictions),
        subtasks=list(subtasks),
    )


def disagreement(about: str, *positions: str, resolution: str = "") -> ContradictionDraft:
    return ContradictionDraft(about=about, positions=list(positions), resolution=resolution)


def judged(chosen: str, reason: str = "its source is quoted", confidence: int = 80) -> JudgeAnswer:
    """Decide for a candidate; for none if its id is empty."""
    return JudgeAnswer(chosen=chosen, reason=reason, confidence=confidence)


def criticised(*problems: str) -> CritiqueAnswer:
    """Find problems; none, and the report is acceptable."""
    return CritiqueAnswer(acceptable=not problems, problems=list(problems))


def compressed(content: str) -> CompressAnswer:
    return CompressAnswer(content=content)


def found(ref: str, quote: str) -> ToolAnswer:
    """Answer as a tool that read one passage."""
    return ToolAnswer(output={"found": 1}, sources=(Source(ref=ref, title="A title", quote=quote),))
