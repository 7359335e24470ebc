"""The plan: a directed acyclic graph of subtasks, as the supervisor follows it."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from chargehand.contracts.base import NoControlCharacters, TypedByPeople
from chargehand.contracts.request import Name

SubtaskId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,19}$")]
"""A short id, unique within its plan, such as `T1`."""

Strategy = Literal["merge", "select", "reduce"]
"""How outcomes become one report: written into one text, the best one chosen, or summarised in a tree."""


class Subtask(TypedByPeople):
    """One node of the plan: a piece of work for one agent."""

    id: SubtaskId
    """Short name, unique in the plan: a letter, then letters, digits, `_` or `-` (20 characters at most)."""
    agent: Name
    """Name of an agent of the crew, or `supervisor` for a nested session."""
    instruction: Annotated[str, StringConstraints(strip_whitespace=True, max_length=4_000), NoControlCharacters]
    """What to do, complete in itself: the agent sees nothing else but the outcomes it depends on."""
    depends_on: tuple[SubtaskId, ...] = ()
    """Subtasks whose outcomes this one is given. It starts when all of them have ended."""
    required: tuple[SubtaskId, ...] = ()
    """Those of `depends_on` without which this subtask is skipped; without any other it runs with the gap stated."""


class Plan(TypedByPeople):
    """What the supervisor carries out."""

    subtasks: Annotated[tuple[Subtask, ...], Field(max_length=200)]
    """The nodes, in the order in which they are started when several are ready."""
    strategy: Strategy = "merge"
    """How outcomes become one report: `merge` into one text, `select` the best, or `reduce` in steps."""
    final_instruction: Annotated[str, StringConstraints(max_length=4_000), NoControlCharacters] = ""
    """How the report should be written: shape, length, audience."""


class Answer(TypedByPeople):
    """A person's answer to a question of a subtask."""

    subtask: SubtaskId
    """Id of the subtask that asked."""
    text: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4_000), NoControlCharacters]
    """What is to be done, or which reading is meant (1 to 4,000 characters)."""


class PlanDecision(TypedByPeople):
    """A person's answer to a plan that waits for approval."""

    decision: Literal["approve", "edit", "reject"]
    """`approve` it as it is, `edit` it, or `reject` it, which ends the session."""
    plan: Plan | None = None
    """The plan to carry out instead, with `edit`. It is checked like any plan."""
    reason: Annotated[str, StringConstraints(max_length=2_000), NoControlCharacters] = ""
    """Why, with `reject`; it is quoted in the session's failure."""
