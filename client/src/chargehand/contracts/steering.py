"""What people tell a running session: the inputs of its updates, each with the rules of its content."""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, JsonValue, StringConstraints, ValidationInfo, model_validator

from chargehand.contracts.base import Dollars, Name, NoControlCharacters, TypedByPeople, left_out
from chargehand.contracts.limits import WHOLE, DollarLimit, UpToAWeek
from chargehand.contracts.plan import Plan, Subtask, SubtaskId
from chargehand.contracts.waits import Decider

__all__ = [
    "AddSubtask",
    "Answer",
    "CallDecision",
    "DropSubtask",
    "Interruption",
    "LostCharges",
    "PlanChange",
    "PlanDecision",
    "PlanEdit",
    "RaisedLimits",
    "ReorderSubtask",
    "RerouteSubtask",
    "RewordSubtask",
    "UserMessage",
]

MOST_CHARGES: Final = 1_000
"""That a session is told of at once."""
CallId = Annotated[str, StringConstraints(pattern=r"^c[1-9][0-9]{0,5}$")]
Reason = Annotated[str, StringConstraints(max_length=2_000), NoControlCharacters]
Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4_000), NoControlCharacters]


def _only_to_edit(value: Any, fields: ValidationInfo) -> Any:
    if "decision" in fields.data and (value is not None) != (fields.data["decision"] == "edit"):
        raise ValueError("is required with the decision 'edit', and allowed with no other")
    return value


_OnlyToEdit = AfterValidator(_only_to_edit)
"""Binds a field to the decision before it; with `validate_default`, also where it is absent."""


class PlanDecision(TypedByPeople):
    """A person's decision on a plan that awaits approval."""

    decision: Literal["approve", "edit", "reject"]
    """`approve` the plan, `edit` it, or `reject` it, which ends the session."""
    plan: Annotated[Plan | None, Field(validate_default=True), _OnlyToEdit] = None
    """The plan to carry out instead, for `edit`. It is validated like any plan."""
    reason: Reason = ""
    """Why, for `reject`; the session's failure quotes it."""
    by: Decider = left_out("")
    """Who decides, and by which way, for the report and the trace."""


class CallDecision(TypedByPeople):
    """A person's decision on one tool call."""

    call: CallId
    """Id of the call."""
    hash: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    """Hash of the call that the person has seen."""
    decision: Literal["approve", "edit", "reject"]
    """`approve` the call, `edit` its arguments and approve that, or `reject` it."""
    arguments: Annotated[
        Annotated[dict[str, JsonValue], Field(max_length=100)] | None, Field(validate_default=True), _OnlyToEdit
    ] = None
    """The arguments to be used instead, for `edit`."""
    reason: Reason = ""
    """Why, for `reject`; the agent reads it."""
    by: Decider = left_out("")
    """Who decides, and by which way, for the report and the trace."""


class Answer(TypedByPeople):
    """A person's answer to a question of a subtask."""

    subtask: SubtaskId
    """Id of the subtask that asked."""
    text: Words
    """The answer (1 to 4,000 characters)."""
    by: Decider = left_out("")
    """Who decides, and by which way, for the report and the trace."""


class RaisedLimits(TypedByPeople):
    """Higher limits for a running session; absent fields stay as they are."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    max_turns: Annotated[int, Field(strict=True, ge=1, le=1_000), WHOLE] | None = None
    """LLM calls in the whole session, including those already made."""
    budget_usd: DollarLimit | None = None
    """US dollars in the whole session, including those already spent."""
    deadline: UpToAWeek | None = None
    """Time from the start of the session, not from now: seconds, `90s`, `1h30m`, or ISO 8601."""
    by: Decider = left_out("")
    """Who decides, and by which way, for the report and the trace."""

    @model_validator(mode="after")
    def _raises_something(self) -> Self:
        if self.max_turns is None and self.budget_usd is None and self.deadline is None:
            raise ValueError("give at least one of max_turns, budget_usd and deadline")
        return self


class LostCharges(TypedByPeople):
    """What a session has paid and does not know, since a database that was restored has forgotten it."""

    charges: Annotated[
        dict[Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")], Annotated[Dollars, Field(le=1_000_000)]],
        Field(max_length=MOST_CHARGES),
    ]
    """US dollars by the id of each charge; one that is booked already is left out."""


SubtaskPath = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,19}(/[A-Za-z][A-Za-z0-9_-]{0,19}){0,9}$")
]
"""The id of a subtask, or, below a nested session, the ids on the way to it: `T2/T1`."""


class UserMessage(TypedByPeople):
    """A message of a person to agents, which read it at their next turn."""

    text: Words
    """The message (1 to 4,000 characters)."""
    subtask: SubtaskPath | None = None
    """The subtask that it is for; without it, every one that runs, and every one that begins later."""


class Interruption(TypedByPeople):
    """Ends the tools that agents are using; the agents go on with their next turn."""

    subtask: SubtaskPath | None = None
    """The subtask whose tools end; without it, those of every one that runs."""


class AddSubtask(TypedByPeople):
    """Add a subtask."""

    edit: Literal["add"] = "add"
    subtask: Subtask
    """The subtask; its id is new to the plan."""
    before: SubtaskId | None = None
    """The subtask before which it stands in the plan; at the end if absent."""


class DropSubtask(TypedByPeople):
    """Leave a subtask out. What depends on it has to be dropped or given other inputs in the same edit."""

    edit: Literal["drop"] = "drop"
    subtask: SubtaskId
    """The subtask's id."""


class RewordSubtask(TypedByPeople):
    """Give a subtask another instruction."""

    edit: Literal["reword"] = "reword"
    subtask: SubtaskId
    """The subtask's id."""
    instruction: Annotated[str, StringConstraints(strip_whitespace=True, max_length=4_000), NoControlCharacters]
    """What to do instead, complete in itself."""


class RerouteSubtask(TypedByPeople):
    """Give a subtask to another agent."""

    edit: Literal["reroute"] = "reroute"
    subtask: SubtaskId
    """The subtask's id."""
    agent: Name
    """Name of an agent of the crew, or `supervisor` for a nested session."""


class ReorderSubtask(TypedByPeople):
    """Give a subtask other inputs, or another place among those that are ready at the same time."""

    edit: Literal["reorder"] = "reorder"
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
