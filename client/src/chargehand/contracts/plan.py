"""The plan, a directed acyclic graph of subtasks."""

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, StringConstraints
from pydantic_core import from_json, to_json

from chargehand.contracts.base import Form, Name, NoControlCharacters, NullIsEmpty, TypedByPeople, left_out
from chargehand.contracts.durations import UpToADay
from chargehand.contracts.limits import OutputTokens, Tier, Words

__all__ = ["Plan", "Subtask"]

LONGEST_INSTRUCTION: Final = 4_000
MOST_SUBTASKS: Final = 200
_INPUT_BYTES: Final = 16_000

SubtaskId = Annotated[
    str,
    Form(
        r"^[A-Za-z][A-Za-z0-9_-]{0,19}$",
        "must be an id such as T1: a letter, then at most 19 letters, digits, _ or -",
    ),
]
"""A short id, unique within its plan, such as `T1`."""
Instruction = Annotated[
    str, StringConstraints(strip_whitespace=True, max_length=LONGEST_INSTRUCTION), NoControlCharacters
]

_EmptyIsNone = BeforeValidator(lambda value: value or None)


def _read_json(value: object) -> object:
    if not isinstance(value, str):
        return value
    if len(value) > _INPUT_BYTES:
        raise ValueError(f"has more than {_INPUT_BYTES:,} characters")
    try:
        return from_json(value, allow_inf_nan=False) if value.strip() else None
    except (ValueError, TypeError):  # the latter of half a surrogate pair
        raise ValueError("is not JSON") from None


def _refuse_large_input(value: dict[str, JsonValue] | None) -> dict[str, JsonValue] | None:
    if value is not None and len(to_json(value)) > _INPUT_BYTES:
        raise ValueError(f"has more than {_INPUT_BYTES:,} bytes as JSON")
    return value


SubtaskInput = Annotated[dict[str, JsonValue] | None, BeforeValidator(_read_json), AfterValidator(_refuse_large_input)]
"""A JSON object of at most 16,000 bytes, or its text."""

Strategy = Literal["merge", "select", "reduce", "deliver"]
"""How outcomes become one report: merged into one text, the best one selected, reduced step by step if they are too
long for one writer, or one of them delivered unchanged."""


class Subtask(TypedByPeople):
    """One node of the plan: a piece of work for one agent."""

    id: SubtaskId
    """Short name, unique in the plan: a letter, then letters, digits, `_` or `-` (20 characters at most)."""
    agent: Name
    """Name of an agent of the crew, or `supervisor` for a nested session."""
    instruction: Instruction
    """What to do. It must be complete: the agent sees only this and the outcomes of `depends_on`."""
    depends_on: Annotated[tuple[SubtaskId, ...], NullIsEmpty] = ()
    """Subtasks whose outcomes are inputs of this one. It starts when all of them have ended."""
    required: Annotated[tuple[SubtaskId, ...], NullIsEmpty] = ()
    """Those of `depends_on` that must succeed, or this subtask is skipped. Other missing inputs become gaps."""
    input: SubtaskInput = left_out(None)
    """Data for the agent, valid against its `input` schema."""
    tier: Annotated[Tier | None, _EmptyIsNone] = left_out(None)
    """Replaces the agent's model tier, unless the request sets one for the agent."""
    deadline: Annotated[UpToADay | None, _EmptyIsNone] = left_out(None)
    """Time for one attempt: seconds, or ISO 8601; the request's `subtask_deadline` if that is shorter."""
    max_output_tokens: Annotated[OutputTokens | None, _EmptyIsNone] = left_out(None)
    """Maximum output tokens of one turn, thinking included; the operator's cap if that is lower."""
    for_each: Annotated[SubtaskId | None, _EmptyIsNone] = left_out(None)
    """Makes this subtask a template: the subtask whose outcome is a list. When that has ended, a plan turn replaces the
    template with one subtask per item (50 at most, as many as the limits pay for), and whatever depends on the template
    depends on all of them. Without a usable list the template fails, and the report says so."""


class Plan(TypedByPeople):
    """The subtasks of a session."""

    subtasks: Annotated[tuple[Subtask, ...], Field(max_length=MOST_SUBTASKS), NullIsEmpty]
    """The nodes. Subtasks that are ready start in this order."""
    strategy: Strategy = "merge"
    """How outcomes become one report: `merge` into one text, `select` the best, `reduce` in steps, or `deliver` one."""
    deliver: Annotated[SubtaskId | None, _EmptyIsNone] = None
    """The subtask whose text is the report, for the strategy `deliver`."""
    length_words: Annotated[Words | None, _EmptyIsNone] = None
    """Approximate length of the report in words; from 3,000 on it is written by section."""
    final_instruction: Annotated[str, StringConstraints(max_length=LONGEST_INSTRUCTION), NoControlCharacters] = ""
    """How the report should be written: shape, length, audience."""
