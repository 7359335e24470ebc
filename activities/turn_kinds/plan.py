"""The turn kind `plan`. Write a plan."""

from typing import Annotated, Literal, get_args

from pydantic import Field

from activities.contracts import SubtaskDraft
from activities.turn_kinds.protocol import TurnAnswer
from chargehand.contracts import Contract, Strategy


class RejectedPlan(Contract):
    """A plan that did not pass its check."""

    plan: str
    """The plan as JSON, as the model wrote it."""
    errors: tuple[str, ...]


class PlanTask(Contract):
    """Write a plan."""

    kind: Literal["plan"] = "plan"
    goal: str
    max_subtasks: int
    may_nest: bool
    """Whether a subtask may be a session of its own."""
    rejected: tuple[RejectedPlan, ...] = ()
    """Earlier attempts and what was wrong with them."""


class PlanAnswer(TurnAnswer):
    """A plan as the model writes it, not yet checked."""

    kind: Literal["plan"] = "plan"
    subtasks: list[SubtaskDraft]
    strategy: Annotated[str, Field(json_schema_extra={"enum": list(get_args(Strategy))})]
    final_instruction: str
