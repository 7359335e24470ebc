"""The dialogue of a conversation: its transcript, and the messages waiting for a reply."""

from collections.abc import Collection, Sequence
from datetime import datetime
from hashlib import sha256
from itertools import accumulate
from typing import Final, Literal, TypeVar

from pydantic import PrivateAttr

from activities.contracts.rounds import Round
from chargehand.contracts import Contract, Outcome, Reply, Transcript, TranscriptLine, left_out
from chargehand.contracts.conversation import JOB, USER
from workflows.budget.ledger import Amount, Spending
from workflows.carried import Carried, present
from workflows.contracts import ConversationState, QueuedMessage, SubtaskResult, SubtaskState
from workflows.rules.information_flow import Reads
from workflows.rules.refusal import Refused

_Item = TypeVar("_Item", bound=Contract)

_MOST_WAITING: Final = 50
_TRANSCRIPT_BYTES: Final = 200_000
_GIVEN_BYTES: Final = 100_000
"""Bytes of replies kept across runs, to answer updates that are sent again."""
_MOST_KNOWN_MESSAGES: Final = 5_000
_OPENING_CHARACTERS: Final = 24_000
"""Characters of the transcript that an agent reads when it takes the floor."""
_LINE_CHARACTERS: Final = 4_000
_MOST_KNOWN_JOBS: Final = 3


class Dialogue(Carried):
    """Messages are numbered on arrival, and answered in order once admitted."""

    floor: str = left_out("")
    lines: tuple[TranscriptLine, ...] = left_out(())
    numbered: int = left_out(0)
    messages: int = left_out(0)
    replies: int = left_out(0)
    attempts: int = left_out(0)
    jobs: int = left_out(0)
    known_jobs: tuple[str, ...] = left_out(())
    """Jobs whose outcomes the agent with the floor knows."""
    conversation: ConversationState | None = left_out(None)
    """The conversation of the agent with the floor; None if it starts from the transcript."""
    reads: Reads = left_out(frozenset())
    """Kinds of text that the transcript is based on."""
    outgoing: int = left_out(0)
    """Calls of tools that reach out since private text was read; the count carries over to the next agent."""
    given: tuple[Reply, ...] = left_out(())
    numbers: dict[str, int] = left_out({})
    """Message numbers by the hash of their update id, so that an update sent again is the same message."""
    title: str = left_out("")
    """The beginning of the first message."""
    is_closing: bool = present(default=False)
    working_on: str = present("")
    _waiting: dict[int, QueuedMessage] = PrivateAttr(default_factory=dict[int, QueuedMessage])
    """Waiting messages by number, in order; those about jobs are numbered, too, and thus keep their place."""
    _admitted: set[int] = PrivateAttr(default_factory=set[int])
    _told: dict[int, int] = PrivateAttr(default_factory=dict[int, int])
    """Messages passed to the working agent, by their number in its inbox."""
    _answered: int = PrivateAttr(default=0)
    """Messages up to this number were answered in earlier runs."""
    _replies: dict[int, Reply] = PrivateAttr(default_factory=dict[int, Reply])

    def model_post_init(self, _: object) -> None:
        """Index the replies of earlier runs, for updates that are sent again."""
        self._answered = self.numbered
        self._replies = {number: reply for reply in self.given for number in reply.answers}

    @property
    def has_message(self) -> bool:
        first = next(iter(self._waiting), 0)
        return first in self._admitted

    @property
    def said(self) -> tuple[str, ...] | None:
        """The user's messages, including waiting ones; None if the transcript has lost its beginning."""
        if self.lines and self.lines[0].number > 1:
            return None
        return tuple(line.text for line in self.lines if line.kind == "message")

    def transcript(self, jobs: Collection[str]) -> Transcript:
        return Transcript(lines=self.lines, floor=self.floor, jobs=tuple(jobs))

    def check(self) -> None:
        """Refuse a message if too many are waiting or the conversation is closing."""
        if self.is_closing:
            raise Refused("The conversation is being closed.")
        if len(self._waiting) >= _MOST_WAITING:
            raise Refused(f"text: {_MOST_WAITING} messages wait for an answer, the most that may")

    def close(self) -> None:
        self.is_closing = True

    def number_of(self, update: str) -> int | None:
        """Return the number of a message that was received before; None if it is new.

        Raises:
            Refused: it was answered, and the reply is no longer kept.
        """
        number = self.numbers.get(_key(update))
        if number is not None and number <= self._answered and number not in self._replies:
            raise Refused(f"This message was answered before; it is number {number} of the transcript.")
        return number

    def receive(self, update: str, text: str, at: datetime) -> int:
        """Number a message and queue it until it is admitted."""
        number = self._add("message", USER, text, at)
        self.numbers = dict([*self.numbers.items(), (_key(update), number)][-_MOST_KNOWN_MESSAGES:])
        self._waiting[number] = QueuedMessage(number=number, text=text)
        self.title, self.messages = self.title or text[:_LINE_CHARACTERS], self.messages + 1
        return number

    def admit(self, number: int) -> None:
        self._admitted.add(number)

    def take(self) -> QueuedMessage:
        return self._waiting.pop(next(iter(self._waiting)))

    def tell_next(self, last: int, item: int) -> str:
        """Record that the next message, up to the last, is passed to the working agent; return its text, if any."""
        numbers = self._told.values()
        left = [each for key, each in self._waiting.items() if key == each.number <= last and key not in numbers]
        if left:
            self._told[item] = left[0].number
        return left[0].text if left else ""

    def heard(self, read: Collection[int]) -> tuple[QueuedMessage, ...]:
        """Remove and return the messages that the agent read while it worked; the others keep waiting."""
        numbers = sorted(number for item, number in self._told.items() if item in read)
        self._told.clear()
        return tuple(self._waiting.pop(number) for number in numbers)

    def reply_to(self, number: int) -> Reply | None:
        return self._replies.get(number)

    def begin_attempt(self) -> str:
        self.attempts += 1
        self.working_on = f"m{self.attempts}"
        return self.working_on

    def opening(self, message: QueuedMessage, grant: Amount, now: datetime) -> SubtaskState:
        """Build the state in which an agent answers a message: its own conversation, or the transcript."""
        before, text = self.conversation, message.text
        if before is None:
            talk = ConversationState(opening=text, summary=self._so_far(message.number), outgoing=self.outgoing)
        else:
            rounds, last = before.rounds, before.rounds[-1] if before.rounds else Round()
            if last.answer and not last.said:
                rounds, current = rounds[:-1], last.replace(said=text)
            else:
                current = Round(said=text)
            anew = {"rounds": (*rounds, current), "tool_calls": 0, "doubts": (), "artifacts": ()}
            talk = before.replace(**anew)
        spending = Spending.of(grant)
        return SubtaskState(spending=spending, conversation=talk, began_at=now, rounds_begun=0)

    def end_attempt(self, ended: SubtaskResult, reads: Reads) -> None:
        self.working_on = ""
        self.conversation, self.reads = ended.conversation, self.reads | reads
        if ended.conversation is not None:
            self.outgoing = ended.conversation.outgoing

    def give_floor(self, agent: str, text: str, at: datetime) -> None:
        """Give the floor to another agent, which starts from the transcript."""
        if self.floor:
            self._add("hand_over", self.floor, f"(hands over to {agent}) {text}".strip(), at)
        self.floor, self.conversation = agent, None

    def begin_job(self) -> str:
        self.jobs += 1
        return f"j{self.jobs}"

    def end_job(self, job: str, outcome: Outcome, reads: Reads, at: datetime) -> None:
        """Make the agent with the floor report on a finished job, whose outcome becomes its input."""
        self._add("job", JOB, f"{job}: {outcome.content[:_LINE_CHARACTERS] or outcome.kind}", at)
        self.reads |= reads
        number = self.numbered
        text = f"The job {job} has ended; its outcome is above. Tell me what came of it."
        self._waiting[number] = QueuedMessage(number=0, text=text)
        self.admit(number)
        self.known_jobs, self.conversation = (*self.known_jobs, job)[-_MOST_KNOWN_JOBS:], None

    def reply(self, reply: Reply, answered: Collection[QueuedMessage]) -> Reply:
        """Add the reply to some messages to the transcript."""
        numbers = tuple(each.number for each in answered if each.number)
        number = self._add("reply", reply.agent, reply.text, reply.at)
        reply = reply.replace(number=number, answers=numbers)
        self._replies |= dict.fromkeys(numbers, reply)
        self.replies, self.given = self.replies + 1, _newest((*self.given, reply), _GIVEN_BYTES)
        return reply

    def _so_far(self, but: int) -> str:
        """Render the transcript before a message, without waiting messages; only its end if it is long."""
        lines = (line for line in self.lines if line.number != but and line.number not in self._waiting)
        text = "\n\n".join(f"{line.speaker}: {line.text[:_LINE_CHARACTERS]}" for line in lines)
        return text[-_OPENING_CHARACTERS:]

    def _add(self, kind: Literal["message", "reply", "hand_over", "job"], speaker: str, text: str, at: datetime) -> int:
        self.numbered += 1
        line = TranscriptLine(number=self.numbered, kind=kind, speaker=speaker, text=text, at=at)
        self.lines = _newest((*self.lines, line), _TRANSCRIPT_BYTES)
        return self.numbered


def _key(update: str) -> str:
    return sha256(update.encode()).hexdigest()[:16]


def _newest(items: Sequence[_Item], most: int) -> tuple[_Item, ...]:
    """Keep the latest items that fit, at least one."""
    sizes = accumulate(len(each.model_dump_json()) for each in reversed(items))
    return tuple(items[-max(sum(size <= most for size in sizes), 1) :])
