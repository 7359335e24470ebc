"""A conversation: the request that opens it, its messages and replies, and how it ended."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from chargehand.contracts.base import Contract, Name, NoControlCharacters, TypedByPeople, left_out
from chargehand.contracts.durations import AnswerTime, UpToAWeek
from chargehand.contracts.limits import DollarLimit, Limits, Turns
from chargehand.contracts.outcome import Artifact, Confidence, Source, SpendLine, Usage
from chargehand.contracts.request import LONGEST_GOAL, SessionRequest, StartRequest
from chargehand.state_words import EndReason, Standing, standing

__all__ = [
    "ConversationEnd",
    "ConversationLimits",
    "ConversationMessage",
    "ConversationRequest",
    "Reply",
    "Transcript",
    "TranscriptLine",
]

USER: Final = "user"
"""The speaker of a person's messages."""
JOB: Final = "job"
"""The speaker of the results of delegated jobs."""
USUAL_GOAL: Final = "Talk with the user."
_SHORTEST_GOAL: Final = 2


class ConversationLimits(Limits):
    """Limits of a whole conversation, including the jobs that it delegates.

    `max_rounds` and `subtask_deadline` apply to the answer to one message, `deadline` to one job.
    """

    max_turns: Turns = 100
    """LLM calls in the whole conversation, whatever they are for (1 to 1,000)."""
    budget_usd: Annotated[DollarLimit, Field(json_schema_extra={"default": 5.0})] = Decimal("5.00")
    """US dollars that the whole conversation may spend on models (more than 0, at most 10,000)."""
    message_usd: DollarLimit | None = None
    """US dollars that the answer to one message may spend, excluding delegated jobs."""


class ConversationRequest(StartRequest):
    """Opens a conversation. Nothing is required."""

    goal: Annotated[str, StringConstraints(strip_whitespace=True, max_length=LONGEST_GOAL), NoControlCharacters] = ""
    """What the conversation is for, and what its agents need to know about the user (20,000 characters at most)."""
    agent: Name | None = None
    """The agent that answers first; the first of the crew if absent."""
    limits: ConversationLimits = ConversationLimits()
    """Limits of the whole conversation; absent ones have their defaults."""
    idle: UpToAWeek = timedelta(days=1)
    """Idle time after which the conversation ends: seconds, `8h`, `3d`, ISO 8601 (7 days at most).
    The conversation does not end while approvals or jobs are pending."""
    answer_within: AnswerTime | None = None
    """How long a tool call that needs approval waits for a person; a working day if absent."""

    def as_session(self) -> SessionRequest:
        """Convert it to a session request."""
        named = {"max_turns", "budget_usd", *self.limits.model_fields_set} & {*Limits.model_fields}
        return self.make(
            SessionRequest,
            goal=self.goal if len(self.goal) > _SHORTEST_GOAL else USUAL_GOAL,
            limits=Limits(**{name: getattr(self.limits, name) for name in named}),
            review="never",
        )


class ConversationMessage(TypedByPeople):
    """A person's message in a conversation."""

    text: Annotated[
        str, StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_GOAL), NoControlCharacters
    ]
    """The message (1 to 20,000 characters)."""
    mode: Literal["queue", "interrupt"] = "queue"
    """While an agent works, `queue` lets it answer earlier messages first; `interrupt` ends the tools that it is
    using and makes it read this message at once, so that one reply answers both."""


class Reply(Contract):
    """An agent's reply."""

    number: int
    """Its position in the transcript, from 1."""
    answers: tuple[int, ...] = ()
    """Positions of the messages that it answers; empty if it reports on a job."""
    agent: str
    """The agent that had the floor."""
    text: str
    """The reply, in Markdown."""
    at: datetime
    """When it was sent."""
    kind: Literal["success", "partial", "failure", "escalation"] = "success"
    """Whether the agent could answer; for a failure, `text` says what failed."""
    reason: str = ""
    """What kind of failure or escalation it is; a `FailureReason` if something stopped the agent."""
    confidence: Confidence = 0
    """How sure the agent is: 0 (a guess) to 100 (certain)."""
    gaps: tuple[str, ...] = ()
    """What was asked for but could not be found or done."""
    sources: tuple[Source, ...] = ()
    """The sources of the reply."""
    artifacts: tuple[Artifact, ...] = left_out(())
    """Files that the agent's tools made."""
    usage: Usage = Usage()
    """What it cost."""


class TranscriptLine(Contract):
    """One line of a transcript."""

    number: int
    """Its position, from 1."""
    kind: Literal["message", "reply", "hand_over", "job"]
    """A person's message, an agent's reply, a hand-over to another agent, or the result of a delegated job."""
    speaker: str
    """`user`, the name of an agent, or `job` for the result of a delegated job."""
    text: str
    """What was said."""
    at: datetime
    """When it was said."""


class Transcript(Contract):
    """The messages and replies in order; the beginning of a long conversation is omitted."""

    lines: tuple[TranscriptLine, ...] = ()
    """What was said."""
    floor: str = ""
    """The agent that has the floor."""
    jobs: tuple[str, ...] = ()
    """Running delegated jobs, by subtask id."""


class ConversationEnd(Contract):
    """How a conversation ended."""

    reason: EndReason
    """Why it ended."""
    messages: int
    """Number of messages from people."""
    replies: int
    """Number of replies."""
    spend: tuple[SpendLine, ...] = ()
    """Its cost by agent, model and purpose."""
    usage: Usage = Usage()
    """Its total cost."""
    gaps: tuple[str, ...] = ()
    """Calls with unknown outcomes, and other points that a person has to check."""

    @property
    def ending(self) -> Standing:
        """How it ended, with the wording and tone used on every screen."""
        return standing("finished", self.reason)
