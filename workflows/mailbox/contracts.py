"""What one workflow may tell another: an envelope, and the kinds of what is in it. Anyone with access can send one."""

from datetime import timedelta
from typing import Annotated, ClassVar, Literal

from pydantic import Field, JsonValue

from chargehand.contracts import Contract, Dollars, Message, Obligation, left_out

Turns = Annotated[int, Field(ge=0, le=1_000)]
Token = Annotated[str, Field(max_length=40)]
Key = Annotated[str, Field(min_length=1, max_length=100)]
"""The run that opened a session, by which its tenant's ledger knows it, in later runs too."""


class GrantRequest(Contract):
    kind: Literal["grant_request"] = "grant_request"
    turns: Turns
    usd: Dollars
    is_optional: bool = left_out(False)
    """Whether it can do without: it waits for what other children return, but for no person and no other session."""


class Grant(Contract):
    """The reply: by how much the grant grows, at least what was asked for or nothing."""

    kind: Literal["grant"] = "grant"
    turns: Turns
    usd: Dollars


Verdict = Literal[
    "allowed", "approved", "edited", "denied", "too_early", "rejected", "expired", "applied_before", "unknown_before"
]


class CallRequest(Contract):
    """A subtask asks the session at the root whether it may make a tool call."""

    kind: Literal["call_request"] = "call_request"
    subtask: Annotated[str, Field(max_length=300)]
    """Its path below the root."""
    agent: Annotated[str, Field(max_length=40)]
    tool: Annotated[str, Field(max_length=100)]
    arguments: dict[str, JsonValue]
    needs_approval: bool = left_out(False)
    why: Annotated[str, Field(max_length=1_000)] = left_out("")
    """Why a person decides about this call although its tool needs no approval."""
    policy: Annotated[tuple[Obligation, ...], Field(max_length=1_000)] = left_out(())
    acts: bool = left_out(False)
    """Whether it changes something in the world: one that was made before is not made again."""
    is_doubtful: bool = left_out(False)
    """Whether it was made and may not have been applied: a person decides whether it is made again."""


class CallReply(Contract):
    kind: Literal["call_reply"] = "call_reply"
    verdict: Verdict
    """`allowed` and `denied` by the policy; `approved`, `edited` and `rejected` by a person, who let it be `expired`;
    `too_early` if another tool must have succeeded before; `applied_before` and `unknown_before` if the session has
    made the same call."""
    reason: str = left_out("")
    """Why it is not allowed, or what the policy would have denied, if it only reports."""
    arguments: dict[str, JsonValue] | None = left_out(None)
    """What a person has made of the arguments; None if they stay as they are."""
    by: str = left_out("")
    """Who decided, if a person has said so."""


class CallReport(Contract):
    """What became of a call that a policy waits for, or that acts; it has no reply."""

    kind: Literal["call_report"] = "call_report"
    keys: Annotated[tuple[Annotated[str, Field(max_length=64)], ...], Field(max_length=1_000)] = left_out(())
    """Of the successes that policies wait for."""
    acted: Annotated[str, Field(max_length=64)] = left_out("")
    """Hash of a call that acts, and whose outcome is known."""
    is_applied: bool = left_out(False)


class QuestionRequest(Contract):
    """A subtask asks the session at the root what a person has to answer before a tool goes on."""

    kind: Literal["question_request"] = "question_request"
    subtask: Annotated[str, Field(max_length=40)]
    agent: Annotated[str, Field(max_length=40)]
    text: Annotated[str, Field(max_length=4_000)]
    form: dict[str, JsonValue]


class QuestionReply(Contract):
    kind: Literal["question_reply"] = "question_reply"
    content: dict[str, JsonValue] | None = left_out(None)
    """None without an answer."""


class SteeringItem(Contract):
    """One thing that a person tells an agent, or the agents of a nested session; it has no reply."""

    kind: Literal["steering"] = "steering"
    number: Annotated[int, Field(ge=1, le=1_000_000)]
    """Larger than that of everything told before by the same session."""
    text: Annotated[str, Field(max_length=20_000)] = left_out("")
    """The message; empty to end the tools that the agent is using."""
    path: Annotated[str, Field(max_length=300)] = left_out("")
    """For a nested session: the subtask that it is for; empty for all."""


class Places(Contract):
    """A session tells a nested one how many agents may work in it at once, and whether time counts; it has no reply."""

    kind: Literal["places"] = "places"
    total: Annotated[int, Field(ge=1, le=100)]
    """Never fewer than before."""
    is_paused: bool = left_out(False)
    """Whether the root waits for a person, so that the clocks of the tree stand still."""


class AdmissionRequest(Contract):
    """A session asks the ledger of its tenant to begin, or, once it runs, for a larger budget."""

    kind: Literal["admission_request"] = "admission_request"
    key: Key
    usd: Dollars
    priority: Annotated[int, Field(ge=1, le=5)] = left_out(3)
    is_larger: bool = left_out(False)


class Admission(Contract):
    """The reply: the session may begin or has the larger budget, unless it is told why not."""

    kind: Literal["admission"] = "admission"
    refusal: str = left_out("")
    """Why not, and what to do; empty if it may."""


class Idling(Contract):
    """A conversation waits for its user, and takes no place among sessions that run, or goes on; it has no reply."""

    kind: Literal["idling"] = "idling"
    key: Key
    is_idle: bool


class Leaving(Contract):
    """A session has ended, or will not begin; it has no reply."""

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
    | Places
    | AdmissionRequest
    | Admission
    | Idling
    | Leaving
)
Reply = Grant | CallReply | QuestionReply | Admission
"""What settles the request whose number and token its envelope repeats."""


class Envelope(Message):
    """A request, a reply or a notice from one workflow to another."""

    most_values: ClassVar[int] = 70_000
    """More than the longest arguments of a call have."""

    sender: Annotated[str, Field(max_length=1_000)]
    """Workflow id of the sender, to which a reply goes."""
    number: Annotated[int, Field(ge=1, le=1_000_000)]
    """Counts what the sender has written; a reply repeats that of its request."""
    token: Token
    """Drawn at random; a reply repeats that of its request."""
    body: Annotated[Body, Field(discriminator="kind")]

    @property
    def is_reply(self) -> bool:
        return isinstance(self.body, Reply)


class MailboxState(Contract):
    """The mailbox of a workflow that continues as new; no request is open then."""

    written: int = left_out(0)
    received: tuple[Token, ...] = left_out(())
    waited: timedelta = left_out(timedelta(0))
