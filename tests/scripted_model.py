"""Fakes of the protocols `Model` and `Tool`, and a builder for the model's replies.

    slow = Held(answer("Late."))
    script = Script().plan(subtask("T1"), subtask("T2")).work("T1", use("search"), answer("Found.")).work("T2", slow)

A script is matched from its last line to its first: later lines override earlier ones, and a plain `Script()` plans
nothing, answers "Known." and reports "All of it.". Of several turns in one line, a call gets the one for its position:
the round of a subtask, the number of rejected plans, or whether a report was criticised.
"""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from typing import Final, Self, TypeAlias, TypeVar

from pydantic import BaseModel, JsonValue

from activities.contracts.rounds import ToolCall
from activities.contracts.tool import READS_DOCUMENTS, READS_THE_WEB, ToolAnswer, ToolContext, ToolSpec
from activities.models.protocol import ModelCall, ModelReply
from activities.turn.activity import prompt_bytes
from activities.turn_kinds.judgements import CritiqueAnswer, GradeAnswer, GradeDraft, JudgeAnswer, JudgeCallAnswer
from activities.turn_kinds.plan import (
    Allowance,
    DesignAnswer,
    ExpandAnswer,
    ExpandTask,
    PlanAnswer,
    PlanTask,
    RefineAnswer,
    ReviewAnswer,
)
from activities.turn_kinds.protocol import ContradictionDraft, SubtaskDraft
from activities.turn_kinds.synthesis import (
    CompressAnswer,
    OutlineAnswer,
    OutputAnswer,
    OutputTask,
    SectionDraft,
    SynthesisAnswer,
    SynthesisTask,
)
from activities.turn_kinds.work import (
    CompactAnswer,
    ConverseTask,
    FindingDraft,
    NoteDraft,
    ReplyAnswer,
    WorkAnswer,
    WorkTask,
)
from chargehand.contracts import Capability, Source, Usage
from tests.claim_judge import claim_judge

Turn: TypeAlias = "BaseModel | Held | Exception | Callable[[ModelCall], Turn]"
"""A model's response to a call: a `ModelReply`, an answer to wrap in one, an error to raise, or a function."""

Respond: TypeAlias = Callable[[ModelCall], Turn]

COST: Final = Decimal("0.01")
"""Default cost of a scripted reply in dollars."""

_TaskType = TypeVar("_TaskType", bound=BaseModel)


@dataclass(frozen=True)
class Held:
    """A turn that is delivered when released or after some seconds; by default never."""

    turn: Turn
    released: asyncio.Event = field(default_factory=asyncio.Event)
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a call is waiting."""
    seconds: float | None = None

    async def wait(self) -> None:
        self.reached.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(self.seconds):
                await self.released.wait()


@dataclass(frozen=True)
class _Line:
    matches: Callable[[ModelCall], bool]
    turns: Sequence[Turn]


@dataclass(frozen=True)
class Script:
    """A model's replies to each kind of task; every method returns a longer script."""

    lines: tuple[_Line, ...] = ()

    def on(self, kind: str, *turns: Turn, when: Callable[[ModelCall], bool] = lambda _: True) -> Self:
        line = _Line(lambda call: call.task.kind == kind and when(call), turns)
        return replace(self, lines=(*self.lines, line))

    def plan(self, *subtasks: SubtaskDraft, strategy: str = "merge", goal: str = "") -> Self:
        """Plan these subtasks, if the goal contains these words."""
        return self.plans(plan(*subtasks, strategy=strategy), goal=goal)

    def plans(self, *turns: Turn, goal: str = "") -> Self:
        """Reply to a request for a plan, then to each request to repair it."""
        return self.on("plan", *turns, when=lambda call: goal in getattr(call.task, "goal", ""))

    def work(self, words: str, *turns: Turn, agent: str = "", forced: "Turn | None" = None) -> Self:
        """Work on subtasks with these words in their instruction, one turn per round; "" matches every subtask.

        `forced` is for an agent that must answer now.
        """
        pattern = re.compile(rf"(?<!\w){re.escape(words)}(?!\w)" if words else "")

        def matches(call: ModelCall) -> bool:
            task = call.task
            return isinstance(task, WorkTask) and bool(pattern.search(task.instruction)) and agent in {"", call.agent}

        script = self.on("work", *turns, when=matches)
        if forced is None:
            return script
        return script.on("work", forced, when=lambda call: matches(call) and getattr(call.task, "must_answer", False))

    def replies(self, words: str, *turns: Turn, agent: str = "") -> Self:
        """Reply to messages of a conversation with these words, a turn each round."""

        def matches(call: ModelCall) -> bool:
            task = call.task
            return isinstance(task, ConverseTask) and words in task.latest().instruction and agent in {"", call.agent}

        return self.on("converse", *turns, when=matches)

    def synthesis(self, *turns: Turn) -> Self:
        """Write the report, then the one that follows a critic's problems."""
        return self.on("synthesis", *turns)

    def refine(self, *turns: Turn) -> Self:
        return self.on("refine", *turns)

    def __call__(self, call: ModelCall) -> Turn:
        for line in reversed(self.lines):
            if line.matches(call):
                return line.turns[min(_position(call), len(line.turns) - 1)]
        return DEFAULTS[call.task.kind]


def _position(call: ModelCall) -> int:
    match call.task:
        case ConverseTask() as task:
            return len(task.latest().rounds)
        case WorkTask(rounds=rounds):
            return len(rounds)
        case PlanTask() | ExpandTask() | OutputTask() as task:
            return len(task.rejected)
        case SynthesisTask(problems=problems):
            return 1 if problems else 0
        case _:
            return 0


def reply_of(turn: Turn, call: ModelCall) -> "ModelReply | Held":
    """Resolve a turn to a reply or a held turn; raises the turn's exception."""
    while not isinstance(turn, ModelReply | Held):
        if isinstance(turn, Exception):
            raise turn
        turn = reply(turn) if isinstance(turn, BaseModel) else turn(call)
    return turn


@dataclass
class ScriptedModel:
    respond: Respond
    calls: list[ModelCall] = field(default_factory=list[ModelCall])
    replies: int = 0
    counted: int = 0
    """Prompts that were counted."""

    async def complete(self, call: ModelCall) -> ModelReply:
        self.calls.append(call)
        turn = reply_of(self.respond, call)
        while isinstance(turn, Held):
            await turn.wait()
            turn = reply_of(turn.turn, call)
        self.replies += 1
        return turn

    async def count_input(self, call: ModelCall) -> int:
        """Count a prompt as providers do: a token for four bytes."""
        self.counted += 1
        return prompt_bytes(call) // 4

    def of_kind(self, kind: str) -> list[ModelCall]:
        return [call for call in self.calls if call.task.kind == kind]

    def tasks(self, kind: type[_TaskType]) -> list[_TaskType]:
        return [call.task for call in self.calls if isinstance(call.task, kind)]


@dataclass
class ScriptedTool:
    """Gives every call the same answer, and keeps the arguments."""

    name: str
    answer: ToolAnswer
    calls: list[Mapping[str, JsonValue]] = field(default_factory=list[Mapping[str, JsonValue]])
    acts: bool = False
    at_once: bool = False
    released: asyncio.Event | None = None
    """Until it is set, no call ends."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        if self.acts or self.name == "mail":
            return frozenset() if self.acts else frozenset({"reaches_out"})
        return READS_THE_WEB if self.name in {"search", "read_page"} else READS_DOCUMENTS

    @property
    def spec(self) -> ToolSpec:
        description = f"The scripted tool {self.name}."
        parameters: dict[str, JsonValue] = {"type": "object", "properties": {"amount": {"type": "number"}}}
        return ToolSpec(
            name=self.name, description=description, parameters=parameters, acts=self.acts, own_step=not self.at_once
        )

    async def use(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> ToolAnswer:  # noqa: ARG002  # scripted
        self.calls.append(arguments)
        if self.released is not None:
            await self.released.wait()
        return self.answer


def work_task(call: ModelCall) -> WorkTask:
    assert isinstance(call.task, WorkTask)
    return call.task


def cite(text: str) -> Callable[[ModelCall], WorkAnswer]:
    """Answer with the source that a tool has read first, whose ref replaces `{ref}` in the text."""

    def cited(call: ModelCall) -> WorkAnswer:
        source = work_task(call).rounds[0].results[0].sources[0]
        return answer(text.format(ref=source.ref), ref=source.ref, quote=source.quote)

    return cited


def usage(cost: Decimal = COST) -> Usage:
    return Usage(turns=1, input_tokens=100, output_tokens=50, cost_usd=cost)


def reply(answer: BaseModel, cost: Decimal | None = COST) -> ModelReply:
    """Reply with a final answer; without a cost, the provider does not report its usage."""
    used = None if cost is None else usage(cost)
    return ModelReply(
        stop="answer",
        text=answer.model_dump_json(exclude={"kind"}),
        model="scripted-1",
        provider="scripted",
        usage=used,
    )


def use(*tools: str, about: object = "", cost: Decimal = COST) -> ModelReply:
    """Reply by asking for tools; `about` makes one request differ from the next."""
    wanted = ((tool, {"query": f"{tool} {number} {about}".strip()}) for number, tool in enumerate(tools, start=1))
    return request_tools(*wanted, cost=cost)


def request_tool(tool: str, /, **arguments: JsonValue) -> ModelReply:
    return request_tools((tool, arguments))


def request_tools(*wanted: tuple[str, Mapping[str, JsonValue]], cost: Decimal = COST) -> ModelReply:
    calls = tuple(
        ToolCall(id=f"call-{number}", tool=tool, arguments=dict(arguments))
        for number, (tool, arguments) in enumerate(wanted, start=1)
    )
    return ModelReply(stop="tools", tool_calls=calls, model="scripted-1", provider="scripted", usage=usage(cost))


def keep_using(*tools: str, cost: Decimal = COST) -> Respond:
    """Ask for tools in every round, each time for something new."""
    return lambda call: use(*tools, about=len(work_task(call).rounds), cost=cost)


def most_expensive(call: ModelCall) -> Decimal:
    """Return the price of all the output tokens that a call allows, at the $5 per million of `tests.environment`."""
    return Decimal(call.max_output_tokens) * 5 / 1_000_000


ALLOWANCE: Final = Allowance(turns=16, usd=Decimal("1.50"), minutes=9, max_rounds=10, max_parallel=5)
"""An allowance for a plan's subtasks, for tests where it does not matter."""
TODAY: Final = date(2026, 11, 22)


def refuse(_: ModelCall) -> ModelReply:
    return ModelReply(stop="refused", model="scripted-1", provider="scripted")


def subtask(
    id: str,  # noqa: A002  # the contract's own name
    agent: str = "reader",
    after: Sequence[str] = (),
    required: Sequence[str] = (),
    instruction: str = "",
    *,
    for_each: str = "",
) -> SubtaskDraft:
    return SubtaskDraft(
        id=id,
        agent=agent,
        instruction=instruction or f"Find out everything about topic {id} in the documents.",
        depends_on=list(after),
        required=list(required),
        for_each=for_each,
    )


def topics(count: int) -> tuple[SubtaskDraft, ...]:
    return tuple(subtask(f"T{number}") for number in range(1, count + 1))


def plan(*subtasks: SubtaskDraft, strategy: str = "merge") -> PlanAnswer:
    return PlanAnswer(subtasks=list(subtasks), strategy=strategy, final_instruction="Briefly.")


def expanded(*instructions: str, omitted: Sequence[str] = ()) -> ExpandAnswer:
    return ExpandAnswer(instructions=list(instructions), omitted=list(omitted))


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


def say(content: str, *, hand_over: str = "", job: str = "", confidence: int = 80) -> ReplyAnswer:
    return ReplyAnswer(status="success", content=content, confidence=confidence, hand_over=hand_over, job=job)


def report(text: str) -> SynthesisAnswer:
    return SynthesisAnswer(answer=text, confidence=90)


def refined(instruction: str = "") -> RefineAnswer:
    """Give a better instruction; without one, no other instruction could help."""
    return RefineAnswer(worthwhile=bool(instruction), instruction=instruction, reason="because of the error")


def reviewed(
    *subtasks: SubtaskDraft,
    missing: Sequence[str] = (),
    contradictions: Sequence[ContradictionDraft] = (),
    compatible: Sequence[str] = (),
) -> ReviewAnswer:
    """Name missing parts and add subtasks; without either, the outcomes are sufficient."""
    return ReviewAnswer(
        enough=not subtasks and not missing,
        missing=list(missing),
        contradictions=list(contradictions),
        compatible=list(compatible),
        subtasks=list(subtasks),
    )


def disagreement(about: str, *positions: str, resolution: str = "") -> ContradictionDraft:
    return ContradictionDraft(about=about, positions=list(positions), resolution=resolution)


def judged(chosen: str, reason: str = "its source is quoted", confidence: int = 80) -> JudgeAnswer:
    """Choose a candidate; an empty id chooses none."""
    return JudgeAnswer(chosen=chosen, reason=reason, confidence=confidence)


def criticised(*problems: str) -> CritiqueAnswer:
    """Name problems; without any, the report is acceptable."""
    return CritiqueAnswer(acceptable=not problems, problems=list(problems))


def graded(*reasons: str) -> GradeAnswer:
    """Grade criteria in order; an empty reason means that a criterion is met."""
    return GradeAnswer(
        grades=[
            GradeDraft(criterion=number, met=not reason, reason=reason or "It does.")
            for number, reason in enumerate(reasons, start=1)
        ]
    )


def output(data: JsonValue, *missing: str) -> OutputAnswer:
    return OutputAnswer(data=data, missing=list(missing))


def compressed(content: str) -> CompressAnswer:
    return CompressAnswer(content=content)


def compacted(summary: str, *notes: NoteDraft) -> CompactAnswer:
    return CompactAnswer(summary=summary, notes=list(notes))


def outlined(title: str, *headings: str, gaps: Sequence[str] = ()) -> OutlineAnswer:
    sections = [SectionDraft(heading=heading, brief=f"About {heading}.", words=900) for heading in headings]
    return OutlineAnswer(title=title, sections=sections, gaps=list(gaps), confidence=70)


DEFAULTS: Final[Mapping[str, Turn]] = {
    "work": answer("Known."),
    "converse": say("I see."),
    "synthesis": report("All of it."),
    "expand": expanded(),
    "design": DesignAnswer(agents=[]),
    "refine": refined(),
    "review": reviewed(),
    "judge": judged(""),
    "critique": criticised(),
    "grade": graded(),
    "judge_call": JudgeCallAnswer(is_expected=True, reason=""),
    "judge_claims": claim_judge(),
    "compress": compressed("In short: so."),
    "outline": outlined("Topics"),
    "output": output(None, "Nothing is scripted."),
    "compact": compacted("So far: so."),
}


def found(ref: str, quote: str) -> ToolAnswer:
    return ToolAnswer(output={"found": 1}, sources=(Source(ref=ref, title="A title", quote=quote),))
