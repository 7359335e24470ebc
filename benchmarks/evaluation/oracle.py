"""An oracle: a model and a tool that know the gold plan, and return only what they were shown.

It measures the machinery around the models: whatever it does not finish was prevented by limits or rules.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal

from pydantic import BaseModel, JsonValue

from activities.contracts.cards import ModelCard, PriceStep
from activities.contracts.rounds import ToolCall
from activities.contracts.tool import (
    READS_DOCUMENTS,
    READS_THE_WEB,
    Tool,
    ToolAnswer,
    ToolContext,
    ToolSpec,
    object_schema,
)
from activities.models.protocol import ModelCall, ModelReply
from activities.models.tiers import Models
from activities.turn_kinds.plan import ExpandAnswer, ExpandTask, PlanAnswer, PlanTask
from activities.turn_kinds.protocol import SubtaskDraft
from activities.turn_kinds.synthesis import SynthesisAnswer, SynthesisTask
from activities.turn_kinds.work import FindingDraft, WorkAnswer, WorkTask
from benchmarks.evaluation.answers.verdict import golden_values
from benchmarks.evaluation.dataset import Case, GoldSubtask
from chargehand.contracts import Capability, Source, Tier, Usage
from chargehand.tools import failed
from tests import scripted_model
from worker.parts import Traffic

Shape = Literal["flat", "fan-out", "single", "reworded"]
"""Shape of the oracle's plans: the gold subtasks; templates for those asked of each item of a list; one subtask
that finds the whole golden answer; the gold subtasks in more words."""
_LONGER: Final = (
    "Please look this up for the report, name where each figure and name comes from, and be exact. What we need: "
)
_PRICES: Final = (PriceStep(input_usd_per_million=Decimal(3), output_usd_per_million=Decimal(15)),)
_TOKENS: Final = (4_000, 400)
"""Input and output tokens of every turn."""
_COST: Final = (_TOKENS[0] * Decimal(3) + _TOKENS[1] * Decimal(15)) / 1_000_000


@dataclass(frozen=True)
class Oracle:
    """Answers for the cases of a dataset."""

    cases: Mapping[str, Case]
    """By goal."""
    answers: Mapping[str, str]
    """By instruction."""
    shape: Shape

    @classmethod
    def of(cls, cases: Sequence[Case], shape: Shape = "flat") -> "Oracle":
        """Build an oracle from the cases."""
        cases = [case.model_copy(update={"plan": _planned(case, shape)}) for case in cases]
        answers = {gold.instruction: gold.answer for case in cases for gold in case.plan}
        return cls({case.goal: case for case in cases}, answers, shape)

    def wrap(self, traffic: Traffic) -> Traffic:
        """Answer in place of the models and of every tool."""
        card = ModelCard(provider="oracle", name="oracle", prices=_PRICES)
        tools: dict[str, Tool] = {name: OracleTool(tool, self.answers) for name, tool in traffic.tools.items()}
        return Traffic(Models(self, dict.fromkeys(Tier, card)), tools, ())

    async def complete(self, call: ModelCall) -> ModelReply:
        match call.task:
            case PlanTask() as task:
                return _reply(self._plan(task, call))
            case ExpandTask() as task:
                return _reply(self._expand(task))
            case WorkTask() as task:
                return self._work(task, call)
            case SynthesisTask() as task:
                return _reply(self._report(task))
            case _:
                reply = await scripted_model.ScriptedModel(scripted_model.Script()).complete(call)
                return reply.model_copy(update={"usage": _usage()})

    def _plan(self, task: PlanTask, call: ModelCall) -> PlanAnswer:
        """Plan the gold subtasks in order until the limit, and name the remaining ones."""
        has_tools = {name: bool(tools) for name, _, tools in call.crew_agents}
        planned: list[GoldSubtask] = []
        omitted: list[GoldSubtask] = []
        plan: Sequence[GoldSubtask] = self.cases[task.goal].plan
        # A single-subtask plan needs no turn for the report.
        left = task.allowance.turns + (1 if len(plan) == 1 else 0)
        for gold in _with_templates(plan) if self.shape == "fan-out" else plan:
            # The minimum for one agent that the planner's prompt states.
            needed = (3 if has_tools[gold.agent] else 1) + bool(gold.for_each)
            fits = needed <= left and set(gold.depends_on) <= {each.id for each in planned}
            (planned if fits else omitted).append(gold)
            left -= needed if fits else 0
        return PlanAnswer(
            subtasks=[_draft(gold) for gold in planned],
            strategy="merge",
            final_instruction="Give the answer first.",
            omitted=[gold.instruction for gold in omitted],
        )

    def _expand(self, task: ExpandTask) -> ExpandAnswer:
        """Name the question for each item, up to the limit."""
        plan = self.cases[task.goal].plan
        (template,) = (each for each in _with_templates(plan) if each.instruction == task.template)
        items = [gold.instruction for gold in plan if _list_of(gold, plan) == template.for_each]
        return ExpandAnswer(instructions=items[: task.max_subtasks], omitted=items[task.max_subtasks :])

    def _work(self, task: WorkTask, call: ModelCall) -> ModelReply:
        if call.may_use_tools and not task.rounds:
            return _look_up(call.tools[0].name, task.instruction)
        sources = [source for past in task.rounds for result in past.results for source in result.sources]
        if sources:
            return _reply(_finding(task.instruction, sources[0].ref, sources[0].quote))
        inputs = [source for given in task.inputs for source in given.outcome.sources]
        if inputs and not call.tools:
            said = self.answers[task.instruction]
            return _reply(_finding(task.instruction, inputs[0].ref, inputs[0].quote, f"{task.instruction} {said}"))
        return _reply(scripted_model.answer("", status="no_answer", gaps=[task.instruction]))

    def _report(self, task: SynthesisTask) -> SynthesisAnswer:
        """Return the golden answer if everything it needs was found, and otherwise what was found."""
        case = self.cases[task.goal]
        done = {given.instruction: given for given in task.outcomes if given.outcome.kind == "success"}
        missing = [gold.instruction for gold in case.plan if gold.instruction not in done]
        facts = [f"- {given.outcome.content}" for given in done.values()]
        golden = [] if missing else [f"{golden_text(case)}."]
        return SynthesisAnswer(
            answer="\n".join([*golden, *facts]) or "Nothing was found.", gaps=missing, contradictions=[], confidence=90
        )


@dataclass(frozen=True)
class OracleTool:
    """A tool that returns what is known about a question."""

    tool: Tool
    answers: Mapping[str, str]

    @property
    def capabilities(self) -> frozenset[Capability]:
        return READS_THE_WEB if self.tool.spec.name in {"search", "read_page"} else READS_DOCUMENTS

    @property
    def spec(self) -> ToolSpec:
        text = object_schema(query={"type": "string"})
        return self.tool.spec.model_copy(update={"parameters": text})

    async def use(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> ToolAnswer:
        del context
        query = str(arguments["query"])
        if query not in self.answers:
            return failed("Nothing is known about this.")
        number = [*self.answers].index(query)
        source = Source(ref=f"https://oracle.test/{number}", title=query, quote=self.answers[query])
        return ToolAnswer(output={"found": 1}, sources=(source,))


def golden_text(case: Case) -> str:
    """Write the golden answer: each key before its values."""
    pairs = golden_values(case.answer) if case.answer is not None else []
    words = [word for key, values in pairs for word in (key, *values) if word]
    return ", ".join(word.split(" | ")[0].partition("±")[0].strip() for word in words)


def _planned(case: Case, shape: Shape) -> tuple[GoldSubtask, ...]:
    """Build a case's plan in the requested shape."""
    if shape == "single":
        return (GoldSubtask(id="T1", instruction=case.goal, agent="researcher", answer=golden_text(case)),)
    if shape == "reworded":
        changed = (each.model_copy(update={"instruction": _LONGER + each.instruction}) for each in case.plan)
        return tuple(changed)
    return case.plan


def _with_templates(plan: Sequence[GoldSubtask]) -> list[GoldSubtask]:
    """Replace the subtasks that ask the same of each item of a list with one template."""
    lists = {gold.id: listed for gold in plan if (listed := _list_of(gold, plan))}
    found: dict[str, GoldSubtask] = {}
    for gold in plan:
        listed = lists.get(gold.id, "")
        template = GoldSubtask(
            id=_template_id(listed) if listed else gold.id,
            instruction=f"Of each item of the list: {gold.instruction}" if listed else gold.instruction,
            agent=gold.agent,
            depends_on=tuple(
                dict.fromkeys(_template_id(lists[each]) if each in lists else each for each in gold.depends_on)
            ),
            for_each=listed,
        )
        found.setdefault(template.id, template)
    return [*found.values()]


def _list_of(gold: GoldSubtask, plan: Sequence[GoldSubtask]) -> str:
    """Return the subtask whose list this and other subtasks of the same agent are asked about; empty if none."""
    alike = [each for each in plan if (each.depends_on, each.agent) == (gold.depends_on, gold.agent)]
    return gold.depends_on[0] if len(gold.depends_on) == 1 and len(alike) > 1 else ""


def _template_id(listed: str) -> str:
    return f"E{listed}"


def _draft(gold: GoldSubtask) -> SubtaskDraft:
    return SubtaskDraft(
        id=gold.id,
        agent=gold.agent,
        instruction=gold.instruction,
        depends_on=list(gold.depends_on),
        required=[],
        for_each=gold.for_each,
    )


def _finding(instruction: str, ref: str, quote: str, content: str = "") -> WorkAnswer:
    content = content or f"{instruction} {quote}"
    finding = FindingDraft(claim=content, source_refs=[ref], quote=quote, confidence=95)
    return WorkAnswer(
        status="success", content=f"{content} [{ref}]", findings=[finding], confidence=95, gaps=[], message=""
    )


def _look_up(tool: str, query: str) -> ModelReply:
    call = ToolCall(id="call-1", tool=tool, arguments={"query": query})
    return scripted_model.use().model_copy(update={"tool_calls": (call,), "usage": _usage()})


def _reply(said: BaseModel) -> ModelReply:
    return scripted_model.reply(said).model_copy(update={"usage": _usage()})


def _usage() -> Usage:
    return Usage(turns=1, input_tokens=_TOKENS[0], output_tokens=_TOKENS[1], cost_usd=_COST)
