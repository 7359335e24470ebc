"""The models of a simulated session: replies depend only on who asks for what, so that every run gets the same ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeVar
from zlib import crc32

from pydantic import BaseModel

from activities.contracts.rounds import ToolCall
from activities.models.protocol import ModelReply
from activities.turn_kinds.judgements import GradeTask, JudgeTask
from activities.turn_kinds.plan import ExpandTask, PlanAnswer, PlanTask, RefineTask, ReviewAnswer, ReviewTask
from activities.turn_kinds.protocol import SubtaskDraft
from activities.turn_kinds.registry import Task
from activities.turn_kinds.synthesis import SynthesisTask
from activities.turn_kinds.work import WorkAnswer, WorkTask
from tests.scripted_model import (
    answer,
    compressed,
    criticised,
    disagreement,
    expanded,
    graded,
    judged,
    plan,
    refined,
    reply,
    report,
    reviewed,
    subtask,
    use,
)

Work = Literal[
    "success", "partial", "no_answer", "ambiguous_input", "out_of_scope", "confidence_too_low", "too_big",
    "tools", "same tool again", "unknown tool", "malformed call", "many tools", "truncated", "empty",
    "refused", "malformed",
]  # fmt: skip
"""What an agent does in a turn."""

Decision = Literal["yes", "no", "odd"]
"""A model's decision: satisfied, not satisfied, or nonsense."""

_Option = TypeVar("_Option")


def choice(options: Sequence[_Option], label: str) -> _Option:
    """Choose by a label, always the same for equal labels."""
    return options[crc32(label.encode()) % len(options)]


@dataclass(frozen=True)
class Planned:
    agent: str = "reader"
    topic: int = 0
    after: tuple[int, ...] = ()
    """Positions of earlier subtasks of the plan that it depends on."""
    is_required: bool = False
    is_template: bool = False
    """Whether it is a template for each item of the first of these."""


@dataclass(frozen=True)
class Script:
    plans: tuple[tuple[Planned, ...], ...] = ((Planned(),),)
    """Plans of the root session come first; nested sessions choose among all."""
    works: tuple[Work, ...] = ("success",)
    decisions: tuple[Decision, ...] = ("yes",)
    seed: int = 0

    def reply(self, workflow: str, step: str, task: Task, tools: Sequence[str], cost: Decimal) -> ModelReply:
        """Answer one turn; `workflow` is its id relative to the root session."""
        where = f"{self.seed} {workflow} {step}"
        if isinstance(task, WorkTask):
            return _work(choice(self.works, where), step, task, tools, cost)
        decision = choice(self.decisions, where)
        if decision == "odd" and isinstance(task, RefineTask | JudgeTask | ReviewTask):
            return _unusable("malformed", "Well …", cost)
        return reply(self._decide(workflow, where, task, decision), cost)

    def _decide(self, workflow: str, where: str, task: Task, decision: Decision) -> BaseModel:  # noqa: PLR0911  # one for each kind of task
        agrees = decision == "yes"
        match task:
            case PlanTask():
                return self._plan(workflow, task)
            case SynthesisTask():
                return report(f"The report on {len(task.outcomes)} outcomes{', again' if task.problems else ''}.")
            case ExpandTask():
                count = 1 + crc32(where.encode()) % 3 if agrees else 0
                return expanded(*(f"{task.template} Item {number} of {where}." for number in range(count)))
            case GradeTask():
                return graded(*("" if agrees else "It lacks a date." for _ in task.criteria))
            case RefineTask():
                return refined(f"{task.instruction} Look again, attempt {task.attempts}." if agrees else "")
            case ReviewTask():
                return _review(where, task, is_enough=agrees)
            case JudgeTask():
                return judged(task.candidates[-1].id if agrees and task.candidates else "", "because", 60)
            case _ if task.kind == "critique":
                return criticised(*([] if agrees else ["The second sentence has no source."]))
            case _:
                return compressed("In short: it is so.")

    def _plan(self, workflow: str, task: PlanTask) -> PlanAnswer:
        planned = self.plans[0] if not workflow else choice(self.plans, f"{self.seed} {workflow}")
        if task.rejected:
            planned = (Planned(topic=planned[0].topic),)
        subtasks = [_subtask(f"T{number}", each) for number, each in enumerate(planned, start=1)]
        return plan(*subtasks, strategy=("merge", "merge", "select", "reduce")[self.seed % 4])


def _review(where: str, task: ReviewTask, *, is_enough: bool) -> ReviewAnswer:
    if is_enough:
        return reviewed()
    topic = crc32(where.encode()) % 5
    added = [_subtask(f"R{topic}", Planned(topic=topic + 10))] if task.max_subtasks > 0 else []
    return reviewed(*added, missing=["The third question."], contradictions=[disagreement("the date", "May", "June")])


def _subtask(name: str, planned: Planned) -> SubtaskDraft:
    after = [f"T{position + 1}" for position in planned.after]
    instruction = f"Find out what the documents say about topic {planned.topic}."
    for_each = after[0] if planned.is_template else ""
    return subtask(name, planned.agent, after, after if planned.is_required else [], instruction, for_each=for_each)


def _unusable(stop: str, text: str, cost: Decimal) -> ModelReply:
    return reply(compressed(""), cost).model_copy(update={"stop": stop, "text": text})


def _work(way: Work, step: str, task: WorkTask, tools: Sequence[str], cost: Decimal) -> ModelReply:
    if task.must_answer and "tool" in way:
        way = "partial"
    match way:
        case "truncated" | "empty" | "refused" | "malformed":
            return _unusable(way, "Once upon", cost)
        case "tools" | "same tool again" | "unknown tool" | "malformed call" | "many tools" if tools:
            return use(cost=cost).model_copy(update={"tool_calls": _calls(way, step, tools)})
        case _:
            status = way if "tool" not in way and way != "malformed call" else "success"
            return reply(_answer(status, task), cost)


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
    gaps = [] if status == "success" else [f"{status}: part of it"]
    known = answer(f"What is known: {task.instruction}", ref=refs[0] if refs else "", status=status, gaps=gaps)
    is_silent = status in {"no_answer", "out_of_scope", "ambiguous_input"}
    return known.model_copy(update={"content": ""}) if is_silent else known
