"""Requests and results of the activities that open sessions, follow resets and support routing."""

from datetime import timedelta
from typing import Final, Literal

from pydantic import JsonValue, field_serializer

from activities.contracts.cards import AgentCard, AgentDraft, CrewCard, ModelCard, OutputCaps
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
"""Prefix of ledgers' workflow ids, forbidden for sessions."""


class AdmissionTerms(Contract):
    """The tenant's ledger that admits a session."""

    ledger: str
    """Workflow id of its tenant's ledger."""
    key: str
    """The run that opened the session; the ledger identifies the session by it, also in later runs."""


class SessionTerms(Contract):
    """Terms settled by a request together with its crew."""

    profile: Profile = "standard"
    limits: Limits = Limits()
    """All limits."""
    approval: Literal["none", "plan"] = "none"
    review: Literal["auto", "always", "never"] = "auto"


class EarlierWork(Contract):
    """What a session knows about the one that it follows."""

    goal: str
    answer: str
    """Its answer, which cites `sources` by number."""
    confidence: int
    findings: tuple[Finding, ...]
    """The claims of its report that have sources."""
    sources: tuple[Source, ...]
    thread: tuple[EarlierSession, ...]
    """The sessions that this one follows, oldest first."""
    documents: tuple[str, ...] = left_out(())
    """Documents that can be read in addition to the request's."""
    reads: tuple[Capability, ...] = left_out(())
    """Kinds of text on which its report is based."""


class NoticeStep(Contract):
    """A notification about a wait for a person."""

    channel: str
    """Name of a channel configured by the operator."""
    after: timedelta = timedelta(0)
    """Delay after the start of the wait; nothing is sent if the wait has ended by then."""


class SessionFacts(Contract):
    """Facts about a request, read once when the session starts."""

    crew: CrewCard
    models: dict[Tier, ModelCard]
    terms: SessionTerms = SessionTerms()
    """The session's terms, including the crew's defaults."""
    ceilings: Limits
    turns_queue: str | None = None
    """The separate, rate-limited task queue of model turns; None for the session's own."""
    unread: tuple[str, ...] = left_out(())
    """A gap for each unreadable document."""
    output_caps: OutputCaps = left_out(OutputCaps())
    """Maximum output tokens of a turn by purpose."""
    earlier: EarlierWork | None = left_out(None)
    """The session that this one follows."""
    is_listed: bool = left_out(False)
    """Whether the namespace has the search attributes of sessions."""
    stores_payloads: bool = left_out(False)
    """Whether large payloads are stored outside histories, which allows payloads of any size."""
    tool_queues: ToolQueues = left_out(ToolQueues())
    """Separate task queues of tool calls, if any."""
    recall_for: timedelta = left_out(timedelta(hours=1))
    """How long a subtask's outcome can be recalled after its end."""
    weight: float = left_out(1.0)
    """The tenant's weight in a backlog."""
    admission: AdmissionTerms | None = left_out(None)
    """The ledger that admits the session, if its tenant has limits."""

    notices: tuple[NoticeStep, ...] = left_out(())
    """Notifications sent while the session waits for a person."""

    @field_serializer("terms", "ceilings")
    def _write_whole(self, value: Contract) -> dict[str, JsonValue]:
        """Write defaults too: a replay must read the session's values even if defaults have changed."""
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
    """Reference of the crew with which the session started."""
    agents: tuple[AgentDraft, ...]


class AddedAgents(Contract):
    """The crew with the added agents, or why it cannot have them."""

    crew: CrewCard | None = None
    problems: tuple[str, ...] = ()


class RunningDuplicateRequest(Contract):
    workflow_id: str


class RunningDuplicate(Contract):
    """How a child of an earlier run ended; `duplicate` if it is not such a child."""

    ended: Literal["completed", "failed", "cancelled", "terminated", "duplicate"]
    result: JsonValue = None
    """The child's own result, for `completed`."""
    message: str = ""


class BacklogRequest(Contract):
    queue: str


class Backlog(Contract):
    age: timedelta
