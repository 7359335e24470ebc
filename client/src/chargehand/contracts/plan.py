"""The plan, a directed acyclic graph of subtasks, and what people decide about it."""

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, StringConstraints
from pydantic_core import from_json, to_json

from chargehand.contracts.base import Name, NoControlCharacters, NullIsEmpty, TypedByPeople, left_out
from chargehand.contracts.request import OutputTokens, Tier, UpToADay, Words

_INPUT_BYTES: Final = 16_000

SubtaskId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,19}$")]
"""A short id, unique within its plan, such as `T1`."""

_EmptyIsNone = BeforeValidator(lambda value: value or None)


def _read_json(value: object) -> object:
    if not isinstance(value, str):
        return value
    if len(value) > _INPUT_BYTES:
        raise ValueError(f"has more than {_INPUT_BYTES:,} characters")
    try:
        return from_json(value, allow_inf_nan=False) if value.strip() else None
    except ValueError:
        raise ValueError("is not JSON") from None


def _refuse_large_input(value: dict[str, JsonValue] | None) -> dict[str, JsonValue] | None:
    if value is not None and len(to_json(value)) > _INPUT_BYTES:
        raise ValueError(f"has more than {_INPUT_BYTES:,} bytes as JSON")
    return value


SubtaskInput = Annotated[dict[str, JsonValue] | None, BeforeValidator(_read_json), AfterValidator(_refuse_large_input)]
"""A JSON object of at most 16,000 bytes, or its text."""

Strategy = Literal["merge", "select", "reduce", "deliver"]
"""How outcomes become one report: merged into one text, the best one selected, reduced step by step if they are too
long for one writer, or one of them delivered as it is."""


class Subtask(TypedByPeople):
    """One node of the plan: a piece of work for one agent."""

    id: SubtaskId
    """Short name, unique in the plan: a letter, then letters, digits, `_` or `-` (20 characters at most)."""
    agent: Name
    """Name of an agent of the crew, or `supervisor` for a nested session."""
    instruction: Annotated[str, StringConstraints(strip_whitespace=True, max_length=4_000), NoControlCharacters]
    """What to do. It must be complete: the agent sees only this and the outcomes it depends on."""
    depends_on: Annotated[tuple[SubtaskId, ...], NullIsEmpty] = ()
    """Subtasks whose outcomes are inputs of this one. It starts when all of them have ended."""
    required: Annotated[tuple[SubtaskId, ...], NullIsEmpty] = ()
    """The part of `depends_on` that must succeed, or else this subtask is skipped. Other missing inputs become gaps."""
    input: SubtaskInput = left_out(None)
    """Data for the agent, valid by the `input` schema that its crew declares for it."""
    tier: Annotated[Tier | None, _EmptyIsNone] = left_out(None)
    """Model tier instead of the agent's own; one that the request sets for the agent comes first."""
    deadline: Annotated[UpToADay | None, _EmptyIsNone] = left_out(None)
    """Time for one attempt: seconds, or ISO 8601; the request's `subtask_deadline` if that is shorter."""
    max_output_tokens: Annotated[OutputTokens | None, _EmptyIsNone] = left_out(None)
    """The most output tokens of one turn, thinking included; the operator's cap if that is lower."""
    for_each: Annotated[SubtaskId | None, _EmptyIsNone] = left_out(None)
    """Makes this subtask a template: the subtask whose outcome is a list. When that has ended, a plan turn replaces the
    template by one subtask for each item (50 at most, as many as the limits pay for), and what depends on the template
    depends on all of them. Without a usable list the template fails, and the report names that."""


class Plan(TypedByPeople):
    """The subtasks of a session."""

    subtasks: Annotated[tuple[Subtask, ...], Field(max_length=200), NullIsEmpty]
    """The nodes. If several are ready, they start in this order."""
    strategy: Strategy = "merge"
    """How outcomes become one report: `merge` into one text, `select` the best, `reduce` in steps, or `deliver` one."""
    deliver: Annotated[SubtaskId | None, _EmptyIsNone] = None
    """The subtask whose text is the report, for the strategy `deliver`."""
    length_words: Annotated[Words | None, _EmptyIsNone] = None
    """About how long the report is to be, in words; from 3,000 on it is written by section."""
    final_instruction: Annotated[str, StringConstraints(max_length=4_000), NoControlCharacters] = ""
    """How the report should be written: shape, length, audience."""


class AddSubtask(TypedByPeople):
    """Add a subtask."""

    edit: Literal["add"] = "add"
    """Always `add`."""
    subtask: Subtask
    """The subtask; its id is new to the plan."""
    before: SubtaskId | None = None
    """The subtask before which it stands in the plan; at the end if absent."""


class DropSubtask(TypedByPeople):
    """Leave a subtask out. What depends on it has to be dropped or given other inputs in the same edit."""

    edit: Literal["drop"] = "drop"
    """Always `drop`."""
    subtask: SubtaskId
    """The subtask's id."""


class RewordSubtask(TypedByPeople):
    """Give a subtask another instruction."""

    edit: Literal["reword"] = "reword"
    """Always `reword`."""
    subtask: SubtaskId
    """The subtask's id."""
    instruction: Annotated[str, StringConstraints(strip_whitespace=True, max_length=4_000), NoControlCharacters]
    """What to do instead, complete in itself."""


class RerouteSubtask(TypedByPeople):
    """Give a subtask to another agent."""

    edit: Literal["reroute"] = "reroute"
    """Always `reroute`."""
    subtask: SubtaskId
    """The subtask's id."""
    agent: Name
    """Name of an agent of the crew, or `supervisor` for a nested session."""


class ReorderSubtask(TypedByPeople):
    """Give a subtask other inputs, or another place among those that are ready at the same time."""

    edit: Literal["reorder"] = "reorder"
    """Always `reorder`."""
    subtask: SubtaskId
    """The subtask's id."""
    before: SubtaskId | None = None
    """The subtask before which it stands from now on; it keeps its place if absent."""
    depends_on: tuple[SubtaskId, ...] | None = None
    """Its inputs from now on; it keeps those that it has if absent. What it requires is reduced to these."""


PlanChange = Annotated[
    AddSubtask | DropSubtask | RewordSubtask | RerouteSubtask | ReorderSubtask, Field(discriminator="edit")
]
"""One change to a plan, told apart by `edit`."""


class PlanEdit(TypedByPeople):
    """Changes to what has not begun of a plan, applied in order and checked as a whole."""

    edits: Annotated[tuple[PlanChange, ...], Field(min_length=1, max_length=100)]
    """The changes: `add`, `drop`, `reword`, `reroute` or `reorder`."""


class Answer(TypedByPeople):
    """A person's answer to a question of a subtask."""

    subtask: SubtaskId
    """Id of the subtask that asked."""
    text: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4_000), NoControlCharacters]
    """The answer (1 to 4,000 characters)."""


class PlanDecision(TypedByPeople):
    """A person's decision on a plan that awaits approval."""

    decision: Literal["approve", "edit", "reject"]
    """`approve` the plan, `edit` it, or `reject` it, which ends the session."""
    plan: Plan | None = None
    """The plan to carry out instead, for `edit`. It is validated like any plan."""
    reason: Annotated[str, StringConstraints(max_length=2_000), NoControlCharacters] = ""
    """Why, for `reject`; the session's failure quotes it."""
