"""A model and a tool that answer as a test says: fakes of the protocols `Model` and `Tool`."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from pydantic import BaseModel, JsonValue

from activities.contracts import AgentAnswer, FindingDraft, PlanDraft, ReportDraft, SubtaskDraft, ToolCall
from activities.models.protocol import ModelCall, ModelReply, ToolSpec
from activities.tools import ToolAnswer, ToolContext
from chargehand.contracts import Source, Usage

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
    def spec(self) -> ToolSpec:
        return ToolSpec(name=self.name, description=f"The scripted tool {self.name}.", parameters={"type": "object"})

    async def use(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> ToolAnswer:  # noqa: ARG002  # scripted
        self.calls.append(arguments)
        return self.answer


def usage(cost: Decimal = COST) -> Usage:
    return Usage(turns=1, input_tokens=100, output_tokens=50, cost_usd=cost)


def reply(answer: BaseModel, cost: Decimal = COST) -> ModelReply:
    """Reply with a final answer."""
    return ModelReply(
        stop="answer", text=answer.model_dump_json(), model="scripted-1", provider="scripted", usage=usage(cost)
    )


def use(*tools: str, cost: Decimal = COST) -> ModelReply:
    """Reply by asking for tools."""
    calls = tuple(
        ToolCall(id=f"call-{number}", tool=tool, arguments={"query": f"{tool} {number}"})
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


def plan(*subtasks: SubtaskDraft, strategy: str = "merge") -> PlanDraft:
    return PlanDraft(subtasks=list(subtasks), strategy=strategy, final_instruction="Briefly.")


def answer(
    content: str, *, ref: str = "", quote: str = "", status: str = "success", gaps: Sequence[str] = ()
) -> AgentAnswer:
    findings = [FindingDraft(claim=content, source_refs=[ref], quote=quote, confidence=80)] if ref else []
    return AgentAnswer.model_validate(
        {
            "status": status,
            "content": content,
            "findings": findings,
            "confidence": 80,
            "gaps": list(gaps),
            "message": "" if status == "success" else f"because of {status}",
        }
    )


def report(text: str) -> ReportDraft:
    return ReportDraft(answer=text, gaps=[], contradictions=[], confidence=90)


def found(ref: str, quote: str) -> ToolAnswer:
    """Answer as a tool that read one passage."""
    return ToolAnswer(output={"found": 1}, sources=(Source(ref=ref, title="A title", quote=quote),))
