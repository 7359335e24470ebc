"""Turns in which the supervisor decides what to do and which agents do it."""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Final, Literal, get_args

from pydantic import Field

from activities.contracts.cards import TURNS_WITH_TOOLS, AgentDraft, OfferedTool
from activities.contracts.rounds import InputOutcome
from activities.documents.catalog import Catalog
from activities.turn_kinds.protocol import ContradictionDraft, SubtaskDraft, TurnAnswer, TurnTask
from activities.turn_kinds.rendering import (
    bullet_list,
    data_block,
    document_sections,
    nesting_note,
    outcome_section,
    refs_of,
    request_section,
    verdict_section,
)
from activities.turn_kinds.short_refs import ShortRefs
from chargehand.contracts import Contract, Dollars, EarlierSession, Escalation, Failure, Outcome, Strategy, left_out

_FOLLOW_UP: Final = (
    "The request follows on from the work below, of the session before. Every agent is given it too: ask only for what "
    "is new, and say in each instruction what the request refers to."
)
_SURVEY: Final = 10
"""Number of subtasks of a plan that surveys a whole field."""


class RejectedPlan(Contract):
    plan: str
    """The plan as JSON, as written by the model."""
    errors: tuple[str, ...]


class Allowance(Contract):
    """What a plan's subtasks may use in total."""

    turns: int
    """LLM calls, excluding those for this plan and the report."""
    usd: Dollars
    minutes: int
    max_rounds: int
    """Maximum rounds of one attempt."""
    max_parallel: int


class PlanAnswer(TurnAnswer):
    kind: Literal["plan"] = "plan"
    subtasks: list[SubtaskDraft]
    strategy: Annotated[str, Field(json_schema_extra={"enum": list(get_args(Strategy))})] = "merge"
    final_instruction: str = ""
    deliver: str = ""
    length_words: int = 0
    omitted: list[str] = []


class PlanTask(TurnTask):
    lists_agents: ClassVar = True
    writes_subtasks: ClassVar = True
    answer_type: ClassVar = PlanAnswer
    temperature: ClassVar = 0.2

    kind: Literal["plan"] = "plan"
    goal: str
    max_subtasks: int
    allowance: Allowance
    may_nest: bool
    """Whether a subtask may be a nested session."""
    criteria: tuple[str, ...] = left_out(())
    """The user's criteria for grading the report."""
    earlier: tuple[InputOutcome, ...] = left_out(())
    """The report of the session that this one follows."""
    thread: tuple[EarlierSession, ...] = left_out(())
    """Summaries of the sessions before that one."""
    may_ask_for_more: bool = left_out(False)
    """Whether the session can ask its parent session for more than this allowance."""
    is_approved_by_person: bool = left_out(False)
    """Whether a person approves the plan, which may allow sending out words of the documents."""
    rejected: tuple[RejectedPlan, ...] = ()

    @property
    def refs(self) -> ShortRefs:
        return ShortRefs(refs_of(self.earlier))

    def shared_sections(self, catalog: Catalog | None) -> list[str]:
        return [
            request_section(self.goal, criteria=self.criteria),
            *document_sections(catalog),
            *self._earlier_sections(),
        ]

    def sections(self, catalog: Catalog | None) -> list[str]:
        return [self._limits(), *rejected_sections(self.rejected)]

    def _earlier_sections(self) -> list[str]:
        if not self.earlier:
            return []
        before = "\n\n".join(f"Asked: {each.goal}\nAnswered: {each.answer}" for each in self.thread)
        return [
            *([f"Earlier in this thread:\n{data_block(before)}"] if before else []),
            _FOLLOW_UP,
            *(outcome_section(each, self.refs) for each in self.earlier),
        ]

    def _limits(self) -> str:
        allowed, most, nested = self.allowance, self.allowance.max_rounds, nesting_note(may_nest=self.may_nest)
        return (
            f"Limits for all subtasks together: {allowed.turns} turns (model calls), ${allowed.usd:.2f}, "
            f"{allowed.minutes} minutes; {allowed.max_parallel} subtasks at once at most. An agent without tools takes "
            f"1 turn; one with tools counts as {min(TURNS_WITH_TOOLS, most)}, and has {most} at most: at most "
            f"{self.max_subtasks} of those fit{self._more()}. for_each takes 1 more. {nested}"
        )

    def _more(self) -> str:
        if not self.may_ask_for_more or self.max_subtasks >= _SURVEY:
            return ""
        return f", or up to {_SURVEY} if the request needs them: the session above is then asked for the rest, once"


def rejected_sections(rejected: Sequence[RejectedPlan]) -> list[str]:
    """Render the last rejected plan with its errors."""
    return [
        f"Your plan was rejected:\n{data_block(attempt.plan)}\n"
        f"for these reasons:\n{data_block(bullet_list(attempt.errors))}\nFix all of them."
        for attempt in rejected[-1:]
    ]


class ExpandAnswer(TurnAnswer):
    kind: Literal["expand"] = "expand"
    instructions: list[str]
    omitted: list[str] = []


class ExpandTask(TurnTask):
    answer_type: ClassVar = ExpandAnswer

    kind: Literal["expand"] = "expand"
    goal: str
    agent: str
    """The agent that works on all the subtasks."""
    template: str
    items: InputOutcome
    """The outcome that lists the items."""
    max_subtasks: int
    rejected: tuple[RejectedPlan, ...] = ()

    @property
    def refs(self) -> ShortRefs:
        return ShortRefs(refs_of([self.items]))

    def shared_sections(self, catalog: Catalog | None) -> list[str]:
        return [request_section(self.goal, context_only=True), outcome_section(self.items, self.refs)]

    def sections(self, catalog: Catalog | None) -> list[str]:
        return [
            f"Template, for the agent {self.agent}:\n{data_block(self.template)}",
            f"Write at most {self.max_subtasks} instructions; if the list is longer, take the items that come first.",
            *rejected_sections(self.rejected),
        ]


class ReviewAnswer(TurnAnswer):
    kind: Literal["review"] = "review"
    enough: bool
    missing: list[str] = []
    contradictions: list[ContradictionDraft] = []
    compatible: list[str] = []
    """Topics of differences whose statements can all be right."""
    subtasks: list[SubtaskDraft] = []
    """Subtasks to add to the plan. Ids are new; `depends_on` may name subtasks that have ended."""


class ReviewTask(TurnTask):
    lists_agents: ClassVar = True
    writes_subtasks: ClassVar = True
    answer_type: ClassVar = ReviewAnswer

    kind: Literal["review"] = "review"
    goal: str
    outcomes: tuple[InputOutcome, ...]
    """All subtasks of the plan that have ended, successfully or not."""
    waiting: tuple[str, ...] = ()
    """Subtasks that have not started yet."""
    disagreements: tuple[ContradictionDraft, ...] = ()
    """Differences between outcomes found by code."""
    max_subtasks: int
    may_nest: bool
    """Whether an added subtask may be a nested session."""

    @property
    def refs(self) -> ShortRefs:
        return ShortRefs(refs_of(self.outcomes))

    def shared_sections(self, catalog: Catalog | None) -> list[str]:
        refs = self.refs
        outcomes = (verdict_section(result, refs) for result in self.outcomes)
        return [request_section(self.goal), *document_sections(catalog), *outcomes]

    def sections(self, catalog: Catalog | None) -> list[str]:
        return [
            *self._differences(),
            *self._rest(),
            f"Subtasks that may be added: {self.max_subtasks}. {nesting_note(may_nest=self.may_nest)}"
            if self.max_subtasks
            else "No more subtasks can be added.",
        ]

    def _differences(self) -> list[str]:
        if not self.disagreements:
            return []
        lines = "\n".join(f"about: {each.about}\n{bullet_list(each.positions)}" for each in self.disagreements)
        request = (
            "These statements differ. List each difference with its about copied exactly: in compatible if all of "
            "them can be right, else in contradictions, where resolution says which statement is right:"
        )
        return [f"{request}\n{data_block(self.refs.shorten(lines))}"]

    def _rest(self) -> list[str]:
        if not self.waiting:
            return []
        return [
            f"The plan continues with these subtasks; add none of them again:\n{data_block(bullet_list(self.waiting))}"
        ]


class RefineAnswer(TurnAnswer):
    kind: Literal["refine"] = "refine"
    worthwhile: bool
    instruction: str = ""
    reason: str = ""


class RefineTask(TurnTask):
    lists_agents: ClassVar = True
    answer_type: ClassVar = RefineAnswer
    temperature: ClassVar = 0.4

    kind: Literal["refine"] = "refine"
    goal: str
    """The session's goal, only for context."""
    agent: str
    instruction: str
    """The instruction of the failed attempt."""
    problem: str
    outcome: Outcome
    attempts: int
    """Number of finished attempts, including this one."""

    @property
    def refs(self) -> ShortRefs:
        return ShortRefs(source.ref for source in self.outcome.sources)

    def shared_sections(self, catalog: Catalog | None) -> list[str]:
        return [request_section(self.goal, context_only=True), *document_sections(catalog)]

    def sections(self, catalog: Catalog | None) -> list[str]:
        outcome = self.outcome
        is_lost = isinstance(outcome, Failure | Escalation)
        ending = f"{outcome.kind}: {outcome.reason.replace('_', ' ')}" if is_lost else outcome.kind
        parts = [
            f"Instruction for the agent {self.agent}:\n{data_block(self.instruction)}",
            f"It did not succeed ({ending}) in attempt {self.attempts}:\n{data_block(self.problem)}",
        ]
        returned = [outcome.content, *(f"Gap: {gap}" for gap in outcome.gaps)]
        if any(returned):
            titles = {source.ref: source.title for source in outcome.sources}
            text = data_block(self.refs.explain("\n".join(returned), titles))
            parts.append(f"The agent returned, with confidence {outcome.confidence}:\n{text}")
        return parts


class DesignAnswer(TurnAnswer):
    kind: Literal["design"] = "design"
    agents: list[AgentDraft]


class DesignTask(TurnTask):
    lists_agents: ClassVar = True
    answer_type: ClassVar = DesignAnswer

    kind: Literal["design"] = "design"
    goal: str
    tools: tuple[OfferedTool, ...]
    most: int
    problems: tuple[str, ...] = ()

    def shared_sections(self, catalog: Catalog | None) -> list[str]:
        return [request_section(self.goal), *document_sections(catalog)]

    def sections(self, catalog: Catalog | None) -> list[str]:
        tools = "\n".join(f"- {tool.name}: {tool.description}" for tool in self.tools)
        parts = [f"Tools:\n{tools}", f"At most {self.most} agents."]
        if self.problems:
            reasons = data_block(bullet_list(self.problems))
            parts.append(f"Your agents were rejected for these reasons:\n{reasons}\nFix all of them.")
        return parts


class RouteDraft(Contract):
    agent: str
    instruction: str
    reason: str


class RouteAnswer(TurnAnswer):
    kind: Literal["route"] = "route"
    routes: list[RouteDraft]
    confidence: int


class RouteTask(TurnTask):
    lists_agents: ClassVar = True
    answer_type: ClassVar = RouteAnswer

    kind: Literal["route"] = "route"
    goal: str

    def shared_sections(self, catalog: Catalog | None) -> list[str]:
        return [request_section(self.goal), *document_sections(catalog)]
