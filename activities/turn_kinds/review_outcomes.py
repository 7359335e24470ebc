"""A turn that decides whether the outcomes meet the goal, and what is missing."""

from typing import ClassVar, Final, Literal

from activities.contracts.drafts import ContradictionDraft, SubtaskDraft
from activities.contracts.rounds import InputOutcome
from activities.documents.catalog import Catalog
from activities.turn_kinds.protocol import TurnAnswer, TurnTask
from activities.turn_kinds.rendering import (
    bullet_list,
    document_sections,
    nesting_note,
    refs_of,
    request_section,
    verdict_section,
)
from activities.turn_kinds.short_refs import ShortRefs
from activities.turn_kinds.untrusted_text import data_block

_INSTRUCTIONS: Final = """You are the supervisor of a crew of agents. Subtasks of your plan have ended. You judge
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
    """What differences are about whose statements can all be right."""
    subtasks: list[SubtaskDraft] = []
    """What to add to the plan. Ids are new; `depends_on` may name subtasks that have ended."""


class ReviewTask(TurnTask):
    instructions: ClassVar = _INSTRUCTIONS
    lists_agents: ClassVar = True
    writes_subtasks: ClassVar = True
    answer_type: ClassVar = ReviewAnswer

    kind: Literal["review"] = "review"
    goal: str
    outcomes: tuple[InputOutcome, ...]
    """Every subtask of the plan that has ended, whatever became of it."""
    waiting: tuple[str, ...] = ()
    """What the plan still has to do."""
    disagreements: tuple[ContradictionDraft, ...] = ()
    """Where code finds that outcomes differ."""
    max_subtasks: int
    may_nest: bool
    """Whether an added subtask may be a session of its own."""

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
            f"Add at most {self.max_subtasks} subtasks. {nesting_note(may_nest=self.may_nest)}"
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
