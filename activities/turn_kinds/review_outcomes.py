"""A turn that decides whether the outcomes meet the goal, and what is missing."""

from typing import ClassVar, Final, Literal

from activities.contracts.drafts import ContradictionDraft, SubtaskDraft
from activities.contracts.rounds import InputOutcome
from activities.documents.catalog import Catalog
from activities.turn_kinds.protocol import TurnAnswer, TurnTask
from activities.turn_kinds.rendering import document_sections, nesting_note, request_section, verdict_section

_INSTRUCTIONS: Final = """You are the supervisor of a crew of agents. The subtasks of your plan have ended. You judge
whether their outcomes together answer the user's request.

- enough: true if a good report can be written from them with its gaps named. More work costs the user time and money:
  say false only if something that the request asks for is missing and an agent below can find it.
- missing: each thing that the request asks for and no outcome answers, in a sentence of its own.
- contradictions: facts on which outcomes cannot both be right: about; positions, each with the id of its subtask and
  its source; resolution: which one is right and why, empty if the outcomes do not decide it. Different periods, units
  or definitions are not a contradiction.
- subtasks: what to add, only if enough is false. id: a new one. agent: the one that fits best. instruction: complete in
  itself, and never one that was given before. depends_on: ids, old or new, whose outcomes it needs. required: the ids
  in depends_on without which it is pointless."""


class ReviewAnswer(TurnAnswer):
    """A judgement on all outcomes together as the model writes it, not yet checked."""

    kind: Literal["review"] = "review"
    enough: bool
    missing: list[str]
    contradictions: list[ContradictionDraft]
    subtasks: list[SubtaskDraft]
    """What to add to the plan. Ids are new; `depends_on` may name subtasks that have ended."""


class ReviewTask(TurnTask):
    """Judge whether the outcomes meet the goal, and what is missing."""

    instructions: ClassVar = _INSTRUCTIONS
    lists_agents: ClassVar = True
    writes_subtasks: ClassVar = True
    answer_type: ClassVar = ReviewAnswer

    kind: Literal["review"] = "review"
    goal: str
    outcomes: tuple[InputOutcome, ...]
    """Every subtask of the plan, whatever became of it."""
    max_subtasks: int
    """How many subtasks may be added."""
    may_nest: bool
    """Whether an added subtask may be a session of its own."""

    def sections(self, catalog: Catalog | None) -> list[str]:
        """Render the request, every outcome, and how many subtasks may be added."""
        return [
            request_section(self.goal),
            *document_sections(catalog),
            *(verdict_section(result) for result in self.outcomes),
            f"Add at most {self.max_subtasks} subtasks. {nesting_note(may_nest=self.may_nest)}"
            if self.max_subtasks
            else "No more subtasks can be added.",
        ]
