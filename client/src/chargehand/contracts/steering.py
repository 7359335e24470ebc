"""Inputs of the updates by which people steer a running session, with their validation rules."""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, JsonValue, StringConstraints, ValidationInfo, model_validator

from chargehand.contracts.base import Dollars, Form, Name, NoControlCharacters, TypedByPeople, left_out
from chargehand.contracts.durations import UpToAWeek
from chargehand.contracts.limits import DollarLimit, Turns
from chargehand.contracts.plan import Instruction, Plan, Subtask, SubtaskId
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
"""Maximum charges per update."""
CallId = Annotated[str, Form(r"^c[1-9][0-9]{0,5}$", "must be the id of a tool call, such as c1")]
Reason = Annotated[str, StringConstraints(max_length=2_000), NoControlCharacters]
Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4_000), NoControlCharacters]


def _only_with(decision: str) -> AfterValidator:
    """Tie a field to the preceding `decision`; with `validate_default`, even if it is absent."""

    def check(value: Any, fields: ValidationInfo) -> Any:
        if "decision" in fields.data and (value is not None) != (fields.data["decision"] == decision):
            raise ValueError(f"is required with the decision '{decision}', and allowed with no other")
        return value

    return AfterValidator(check)


class PlanDecision(TypedByPeople):
    """A person's decision on a plan that awaits approval."""

    decision: Literal["approve", "edit", "reject"]
    """`approve` the plan, `edit` it, or `reject` it, which ends the session."""
    plan: Annotated[Plan | None, Field(validate_default=True), _only_with("edit")] = None
    """The plan to use instead, for `edit`. It is validated like any plan."""
    reason: Reason = ""
    """The reason, for `reject`; the session's failure quotes it."""
    by: Decider = left_out("")
    """Who decides and through which channel, for the report and the trace."""


class CallDecision(TypedByPeople):
    """A person's decision on one tool call."""

    call: CallId
    """Id of the call."""
    hash: Annotated[str, Form(r"^[0-9a-f]{64}$", "must be the hash that is shown with the call")]
    """Hash of the call as seen by the person."""
    decision: Literal["approve", "edit", "reject"]
    """`approve` the call, `edit` its arguments and approve the edited call, or `reject` it."""
    arguments: Annotated[
        Annotated[dict[str, JsonValue], Field(max_length=100)] | None, Field(validate_default=True), _only_with("edit")
    ] = None
    """The arguments to use instead, for `edit`."""
    reason: Reason = ""
    """The reason, for `reject`; the agent reads it."""
    by: Decider = left_out("")
    """Who decides and through which channel, for the report and the trace."""


class Answer(TypedByPeople):
    """A person's answer to a question of a subtask."""

    subtask: SubtaskId
    """Id of the subtask that asked."""
    decision: Literal["answer", "decline"] = "answer"
    """`answer` the question, or `decline` it, in which case the subtask continues without an answer."""
    text: Annotated[Words | None, Field(validate_default=True), _only_with("answer")] = None
    """The answer (1 to 4,000 characters), for `answer`."""
    by: Decider = left_out("")
    """Who decides and through which channel, for the report and the trace."""


class RaisedLimits(TypedByPeople):
    """Higher limits for a running session; absent fields are unchanged."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    max_turns: Turns | None = None
    """LLM calls in the whole session, including those already made."""
    budget_usd: DollarLimit | None = None
    """US dollars in the whole session, including those already spent."""
    deadline: UpToAWeek | None = None
    """Time from the start of the session, not from now: seconds, `90s`, `1h30m`, or ISO 8601."""
    by: Decider = left_out("")
    """Who decides and through which channel, for the report and the trace."""

    @model_validator(mode="after")
    def _raises_something(self) -> Self:
        if self.max_turns is None and self.budget_usd is None and self.deadline is None:
            raise ValueError("give at least one of max_turns, budget_usd and deadline")
        return self


class LostCharges(TypedByPeople):
    """Charges that a session has paid but no longer knows, because its database was restored."""

    charges: Annotated[
        dict[
            Annotated[str, Form(r"^[0-9a-f]{40}$", "must be the id of a charge: 40 digits and letters a-f")],
            Annotated[Dollars, Field(le=1_000_000)],
        ],
        Field(max_length=MOST_CHARGES),
    ]
    """US dollars by charge id; charges already booked are ignored."""


SubtaskPath = Annotated[
    str,
    Form(
        r"^[A-Za-z][A-Za-z0-9_-]{0,19}(/[A-Za-z][A-Za-z0-9_-]{0,19}){0,9}$",
        "must be the id of a subtask, such as T2, or the path to one of a nested session, such as T2/T1",
    ),
]
"""The id of a subtask or, below a nested session, the path to it: `T2/T1`."""


class UserMessage(TypedByPeople):
    """A person's message to agents, who read it at their next turn."""

    text: Words
    """The message (1 to 4,000 characters)."""
    subtask: SubtaskPath | None = None
    """The subtask addressed; if absent, all running and later ones."""


class Interruption(TypedByPeople):
    """Interrupts the tools that agents are using; the agents continue with their next turn."""

    subtask: SubtaskPath | None = None
    """The subtask whose tools are interrupted; if absent, those of all running ones."""


class AddSubtask(TypedByPeople):
    """Add a subtask."""

    edit: Literal["add"] = "add"
    subtask: Subtask
    """The subtask; its id is new to the plan."""
    before: SubtaskId | None = None
    """The subtask before which it is inserted in the plan; at the end if absent."""


class DropSubtask(TypedByPeople):
    """Drop a subtask. Its dependents must be dropped or given other inputs in the same edit."""

    edit: Literal["drop"] = "drop"
    subtask: SubtaskId
    """The subtask's id."""


class RewordSubtask(TypedByPeople):
    """Change a subtask's instruction."""

    edit: Literal["reword"] = "reword"
    subtask: SubtaskId
    """The subtask's id."""
    instruction: Instruction
    """The new instruction, complete in itself."""


class RerouteSubtask(TypedByPeople):
    """Assign a subtask to another agent."""

    edit: Literal["reroute"] = "reroute"
    subtask: SubtaskId
    """The subtask's id."""
    agent: Name
    """Name of an agent of the crew, or `supervisor` for a nested session."""


class ReorderSubtask(TypedByPeople):
    """Change a subtask's inputs, or its order among subtasks that are ready at the same time."""

    edit: Literal["reorder"] = "reorder"
    subtask: SubtaskId
    """The subtask's id."""
    before: SubtaskId | None = None
    """The subtask before which it is moved; it keeps its place if absent."""
    depends_on: tuple[SubtaskId, ...] | None = None
    """Its new inputs; unchanged if absent. `required` is reduced to these."""


PlanChange = Annotated[
    AddSubtask | DropSubtask | RewordSubtask | RerouteSubtask | ReorderSubtask, Field(discriminator="edit")
]
"""One change to a plan, discriminated by `edit`."""


class PlanEdit(TypedByPeople):
    """Changes to subtasks of a plan that have not begun, applied in order and validated together."""

    edits: Annotated[tuple[PlanChange, ...], Field(min_length=1, max_length=100)]
    """The changes: `add`, `drop`, `reword`, `reroute` or `reorder`."""
