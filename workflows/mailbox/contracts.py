"""The envelope between workflows, and the kinds of its body. Anyone with access to the namespace can send one."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, JsonValue

from chargehand.contracts import Contract, Dollars, Message, Obligation, left_out
from chargehand.contracts.limits import MOST_TURNS, Parallel

Turns = Annotated[int, Field(ge=0, le=MOST_TURNS)]
Token = Annotated[str, Field(max_length=40)]
Key = Annotated[str, Field(min_length=1, max_length=100)]
"""The run that opened a session; its tenant's ledger keeps identifying it by this run."""


class GrantRequest(Contract):
    kind: Literal["grant_request"] = "grant_request"
    turns: Turns
    usd: Dollars
    is_optional: bool = left_out(False)
    """Whether the child can continue without it: it then waits for other children, but not for a person."""


class Grant(Contract):
    """The reply: by how much the grant grows, which is at least the requested amount or nothing."""

    kind: Literal["grant"] = "grant"
    turns: Turns
    usd: Dollars


CallVerdict = Literal[
    "allowed", "approved", "edited", "denied", "too_early", "rejected", "expired", "applied_before", "unknown_before"
]


class CallRequest(Contract):
    """A subtask asks the root session whether it is allowed to make a tool call."""

    kind: Literal["call_request"] = "call_request"
    subtask: Annotated[str, Field(max_length=300)]
    """Its path below the root."""
    agent: Annotated[str, Field(max_length=40)]
    tool: Annotated[str, Field(max_length=100)]
    arguments: dict[str, JsonValue]
    needs_approval: bool = left_out(False)
    why: Annotated[str, Field(max_length=1_000)] = left_out("")
    """Why a person must decide about this call even though its tool needs no approval."""
    policy: Annotated[tuple[Obligation, ...], Field(max_length=1_000)] = left_out(())
    acts: bool = left_out(False)
    """Whether it has side effects: a call made before is not made again."""
    is_doubtful: bool = left_out(False)
    """Whether it was made but may not have been applied: a person decides whether to repeat it."""


class CallReply(Contract):
    kind: Literal["call_reply"] = "call_reply"
    verdict: CallVerdict
    """`allowed`, `denied`: by the policy; `approved`, `edited`, `rejected`: by a person; `expired`: without a decision;
    `too_early` if another tool must succeed first; `applied_before` and `unknown_before` if the session has already
    made the same call."""
    reason: str = left_out("")
    """Why it is not allowed, or what a policy in report-only mode would have denied."""
    arguments: dict[str, JsonValue] | None = left_out(None)
    """The arguments as edited by a person; None if unchanged."""
    by: str = left_out("")
    """Who decided, if stated."""


class CallReport(Contract):
    """The result of a call that a policy depends on or that acts; there is no reply."""

    kind: Literal["call_report"] = "call_report"
    keys: Annotated[tuple[Annotated[str, Field(max_length=64)], ...], Field(max_length=1_000)] = left_out(())
    """Keys of successes that policies depend on."""
    acted: Annotated[str, Field(max_length=400)] = left_out("")
    """An acting call whose outcome is known, as `acting_call` identifies it."""
    is_applied: bool = left_out(False)


class QuestionRequest(Contract):
    """A subtask asks the root session for a person's answer that a tool needs to continue."""

    kind: Literal["question_request"] = "question_request"
    subtask: Annotated[str, Field(max_length=40)]
    agent: Annotated[str, Field(max_length=40)]
    text: Annotated[str, Field(max_length=4_000)]
    form: dict[str, JsonValue]


class QuestionReply(Contract):
    kind: Literal["question_reply"] = "question_reply"
    content: dict[str, JsonValue] | None = left_out(None)
    """None if there was no answer."""
    is_declined: bool = left_out(False)


class SteeringItem(Contract):
    """A person's message to an agent, or to the agents of a nested session; there is no reply."""

    kind: Literal["steering"] = "steering"
    number: Annotated[int, Field(ge=1, le=1_000_000)]
    """Increases with every message of the same session."""
    text: Annotated[str, Field(max_length=20_000)] = left_out("")
    """The message; empty to interrupt the agent's tools."""
    path: Annotated[str, Field(max_length=300)] = left_out("")
    """For a nested session: the subtask addressed; empty for all."""


class PlacesNotice(Contract):
    """A session tells a nested one how many agents can run at once and whether its clock runs; no reply."""

    kind: Literal["places"] = "places"
    total: Parallel
    """Never decreases."""
    is_paused: bool = left_out(False)
    """Whether the root waits for a person, which stops the clocks of the tree."""


class AdmissionRequest(Contract):
    """A session asks its tenant's ledger for admission or, once it is running, for a larger budget."""

    kind: Literal["admission_request"] = "admission_request"
    key: Key
    usd: Dollars
    priority: Annotated[int, Field(ge=1, le=5)] = left_out(3)
    is_larger: bool = left_out(False)


class Admission(Contract):
    """The reply: granted, unless it states a refusal."""

    kind: Literal["admission"] = "admission"
    refusal: str = left_out("")
    """The reason and the remedy; empty if granted."""


class Idling(Contract):
    """A conversation is idle, which frees its place among running sessions, or continues; no reply."""

    kind: Literal["idling"] = "idling"
    key: Key
    is_idle: bool


class Leaving(Contract):
    """A session has ended or will not start; there is no reply."""

    kind: Literal["leaving"] = "leaving"
    key: Key
    spent_usd: Dollars


Body = (
    GrantRequest
    | Grant
    | CallRequest
    | CallReply
    | CallReport
    | QuestionRequest
    | QuestionReply
    | SteeringItem
    | PlacesNotice
    | AdmissionRequest
    | Admission
    | Idling
    | Leaving
)
Reply = Grant | CallReply | QuestionReply | Admission
"""Settles the request whose number and token the envelope repeats."""


class Envelope(Message):
    """A request, reply or notice from one workflow to another."""

    most_values: ClassVar[int] = 70_000
    """Larger than the number of values in the longest arguments of a call."""

    sender: Annotated[str, Field(max_length=1_000)]
    """Workflow id of the sender, which receives the reply."""
    number: Annotated[int, Field(ge=1, le=1_000_000)]
    """Sequence number of the sender; a reply repeats its request's."""
    token: Token
    """Random; a reply repeats its request's."""
    body: Annotated[Body, Field(discriminator="kind")]

    @property
    def is_reply(self) -> bool:
        return isinstance(self.body, Reply)
