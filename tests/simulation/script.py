"""What models say in a simulated session: a function of who asks for what, so that it is the same however it is run."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeVar
from zlib import crc32

from activities.contracts import ContradictionDraft, SubtaskDraft, ToolCall
from activities.models.protocol import ModelReply
from activities.turn_kinds.compress import CompressAnswer
from activities.turn_kinds.critique import CritiqueAnswer
from activities.turn_kinds.judge import JudgeAnswer, JudgeTask
from activities.turn_kinds.plan import PlanAnswer, PlanTask
from activities.turn_kinds.refine import RefineAnswer, RefineTask
from activities.turn_kinds.registry import Task
from activities.turn_kinds.review import ReviewAnswer, ReviewTask
from activities.turn_kinds.synthesis import SynthesisAnswer, SynthesisTask
from activities.turn_kinds.work import FindingDraft, WorkAnswer, WorkTask
from chargehand.contracts import Usage

Work = Literal[
    "success",
    "partial",
    "no_answer",
    "ambiguous_input",
    "out_of_scope",
    "confidence_too_low",
    "too_big",
    "tools",
    "same tool again",
    "unknown tool",
    "malformed call",
    "many tools",
    "truncated",
    "empty",
    "refused",
    "malformed",
]
"""What an agent does in a turn."""

Decision = Literal["yes", "no", "odd"]
"""How a model decides: it is content, it is not, or it answers nonsense."""

_Option = TypeVar("_Option")


def choice(options: Sequence[_Option], label: str) -> _Option:
    """Choose by a label, and always alike."""
    return options[crc32(label.encode()) % len(options)]


@dataclass(frozen=True)
class Planned:
    """A subtask of a scripted plan."""

    agent: str = "reader"
    topic: int = 0
    after: tuple[int, ...] = ()
    """Positions of earlier subtasks of the plan that it depends on."""
    is_required: bool = False


@dataclass(frozen=True)
class Script:
    """Everything the models of a session will say."""

    plans: tuple[tuple[Planned, ...], ...] = ((Planned(),),)
    """Of the root session first; the sessions below choose among all."""
    works: tuple[Work, ...] = ("success",)
    decisions: tuple[Decision, ...] = ("yes",)
    seed: int = 0

    def reply(self, workflow: str, step: str, task: Task, tools: Sequence[str], cost: Decimal) -> ModelReply:
        """Answer one turn; `workflow` is its id without the root session's."""
        where = f"{self.seed} {workflow} {step}"
        usage = Usage(turns=1, input_tokens=100, output_tokens=50, cost_usd=cost)
        empty = ModelReply(stop="empty", model="scripted-1", provider="scripted", usage=usage)
        if isinstance(task, WorkTask):
            return _work(choice(self.works, where), step, task, tools, empty)
        decision = choice(self.decisions, where)
        if decision == "odd" and isinstance(task, RefineTask | JudgeTask | ReviewTask):
            return empty.model_copy(update={"stop": "malformed", "text": "Well …", "usage": usage})
        match task:
            case PlanTask():
                draft = self._plan(workflow, task)
            case SynthesisTask():
                told = f"The report on {len(task.outcomes)} outcomes{', again' if task.problems else ''}."
                draft = SynthesisAnswer(answer=told, gaps=[], contradictions=[], confidence=70)
            case RefineTask():
                instruction = f"{task.instruction} Look again, attempt {task.attempts}."
                draft = RefineAnswer(worthwhile=decision == "yes", instruction=instruction, reason="because")
            case ReviewTask():
                draft = self._review(where, task, decision)
            case JudgeTask():
                chosen = task.candidates[-1].id if decision == "yes" and task.candidates else ""
                draft = JudgeAnswer(chosen=chosen, reason="because", confidence=60)
            case _ if task.kind == "critique":
                problems = [] if decision == "yes" else ["The second sentence has no source."]
                draft = CritiqueAnswer(acceptable=not problems, problems=problems)
            case _:
                draft = CompressAnswer(content="In short: it is so.")
        return empty.model_copy(update={"stop": "answer", "text": draft.model_dump_json()})

    def _plan(self, workflow: str, task: PlanTask) -> PlanAnswer:
        planned = self.plans[0] if not workflow else choice(self.plans, f"{self.seed} {workflow}")
        if task.rejected:
            planned = (Planned(topic=planned[0].topic),)
        subtasks = [_subtask(f"T{number}", each) for number, each in enumerate(planned, start=1)]
        return PlanAnswer(subtasks=subtasks, strategy=_strategy(self.seed), final_instruction="Briefly.")

    def _review(self, where: str, task: ReviewTask, decision: Decision) -> ReviewAnswer:
        missing = [] if decision == "yes" else ["The third question."]
        topic = crc32(where.encode()) % 5
        added = [_subtask(f"R{topic}", Planned(topic=topic + 10))] if missing and task.max_subtasks > 0 else []
        said = [ContradictionDraft(about="the date", positions=["May", "June"], resolution="")] if missing else []
        return ReviewAnswer(enough=not missing, missing=missing, contradictions=said, subtasks=added)


def _strategy(seed: int) -> str:
    return ("merge", "merge", "select", "reduce")[seed % 4]


def _subtask(name: str, planned: Planned) -> SubtaskDraft:
    after = [f"T{position + 1}" for position in planned.after]
    return SubtaskDraft(
        id=name,
        agent=planned.agent,
        instruction=f"Find out what the documents say about topic {planned.topic}.",
        depends_on=after,
        required=after if planned.is_required else [],
    )


def _work(way: Work, step: str, task: WorkTask, tools: Sequence[str], empty: ModelReply) -> ModelReply:
    if task.must_answer and "tool" in way:
        way = "partial"
    match way:
        case "truncated" | "empty" | "refused" | "malformed":
            return empty.model_copy(update={"stop": way, "text": "Once upon"})
        case "tools" | "same tool again" | "unknown tool" | "malformed call" | "many tools" if tools:
            return empty.model_copy(update={"stop": "tools", "tool_calls": _calls(way, step, tools)})
        case _:
            status = way if "tool" not in way and way != "malformed call" else "success"
            return empty.model_copy(update={"stop": "answer", "text": _answer(status, task).model_dump_json()})


def _calls(way: Work, step: str, tools: Sequence[str]) -> tuple[ToolCall, ...]:
    about = "" if way == "same tool again" else step
    if way == "unknown tool":
        return (ToolCall(id="c1", tool="teleport", arguments={"to": about}),)
    if way == "malformed call":
        return (ToolCall(id="c1", tool=tools[0], malformed="it is no JSON"),)
    count = 9 if way == "many tools" else 2
    return tuple(
        ToolCall(id=f"c{number}", tool=tools[number % len(tools)], arguments={"query": f"{about} {number}"})
        for number in range(count)
    )


def _answer(status: str, task: WorkTask) -> WorkAnswer:
    refs = [source.ref for past in task.rounds for result in past.results for source in result.sources]
    content = f"What is known: {task.instruction}"
    findings = [FindingDraft(claim=content, source_refs=refs[:1], quote="", confidence=80)] if refs else []
    return WorkAnswer.model_validate(
        {
            "status": status,
            "content": "" if status in {"no_answer", "out_of_scope", "ambiguous_input"} else content,
            "findings": findings,
            "confidence": 80,
            "gaps": [] if status == "success" else [f"{status}: part of it"],
            "message": "" if status == "success" else f"because of {status}",
        }
    )
