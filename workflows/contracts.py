"""What a supervisor and the workflows of its subtasks exchange."""

from datetime import datetime, timedelta
from typing import ClassVar, Literal

from activities.contracts.cards import AgentCard
from activities.contracts.model import ModelCard, OutputCaps
from activities.contracts.rounds import InputOutcome, Note, Round
from activities.queues import ToolQueues
from activities.turn.contracts import Counted
from chargehand.contracts import (
    Artifact,
    Capability,
    Contract,
    ConversationRequest,
    LiveTexts,
    Message,
    Outcome,
    SessionRequest,
    Source,
    Subtask,
    Usage,
    left_out,
)
from chargehand.contracts.base import Overcharge
from workflows.budget.ledger import Amount, Spending
from workflows.mailbox.contracts import MailboxState, SteeringItem


class ConversationState(Contract):
    """What a conversation has come to; see `workflows.state.agent_conversation`."""

    opening: str = left_out("")
    """In a conversation with a person, the message with which the rounds begin."""
    summary: str = left_out("")
    opening_notes: tuple[Note, ...] = left_out(())
    notes: tuple[Note, ...] = left_out(())
    opening_told: tuple[str, ...] = left_out(())
    """What a person had written when it began."""
    rounds: tuple[Round, ...] = left_out(())
    sources: tuple[Source, ...] = left_out(())
    """What was read in earlier conversations, as are artifacts and addresses."""
    artifacts: tuple[Artifact, ...] = left_out(())
    addresses: tuple[str, ...] = left_out(())
    tool_calls: int = left_out(0)
    doubts: tuple[str, ...] = left_out(())
    kept: str = left_out("")
    """Digest of the part of the conversation that a worker keeps, which has so many rounds."""
    kept_rounds: int = left_out(0)
    counted: Counted | None = left_out(None)
    counted_rounds: int = left_out(0)
    is_private: bool = left_out(False)
    """Whether private text was read in it, or is among what the agent was given."""
    outgoing: int = left_out(0)
    """Calls of tools that reach out, since private text was read."""


class SubtaskState(Contract):
    """A subtask that continues in a new run."""

    spending: Spending
    conversation: ConversationState
    began_at: datetime
    rounds_begun: int
    corrections: int = left_out(0)
    """Unusable replies in a row."""
    cut: tuple[str, ...] = left_out(())
    """The gap that a reply has left that was cut off, though it was asked for again."""
    mailbox: MailboxState = left_out(MailboxState())
    messages: tuple[SteeringItem, ...] = left_out(())
    """Messages that the agent has not read."""
    messages_read: tuple[int, ...] = left_out(())
    unusable: Outcome | None = left_out(None)
    """The latest answer, if its data is not valid."""
    answered: Outcome | None = left_out(None)
    """An answer after which a person has written."""
    answered_after: tuple[int, ...] = left_out(())
    """Numbers of the messages that had been read then."""
    waited: timedelta = left_out(timedelta(0))


class LimitUsage(Contract):
    """The most that a session has used so far of each limit that no ledger counts."""

    attempts: int = 0
    rounds: int = 0
    depth: int = 0
    longest_attempt: timedelta = timedelta(0)

    def at_least(self, use: "LimitUsage") -> "LimitUsage":
        """Return the greater of the two, limit by limit."""
        names = LimitUsage.model_fields
        return LimitUsage(**{name: max(getattr(self, name), getattr(use, name)) for name in names})


class SupervisorRequest(SessionRequest, title="SessionRequest"):
    """A request as the workflow takes it: what a client writes, and the state of a session that continues as new."""

    largest_bytes: ClassVar[int] = 50 << 20
    """All outcomes are in the state."""

    state: str = left_out("")
    """Where the run before this one stopped: a `SupervisorState` as JSON, set by that run and refused from anyone else.
    It is text so that what others send is not read as one."""


class SubtaskRequest(Message):
    """One subtask for one agent, with what it may spend."""

    largest_bytes: ClassVar[int] = 50 << 20
    """Outcomes of other subtasks are in it, or a conversation."""
    most_values: ClassVar[int] = 500_000

    session: str
    goal: str
    crew: str
    subtask: Subtask
    path: str = left_out("")
    """Of the subtask below the root, if a nested session has planned it."""
    agent: AgentCard
    model: ModelCard
    output_caps: OutputCaps = left_out(OutputCaps())
    documents: tuple[str, ...] = left_out(())
    documents_may_leave: bool = left_out(False)
    """Whether the caller vouches for all of them."""
    inputs: tuple[InputOutcome, ...] = left_out(())
    recallable: tuple[InputOutcome, ...] = left_out(())
    """These in full, and those that they depend on, for an agent that can recall them."""
    recallable_until: dict[str, datetime] = left_out({})
    """When each of them can no longer be recalled, by the id of its subtask."""
    final_instruction: str = left_out("")
    """How its text is to be written, if the user reads it as it is."""
    length_words: int = left_out(0)
    """About how long that text is to be; 0 if it is as long as it needs to be."""
    notes: tuple[Note, ...] = left_out(())
    """What earlier attempts at this subtask have noted."""
    messages: tuple[SteeringItem, ...] = left_out(())
    """What a person has written to its agents so far, those of earlier attempts included."""
    grant: Amount
    spare: Amount = left_out(Amount())
    """What it may borrow beside its own, as long as no other agent needs it."""
    max_rounds: int
    deadline: timedelta | None = left_out(None)
    """The attempt's own time, without what it waits for a larger grant; None if only the session's deadline holds."""
    urgency: Literal["now", "batch"] = left_out("now")
    live_text: LiveTexts = left_out("report")
    turns_queue: str | None = left_out(None)
    tool_queues: ToolQueues = left_out(ToolQueues())
    reads: tuple[Capability, ...] = left_out(())
    """What kinds of text it is given, or rests on."""
    is_approved: bool = left_out(False)
    """Whether a person approved the instruction as it is, so that its words may be sent out."""
    state: SubtaskState | None = left_out(None)
    others_act: bool = left_out(False)
    """Whether other agents of the session may change something in the world meanwhile."""
    converses: bool = left_out(False)
    """Whether it answers a message of a conversation: the state has the message, and its end is handed back."""
    said: tuple[str, ...] = left_out(())
    """For an agent that reaches out: the user's own words, which may be sent although private text has them too."""
    tenant: str = left_out("default")
    credentials: dict[str, str] = left_out({})
    """The calling user's, sealed."""

    @property
    def has_private_inputs(self) -> bool:
        return "reads_private" in self.reads


class SubtaskResult(Contract):
    outcome: Outcome
    """Without quotations of sources that its findings repeat; see `workflows.rules.evidence.with_quotes`."""
    is_private: bool = left_out(False)
    """Whether it rests on private text."""
    wasted: Usage = left_out(Usage())
    """Part of its spend whose turns gave nothing."""
    notes: tuple[Note, ...] = left_out(())
    """What the agent noted, and what it was given of earlier attempts."""
    messages_read: tuple[int, ...] = left_out(())
    """Numbers of the messages of a person that its outcome takes into account."""
    rounds: int = 0
    waited: timedelta = timedelta(0)
    """Time spent waiting for a larger grant, or for a person."""
    overcharges: dict[str, Overcharge] = left_out({})
    """How many times a reservation calls were seen to cost, by model."""
    conversation: ConversationState | None = left_out(None)
    """What its conversation has come to, if it answers a message of one."""
    hand_over: str = left_out("")
    job: str = left_out("")


class QueuedMessage(Contract):
    """A message of a conversation that waits to be answered."""

    number: int
    """Its place in the transcript; 0 if it is about a job."""
    text: str


class ConversationStartRequest(ConversationRequest, title="ConversationRequest"):
    """A request as the workflow takes it: what a client writes, and the state of one that continues as new."""

    largest_bytes: ClassVar[int] = 50 << 20
    most_values: ClassVar[int] = 500_000

    state: str = left_out("")
    """Where the run before this one stopped: a `ConversationRunState` as JSON, as for a session."""
