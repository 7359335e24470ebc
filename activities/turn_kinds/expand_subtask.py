"""A turn that turns a template of the plan into one instruction for each item of a list."""

from typing import ClassVar, Final, Literal

from activities.contracts.rounds import InputOutcome
from activities.documents.catalog import Catalog
from activities.turn_kinds.plan import RejectedPlan, rejected_sections
from activities.turn_kinds.protocol import TurnAnswer, TurnTask
from activities.turn_kinds.rendering import outcome_section, refs_of, request_section
from activities.turn_kinds.short_refs import ShortRefs
from activities.turn_kinds.untrusted_text import data_block

_INSTRUCTIONS: Final = """You are the supervisor of a crew of agents. One subtask of your plan is a template, to be
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
    instructions: ClassVar = _INSTRUCTIONS
    answer_type: ClassVar = ExpandAnswer

    kind: Literal["expand"] = "expand"
    goal: str
    agent: str
    """The agent that gets every one of the subtasks."""
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
