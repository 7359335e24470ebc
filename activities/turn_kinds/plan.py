"""A turn that writes a plan."""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Final, Literal, get_args

from pydantic import Field

from activities.contracts.drafts import SubtaskDraft
from activities.contracts.rounds import InputOutcome
from activities.documents.catalog import Catalog
from activities.turn_kinds.protocol import TurnAnswer, TurnTask
from activities.turn_kinds.rendering import (
    bullet_list,
    document_sections,
    nesting_note,
    outcome_section,
    refs_of,
    request_section,
)
from activities.turn_kinds.short_refs import ShortRefs
from activities.turn_kinds.untrusted_text import data_block
from chargehand.contracts import Contract, Dollars, EarlierSession, Strategy, left_out

_INSTRUCTIONS: Final = """You are the supervisor of a crew of agents. You only plan.

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
"""Subtasks of a plan that covers a whole field."""


class RejectedPlan(Contract):
    plan: str
    """The plan as JSON, as the model wrote it."""
    errors: tuple[str, ...]


class Allowance(Contract):
    """What a plan's subtasks may use together."""

    turns: int
    """LLM calls, without those for this plan and for the report."""
    usd: Dollars
    minutes: int
    max_rounds: int
    """Turns of one agent."""
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
    instructions: ClassVar = _INSTRUCTIONS
    lists_agents: ClassVar = True
    writes_subtasks: ClassVar = True
    answer_type: ClassVar = PlanAnswer
    temperature: ClassVar = 0.2

    kind: Literal["plan"] = "plan"
    goal: str
    max_subtasks: int
    allowance: Allowance
    may_nest: bool
    """Whether a subtask may be a session of its own."""
    criteria: tuple[str, ...] = left_out(())
    """What the user will have the report graded by."""
    earlier: tuple[InputOutcome, ...] = left_out(())
    """The report of the session that this one follows."""
    thread: tuple[EarlierSession, ...] = left_out(())
    """The sessions that came before that, in brief."""
    may_ask_for_more: bool = left_out(False)
    """Whether the session above is asked for what the plan needs beyond this allowance."""
    is_approved_by_person: bool = left_out(False)
    """Whether a person approves the plan, and so may allow words of the documents to be sent out."""
    rejected: tuple[RejectedPlan, ...] = ()

    @property
    def refs(self) -> ShortRefs:
        return ShortRefs(refs_of(self.earlier))

    def shared_sections(self, catalog: Catalog | None) -> list[str]:
        return [request_section(self.goal, criteria=self.criteria), *document_sections(catalog), *self._known()]

    def sections(self, catalog: Catalog | None) -> list[str]:
        return [self._limits(), *rejected_sections(self.rejected)]

    def _known(self) -> list[str]:
        """Render what sessions before this one have found."""
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
            f"{allowed.minutes} minutes; {allowed.max_parallel} subtasks at once. An agent without tools takes 1 turn; "
            f"one with tools 3 to {allowed.max_rounds}: at most {self.max_subtasks} of those fit{self._more()}. "
            f"{nesting_note(may_nest=self.may_nest)}"
        )

    def _more(self) -> str:
        if not self.may_ask_for_more or self.max_subtasks >= _SURVEY:
            return ""
        return f", or up to {_SURVEY} if the request needs them: the session above is then asked for the rest, once"


def rejected_sections(rejected: Sequence[RejectedPlan]) -> list[str]:
    """Render the last attempt at a plan, with the reasons against it."""
    return [
        f"Your plan was rejected:\n{data_block(attempt.plan)}\n"
        f"for these reasons:\n{data_block(bullet_list(attempt.errors))}\nFix all of them."
        for attempt in rejected[-1:]
    ]
