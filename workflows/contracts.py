"""Inputs, results and carried state of the supervisor and of subtask workflows."""

from datetime import datetime, timedelta
from typing import ClassVar, Literal

from activities.contracts.cards import AgentCard, ModelCard, OutputCaps
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
from chargehand.contracts.base import LARGEST_STORED_BYTES, MOST_STORED_VALUES, Overcharge
from workflows.budget.ledger import Amount, Spending
from workflows.carried import Carried
from workflows.mailbox.contracts import SteeringItem
from workflows.mailbox.mailbox import Mailbox


class ConversationState(Carried):
    """The part of an agent's conversation that is carried over; see `workflows.state.agent_conversation`."""

    opening: str = left_out("")
    """In a conversation with a person, the message with which the rounds begin."""
    summary: str = left_out("")
    opening_notes: tuple[Note, ...] = left_out(())
    notes: tuple[Note, ...] = left_out(())
    opening_told: tuple[str, ...] = left_out(())
    """What a person had written when the conversation began."""
    rounds: tuple[Round, ...] = left_out(())
    sources: tuple[Source, ...] = left_out(())
    """Read in earlier conversations; the same applies to artifacts and addresses."""
    artifacts: tuple[Artifact, ...] = left_out(())
    addresses: tuple[str, ...] = left_out(())
    tool_calls: int = left_out(0)
    doubts: tuple[str, ...] = left_out(())
    """One gap for each acting call whose outcome is unknown, or that was not made because of a fault."""
    kept: str = left_out("")
    """Digest and number of rounds of the part of the conversation that a worker keeps."""
    kept_rounds: int = left_out(0)
    counted: Counted | None = left_out(None)
    counted_rounds: int = left_out(0)
    is_private: bool = left_out(False)
    """Whether the agent has read or was given private text."""
    outgoing: int = left_out(0)
    """Calls of tools that reach out made since private text was read."""


class SubtaskState(Contract):
    """A subtask that continues in a new run."""

    spending: Spending
    conversation: ConversationState
    began_at: datetime
    rounds_begun: int
    corrections: int = left_out(0)
    """Unusable replies in a row."""
    cut: tuple[str, ...] = left_out(())
    """The gap left by a reply that was truncated twice."""
    mailbox: Mailbox = left_out(Mailbox())
    messages: tuple[SteeringItem, ...] = left_out(())
    """Messages that the agent has not read yet."""
    messages_read: tuple[int, ...] = left_out(())
    unusable: Outcome | None = left_out(None)
    """The latest answer, if its data is not valid."""
    answered: Outcome | None = left_out(None)
    """An answer after which a person sent a message."""
    answered_after: tuple[int, ...] = left_out(())
    """Numbers of the messages that had been read by then."""


class LimitUsage(Contract):
    """Peak usage so far of the limits that no ledger counts."""

    attempts: int = 0
    rounds: int = 0
    depth: int = 0
    longest_attempt: timedelta = timedelta(0)

    def at_least(self, use: "LimitUsage") -> "LimitUsage":
        """Return the maximum of both, limit by limit."""
        names = LimitUsage.model_fields
        return LimitUsage(**{name: max(getattr(self, name), getattr(use, name)) for name in names})


class SupervisorRequest(SessionRequest, title="SessionRequest"):
    """The workflow's input: a client's request, plus the state of a session that continues as new."""

    largest_bytes: ClassVar[int] = LARGEST_STORED_BYTES
    """The state contains all outcomes."""

    state: str = left_out("")
    """The previous run's `SupervisorState` as JSON, refused unless that run set it.
    It is text, so that input from others is never parsed as state."""


class SubtaskRequest(Message):
    """One subtask for one agent, with its grant."""

    largest_bytes: ClassVar[int] = LARGEST_STORED_BYTES
    """It contains outcomes of other subtasks, or a conversation."""
    most_values: ClassVar[int] = MOST_STORED_VALUES

    session: str
    goal: str
    crew: str
    subtask: Subtask
    path: str = left_out("")
    """The path of the subtask below the root, if a nested session planned it."""
    agent: AgentCard
    model: ModelCard
    output_caps: OutputCaps = left_out(OutputCaps())
    documents: tuple[str, ...] = left_out(())
    documents_may_leave: bool = left_out(False)
    """Whether the caller vouches for all of them."""
    inputs: tuple[InputOutcome, ...] = left_out(())
    recallable: tuple[InputOutcome, ...] = left_out(())
    """Full inputs and their dependencies, for an agent that can recall them."""
    recallable_until: dict[str, datetime] = left_out({})
    """Until when each of them can be recalled, by subtask id."""
    final_instruction: str = left_out("")
    """How to write its text if it is delivered to the user unchanged."""
    length_words: int = left_out(0)
    """Approximate length of that text; 0 for no target."""
    notes: tuple[Note, ...] = left_out(())
    """Notes of earlier attempts at this subtask."""
    outgoing: int = left_out(0)
    """Calls of tools that reach out, since private text was read, in earlier attempts."""
    messages: tuple[SteeringItem, ...] = left_out(())
    """Messages of a person to its agents so far, earlier attempts included."""
    grant: Amount
    spare: Amount = left_out(Amount())
    """What it may borrow in addition to its own grant, unless another agent needs it."""
    max_rounds: int
    deadline: timedelta | None = left_out(None)
    """The attempt's time limit, excluding waits for a larger grant; None if only the session's deadline applies."""
    urgency: Literal["now", "batch"] = left_out("now")
    live_text: LiveTexts = left_out("report")
    turns_queue: str | None = left_out(None)
    tool_queues: ToolQueues = left_out(ToolQueues())
    reads: tuple[Capability, ...] = left_out(())
    """Kinds of text that it is given or based on."""
    is_approved: bool = left_out(False)
    """Whether a person approved the instruction, so that its words can be sent out."""
    state: SubtaskState | None = left_out(None)
    others_act: bool = left_out(False)
    """Whether other agents of the session may have side effects in the meantime."""
    converses: bool = left_out(False)
    """Whether it answers a message of a conversation, which is in `state`; the conversation is passed back."""
    said: tuple[str, ...] = left_out(())
    """For an agent that reaches out: the user's own words, which may be sent even if private text contains them."""
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
    """Whether it is based on private text."""
    outgoing: int = left_out(0)
    """Calls of tools that reach out made since private text was read, in this attempt and earlier ones."""
    wasted: Usage = left_out(Usage())
    """The part of its spend on turns without a usable result."""
    notes: tuple[Note, ...] = left_out(())
    """The agent's notes, and those it was given from earlier attempts."""
    messages_read: tuple[int, ...] = left_out(())
    """Numbers of a person's messages that its outcome takes into account."""
    rounds: int = 0
    waited: timedelta = timedelta(0)
    """Time spent waiting for a larger grant or a person."""
    overcharges: dict[str, Overcharge] = left_out({})
    """Observed ratio of cost to reservation, by model."""
    conversation: ConversationState | None = left_out(None)
    """The state of its conversation, if it answers a message of one."""
    hand_over: str = left_out("")
    job: str = left_out("")


class QueuedMessage(Contract):
    """A message of a conversation that is waiting for a reply."""

    number: int
    """Its position in the transcript; 0 if it is about a job."""
    text: str


class ConversationStartRequest(ConversationRequest, title="ConversationRequest"):
    """The workflow's input: a client's request, plus the state of a conversation that continues as new."""

    largest_bytes: ClassVar[int] = LARGEST_STORED_BYTES
    most_values: ClassVar[int] = MOST_STORED_VALUES

    state: str = left_out("")
    """The previous run's `ConversationRunState` as JSON, as for a session."""
