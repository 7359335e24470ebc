"""Turns in which the supervisor decides what to do, and by which agents."""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Final, Literal, get_args

from pydantic import Field

from activities.contracts.cards import AgentDraft, OfferedTool
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

_PLAN: Final = """You are the supervisor of a crew of agents. You only plan.

Break the user's request into subtasks for the agents below. Answer with JSON: the list subtasks, each with
the fields from id to for_each, and the fields from strategy on.
- id: T1, T2, …
- agent: the one whose description fits best.
- instruction: complete in itself, without abbreviations: the agent sees only it and the outcomes it depends on. One
  aim; the object (which documents, things, period, units); what the answer contains; where to look and where to stop.
  Leave open what the request leaves open. No two ask for the same. Bad: "Analyze the data." Good: "Sum the column
  amount of the table sales by region for 2024 and 2025, in EUR, and name the region that lost most."
- depends_on: ids whose outcomes it needs; empty whenever possible, so that it runs in parallel.
- required: those of depends_on without which it is pointless.
- for_each: the id of a subtask that finds a list, if this one is done for each item: write it once, about "the item".
  Use it whenever you do not know the items; never guess names. Else empty.
- strategy: merge (one text from all outcomes), select (the best of several answers to one question), reduce (many long
  outcomes summarised step by step) or deliver (the text of one subtask, such as a letter, as it is).
- deliver: the id of that subtask, else empty.
- length_words: how many words the user asks for, else 0.
- final_instruction: how to write the report: shape, length, audience, language.
- omitted: what the limits leave no room for, a sentence each; usually empty.

Fit the effort to the request; every subtask costs time and money:
- one subtask for what one agent can answer: a fact, a figure, a list, several questions to one source. An agent
  searches, reads and computes as often as it has to. This is the usual plan.
- 2 to 4 for a comparison, one for each thing compared; for a disputed question, one for each view; for questions to
  different sources.
- 5 to 10 for a survey of a whole field, one for each part of it.
None only puts outcomes together: the report does that.

"Who runs the five largest ports of Europe?" T1: list the five largest ports by tonnage. T2, for_each T1: find who runs
the port, with a source."""

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
    instructions: ClassVar = _PLAN
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
    """Summaries of the sessions before that."""
    may_ask_for_more: bool = left_out(False)
    """Whether the parent session can be asked for more than this allowance."""
    is_approved_by_person: bool = left_out(False)
    """Whether a person approves the plan, which may allow sending out words of the documents."""
    rejected: tuple[RejectedPlan, ...] = ()

    @property
    def refs(self) -> ShortRefs:
        return ShortRefs(refs_of(self.earlier))

    def shared_sections(self, catalog: Catalog | None) -> list[str]:
        return [request_section(self.goal, criteria=self.criteria), *document_sections(catalog), *self._known()]

    def sections(self, catalog: Catalog | None) -> list[str]:
        return [self._limits(), *rejected_sections(self.rejected)]

    def _known(self) -> list[str]:
        if not self.earlier:
            return []
        before = "\n\n".join(f"Asked: {each.goal}\nAnswered: {each.answer}" for each in self.thread)
        return [
            *([f"Earlier in this thread:\n{data_block(before)}"] if before else []),
            _FOLLOW_UP,
            *(outcome_section(each, self.refs) for each in self.earlier),
        ]

    def _limits(self) -> str:
        allowed = self.allowance
        return (
            f"Limits for all subtasks together: {allowed.turns} turns (model calls), ${allowed.usd:.2f}, "
            f"{allowed.minutes} minutes; {allowed.max_parallel} subtasks at once at most. An agent without tools takes "
            f"1 turn; one with tools counts as 3, and has {allowed.max_rounds} at most: at most {self.max_subtasks} of "
            f"those fit{self._more()}. {nesting_note(may_nest=self.may_nest)}"
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


_EXPAND: Final = """You are the supervisor of a crew of agents. One subtask of your plan is a template, to be
carried out once for each item of a list that another subtask has now found. You write the instructions.

- instructions: one for each item of the list, in its order. Each is the template's, about that one item, complete in
  itself: the agent sees the outcomes it depends on, but not the template. Name the item by its full name and by what
  tells it apart (place, year, identifier), as the list gives it. Take only items that the list names; add none from
  memory, and leave out what it calls doubtful or excluded. Write none twice. Empty if the list names no item.
- omitted: each item of the list that there is no room for, by name."""


class ExpandAnswer(TurnAnswer):
    kind: Literal["expand"] = "expand"
    instructions: list[str]
    omitted: list[str] = []


class ExpandTask(TurnTask):
    instructions: ClassVar = _EXPAND
    answer_type: ClassVar = ExpandAnswer

    kind: Literal["expand"] = "expand"
    goal: str
    agent: str
    """The agent of all the subtasks."""
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


_REVIEW: Final = """You are the supervisor of a crew of agents. Subtasks of your plan have ended. You judge
whether their outcomes together answer the user's request.

- enough: true if a good report can be written from them with its gaps named. More work costs the user time and money:
  say false only if something that the request asks for is missing and an agent below can find it.
- missing: each thing that the request asks for and no outcome answers, in a sentence of its own.
- contradictions: facts on which outcomes cannot both be right: about; positions, each with the id of its subtask and
  its source; resolution: which one is right and why, empty if the outcomes do not decide it. Different periods, units
  or definitions are not a contradiction.
- compatible: of differences that are listed for you, the about of each whose statements can all be right.
- subtasks: what to add, only if enough is false. id: a new one. agent: the one that fits best. instruction: complete in
  itself, and never one that was given before. depends_on: ids, old or new, whose outcomes it needs. required: the ids
  in depends_on without which it is pointless. for_each: the id of the one that finds a list, if this one is to be done
  for every item of it; else empty."""


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
    instructions: ClassVar = _REVIEW
    lists_agents: ClassVar = True
    writes_subtasks: ClassVar = True
    answer_type: ClassVar = ReviewAnswer

    kind: Literal["review"] = "review"
    goal: str
    outcomes: tuple[InputOutcome, ...]
    """All ended subtasks of the plan, however they ended."""
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
            "These statements differ. List each difference with its about as it stands here: in compatible if all of "
            "them can be right, else in contradictions, where resolution says which statement is right:"
        )
        return [f"{request}\n{data_block(self.refs.shorten(lines))}"]

    def _rest(self) -> list[str]:
        if not self.waiting:
            return []
        return [
            f"The plan goes on with these subtasks; add none of them again:\n{data_block(bullet_list(self.waiting))}"
        ]


_REFINE: Final = """You are the supervisor of a crew of agents. One of its subtasks ended badly. You decide
whether another instruction could help, and write it.

- worthwhile: false if no instruction could help: the documents do not hold the answer, the tool is broken, or the
  instruction was already as good as it can be.
- instruction: the new one, complete in itself: the agent sees nothing of the earlier attempt. Change what the error
  shows to be wrong: resolve what was ambiguous, name the document or the period, give other words to search for, ask
  for less. Never rephrase the earlier instruction. Ask for nothing that the request does not need. Empty if not
  worthwhile.
- reason: what you changed and why, in one sentence."""


class RefineAnswer(TurnAnswer):
    kind: Literal["refine"] = "refine"
    worthwhile: bool
    instruction: str = ""
    reason: str = ""


class RefineTask(TurnTask):
    instructions: ClassVar = _REFINE
    lists_agents: ClassVar = True
    answer_type: ClassVar = RefineAnswer
    temperature: ClassVar = 0.4

    kind: Literal["refine"] = "refine"
    goal: str
    """The session's goal, for context only."""
    agent: str
    instruction: str
    """The instruction of the failed attempt."""
    problem: str
    outcome: Outcome
    attempts: int
    """Number of finished attempts, this one included."""

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
            f"It ended badly ({ending}) in attempt {self.attempts}:\n{data_block(self.problem)}",
        ]
        returned = [outcome.content, *(f"Gap: {gap}" for gap in outcome.gaps)]
        if any(returned):
            titles = {source.ref: source.title for source in outcome.sources}
            text = data_block(self.refs.explain("\n".join(returned), titles))
            parts.append(f"The agent returned, with confidence {outcome.confidence}:\n{text}")
        return parts


_DESIGN: Final = """You are the supervisor of a crew of agents. Before the user's request is planned, describe the
specialists that it needs besides the agents below. Answer with JSON:
- agents: the specialists; none if the agents below are enough, which is usual. For each:
  - name: one word in lower case, such as geologist.
  - description: what it is good for, in a sentence, for the planner.
  - prompt: how it works and what a good answer is, in 3 to 8 sentences: what it looks for first, what it checks, which
    mistakes are typical of such work. Nothing about this request: its instruction will say that.
  - tools: names of the tools below that it needs; often one or two. No agent may have tools that together read what
    strangers write, read private documents and reach out.
  - tier: small, medium or large, by how hard its work is."""


class DesignAnswer(TurnAnswer):
    kind: Literal["design"] = "design"
    agents: list[AgentDraft]


class DesignTask(TurnTask):
    instructions: ClassVar = _DESIGN
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


_ROUTE: Final = """You are the dispatcher of a crew of agents. You decide who gets the user's request; you never
answer it yourself. Answer with JSON:
- routes: one agent, or two. The first, the primary, has to be able to answer the request. Name a second only if the
  request needs another agent besides: it starts when the first has ended, and sees what that found. For each: agent;
  instruction, complete in itself, with every fact of the request that this agent needs; reason, in one sentence.
- confidence: 0-100 that this is the right choice. Below 50 if the request could as well belong to another agent."""


class RouteDraft(Contract):
    agent: str
    instruction: str
    reason: str


class RouteAnswer(TurnAnswer):
    kind: Literal["route"] = "route"
    routes: list[RouteDraft]
    confidence: int


class RouteTask(TurnTask):
    instructions: ClassVar = _ROUTE
    lists_agents: ClassVar = True
    answer_type: ClassVar = RouteAnswer

    kind: Literal["route"] = "route"
    goal: str

    def shared_sections(self, catalog: Catalog | None) -> list[str]:
        return [request_section(self.goal), *document_sections(catalog)]
