"""Messages of a person to the agents of a session, kept in order until all addressees have read them."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from pydantic import PrivateAttr

from chargehand.contracts import Contract, left_out
from chargehand.contracts.problems import one_line
from workflows.carried import Carried
from workflows.mailbox.contracts import SteeringItem
from workflows.mailbox.mailbox import Outbox
from workflows.rules.refusal import Refused

_MOST_MESSAGES: Final = 50
_MOST_CHARACTERS: Final = 40_000
"""Maximum total of all messages, since every prompt of an agent repeats those addressed to it."""
_WRITER_CHARACTERS: Final = 4_000
_QUOTED_CHARACTERS: Final = 120


@dataclass(eq=False, kw_only=True)
class Delivery(Outbox):
    """Delivery of messages to one child workflow while it runs."""

    subtask: str
    is_session: bool
    given: set[int] = field(default_factory=set[int])

    def give(self, items: Iterable[SteeringItem]) -> None:
        self.given.update(item.number for item in items if item.text)


class ToldMessage(Contract):
    """A person's message, and who has read it."""

    item: SteeringItem
    subtask: str = left_out("")
    """The subtask addressed; empty for all."""
    running: tuple[str, ...] = left_out(())
    """The addressed subtasks that were running on arrival."""
    read: tuple[str, ...] = left_out(())


class Steering(Carried):
    """Messages of one session, and the deliveries to its running children."""

    told: list[ToldMessage] = left_out([])
    numbered: int = left_out(0)
    answers: tuple[str, ...] = left_out(())
    lost: list[str] = left_out([])
    """A gap for each message that was too late or named an unknown subtask."""
    _running: list[Delivery] = PrivateAttr(default_factory=list[Delivery])

    @property
    def running(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.subtask for each in self._running))

    def nested(self, subtask: str) -> bool:
        return any(each.subtask == subtask and each.is_session for each in self._running)

    def open(self, subtask: str, child: str, *, is_session: bool) -> Delivery:
        """Open the delivery to a child about to start, which gets earlier messages with its input."""
        delivery = Delivery(child, is_started=False, subtask=subtask, is_session=is_session)
        delivery.give(self.messages_for(subtask))
        self._running.append(delivery)
        return delivery

    def close(self, delivery: Delivery, read: Collection[int]) -> None:
        """Close the delivery to a child that has ended, and record which messages it read."""
        delivery.end()
        self._running.remove(delivery)
        self.told = [
            entry.replace(read=(*entry.read, delivery.subtask))
            if entry.item.number in read and delivery.subtask not in entry.read
            else entry
            for entry in self.told
        ]

    def messages_for(self, subtask: str) -> tuple[SteeringItem, ...]:
        return tuple(entry.item for entry in self.told if entry.subtask in {"", subtask} and not entry.item.path)

    @property
    def for_all(self) -> str:
        """Messages to all agents, for the writer of the report, up to the size that its turn reserves."""
        return " ".join(entry.item.text for entry in self.told if not entry.subtask)[:_WRITER_CHARACTERS]

    def hear(self, answer: str) -> None:
        self.answers += (answer,)

    def check_room(self, text: str) -> None:
        characters = sum(len(entry.item.text) for entry in self.told) + len(text)
        if len(self.told) >= _MOST_MESSAGES:
            raise Refused(f"text: this session has taken {_MOST_MESSAGES} messages, the most it may have")
        if characters > _MOST_CHARACTERS:
            raise Refused(f"text: all messages together may have {_MOST_CHARACTERS:,} characters")

    def address(self, text: str, path: str) -> tuple[SteeringItem, tuple[Delivery, ...]]:
        """Store a message, or an interruption if it has no text; return it with its deliveries."""
        subtask, _, below = path.partition("/")
        self.numbered += 1
        item = SteeringItem(number=self.numbered, text=text, path=below)
        ways = tuple(each for each in self._running if subtask in {"", each.subtask})
        if text:
            running = tuple(dict.fromkeys(each.subtask for each in ways))
            self.told.append(ToldMessage(item=item, subtask=subtask, running=running))
        return item, ways

    @property
    def next_number(self) -> int:
        return self.numbered + 1

    def forget(self, subtask: str) -> None:
        """Drop the messages to a subtask that has ended, once they are read or otherwise answered."""
        self.told = [entry for entry in self.told if entry.subtask != subtask]

    def lose(self, item: SteeringItem) -> None:
        """Record a message that was too late or named an unknown subtask."""
        if item.text:
            self.lost.append(f"A message to {item.path or 'the agents'} was not read: {_quote(item.text)}")

    def gaps(self) -> tuple[str, ...]:
        """Name the messages that not all addressees have read."""
        return (*(gap for entry in self.told if (gap := _gap(entry))), *self.lost)


def _gap(told: ToldMessage) -> str:
    """Describe a message that not all addressees have read; empty if they have."""
    wanted = told.running or ((told.subtask,) if told.subtask else ())
    missing = [each for each in wanted if each not in told.read]
    if not missing and (wanted or told.read):
        return ""
    to = ", ".join(missing)
    return f"A message to {to or 'the agents'} was not read: {_quote(told.item.text)}"


def _quote(text: str) -> str:
    return f"“{one_line(text, _QUOTED_CHARACTERS)}”"
