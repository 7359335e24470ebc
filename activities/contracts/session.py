"""What opening a session, following a reset and routing ask of the world, and the answers."""

from datetime import timedelta
from typing import Final, Literal

from pydantic import JsonValue, field_serializer

from activities.contracts.cards import AgentCard, AgentDraft, CrewCard
from activities.contracts.model import ModelCard, OutputCaps
from activities.queues import ToolQueues
from chargehand.contracts import (
    Capability,
    Contract,
    EarlierSession,
    Finding,
    Limits,
    SessionRequest,
    Source,
    Tier,
    left_out,
)
from chargehand.contracts.limits import Profile

LEDGER_PREFIX: Final = "chargehand-tenant/"
"""The workflow ids of ledgers begin so, those of sessions must not."""


class AdmissionTerms(Contract):
    """Where a session waits to be admitted."""

    ledger: str
    """Workflow id of its tenant's ledger."""
    key: str
    """The run that opened the session, by which the ledger knows it, in later runs too."""


class SessionTerms(Contract):
    """What a request and its crew settle together."""

    profile: Profile = "standard"
    limits: Limits = Limits()
    """All of them."""
    approval: Literal["none", "plan"] = "none"
    review: Literal["auto", "always", "never"] = "auto"


class EarlierWork(Contract):
    """What a session knows of the one that it follows."""

    goal: str
    answer: str
    """Its answer, which cites `sources` by number."""
    confidence: int
    findings: tuple[Finding, ...]
    """The claims of its report that have sources."""
    sources: tuple[Source, ...]
    thread: tuple[EarlierSession, ...]
    """The sessions that this one follows, the first first."""
    documents: tuple[str, ...] = left_out(())
    """Documents that can be read beside those of the request."""
    reads: tuple[Capability, ...] = left_out(())
    """What kinds of text its report rests on."""


class NoticeStep(Contract):
    """Whom to tell of a wait for a person."""

    channel: str
    """Name of a channel that the operator has set."""
    after: timedelta = timedelta(0)
    """How long after the wait has begun, unless it has ended by then."""


class SessionFacts(Contract):
    """What the world says about a request, read once at its start."""

    crew: CrewCard
    models: dict[Tier, ModelCard]
    terms: SessionTerms = SessionTerms()
    """Limits and manners of the session, the crew's defaults included."""
    ceilings: Limits
    turns_queue: str | None = None
    """Task queue of model turns, if they have one of their own, whose rate is limited; None for the session's."""
    unread: tuple[str, ...] = left_out(())
    """A gap of the report for each document that cannot be read."""
    output_caps: OutputCaps = left_out(OutputCaps())
    """The most that a turn may write, by its purpose."""
    earlier: EarlierWork | None = left_out(None)
    """What is known of the session that this one follows."""
    is_listed: bool = left_out(False)
    """Whether the namespace has the search attributes of sessions."""
    stores_payloads: bool = left_out(False)
    """Whether large payloads are stored outside of histories, so that one of any size can be handed on."""
    tool_queues: ToolQueues = left_out(ToolQueues())
    """Task queues of tool calls, if they have their own."""
    recall_for: timedelta = left_out(timedelta(hours=1))
    """How long the outcome of a subtask can be recalled after it has ended."""
    weight: float = left_out(1.0)
    """The tenant's share of a backlog."""
    admission: AdmissionTerms | None = left_out(None)
    """Where the session waits to be admitted, if its tenant has limits."""

    notices: tuple[NoticeStep, ...] = left_out(())
    """Whom to tell when the session waits for a person."""

    @field_serializer("terms", "ceilings")
    def _write_whole(self, value: Contract) -> dict[str, JsonValue]:
        """Write what is usual, too: a replay reads what the session began with, whatever is usual by then."""
        return value.model_dump(mode="json")

    def model_of(self, agent: AgentCard) -> ModelCard:
        return agent.model or self.models[agent.tier]


class OpenSessionRequest(Contract):
    session: str
    request: SessionRequest
    converses: bool = left_out(False)
    """Whether it is a conversation, whose agents reply to messages."""


class AddAgentsRequest(Contract):
    session: str
    request: SessionRequest
    crew: str
    """Reference of the crew that the session began with."""
    agents: tuple[AgentDraft, ...]


class AddedAgents(Contract):
    """The crew with those agents, or why it cannot have them."""

    crew: CrewCard | None = None
    problems: tuple[str, ...] = ()


class RunningDuplicateRequest(Contract):
    workflow_id: str


class RunningDuplicate(Contract):
    """How a child of an earlier run ended; `duplicate` if it is no such child."""

    ended: Literal["completed", "failed", "cancelled", "terminated", "duplicate"]
    result: JsonValue = None
    """The child's own result, for `completed`."""
    message: str = ""


class BacklogRequest(Contract):
    queue: str


class Backlog(Contract):
    age: timedelta
