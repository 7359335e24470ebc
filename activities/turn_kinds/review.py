"""The turn kind `review`. Decide whether the outcomes meet the goal, and what is missing."""

from typing import Literal

from activities.contracts import ContradictionDraft, InputOutcome, SubtaskDraft
from activities.turn_kinds.protocol import TurnAnswer
from chargehand.contracts import Contract


class ReviewTask(Contract):
    """Judge whether the outcomes meet the goal, and what is missing."""

    kind: Literal["review"] = "review"
    goal: str
    outcomes: tuple[InputOutcome, ...]
    """Every subtask of the plan, whatever became of it."""
    max_subtasks: int
    """How many subtasks may be added."""
    may_nest: bool
    """Whether an added subtask may be a session of its own."""


class ReviewAnswer(TurnAnswer):
    """A judgement on all outcomes together as the model writes it, not yet checked."""

    kind: Literal["review"] = "review"
    enough: bool
    missing: list[str]
    contradictions: list[ContradictionDraft]
    subtasks: list[SubtaskDraft]
    """What to add to the plan. Ids are new; `depends_on` may name subtasks that have ended."""
