"""The mailbox of one workflow, pure: what it has written, what waits for a reply or to be sent, what has arrived.

Whatever happens between two workflows, what one sends has its effect in the other once, in the order in which it was
written. A token is drawn for each envelope: a workflow that was reset draws others than before, so that what it sends
again is told from what it had sent.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, Protocol, TypeVar

from workflows.mailbox.contracts import Body, Envelope, MailboxState, Reply

_Reply = TypeVar("_Reply", bound=Reply)


class Sender(Protocol):
    """What a reply has to know of its request: its envelope, or what was kept of that."""

    @property
    def sender(self) -> str: ...
    @property
    def number(self) -> int: ...
    @property
    def token(self) -> str: ...


@dataclass(eq=False)
class Request(Generic[_Reply]):
    envelope: Envelope
    kind: type[_Reply]
    take: Callable[[_Reply], bool]
    """Takes a reply when it arrives; false if no honest reply is like that."""
    reply: _Reply | None = None

    def settle(self, reply: Reply) -> bool:
        """Take the reply; of several, the first."""
        if self.reply is not None or not isinstance(reply, self.kind) or not self.take(reply):
            return False
        self.reply = reply
        return True


@dataclass(eq=False)
class Outbox:
    """What is to be sent to one workflow: one after another, nothing before it has started or after it has ended."""

    address: str
    is_started: bool = True
    is_over: bool = False
    _waiting: list[Envelope] = field(default_factory=list[Envelope])

    def start(self) -> None:
        self.is_started = True

    def end(self) -> None:
        self.is_over = True

    def put(self, envelope: Envelope) -> None:
        self._waiting.append(envelope)

    def is_next(self, envelope: Envelope) -> bool:
        return self.is_started and not self.is_over and self._waiting[0] is envelope

    def remove(self, envelope: Envelope) -> None:
        self._waiting = [each for each in self._waiting if each is not envelope]


class Mailbox:
    def __init__(self, address: str) -> None:
        self._address = address
        self._written = 0
        self._received: dict[str, None] = {}
        """Tokens of what has arrived that was no reply."""
        self._requests: dict[str, Request[Any]] = {}
        """Those that wait for a reply, by token."""
        self._outboxes: dict[str, Outbox] = {}
        self._waited = timedelta(0)
        self._waiting_since: datetime | None = None

    def state(self) -> MailboxState:
        return MailboxState(written=self._written, received=tuple(self._received), waited=self._waited)

    def resume(self, before: MailboxState) -> None:
        self._written, self._waited = before.written, before.waited
        self._received = dict.fromkeys(before.received)

    def waited(self, now: datetime) -> timedelta:
        """Return the time in which at least one request waited for its reply."""
        return self._waited + (timedelta(0) if self._waiting_since is None else now - self._waiting_since)

    def write(self, body: Body, token: str) -> Envelope:
        self._written += 1
        return Envelope(sender=self._address, number=self._written, token=token, body=body)

    def answer(self, request: Sender, reply: Reply) -> Envelope:
        return Envelope(sender=self._address, number=request.number, token=request.token, body=reply)

    def outbox(self, address: str) -> Outbox:
        """Find the way to a workflow that is running, as far as is known."""
        return self._outboxes.setdefault(address, Outbox(address))

    def open(
        self, envelope: Envelope, kind: type[_Reply], take: Callable[[_Reply], bool], now: datetime
    ) -> Request[_Reply]:
        request = self._requests[envelope.token] = Request(envelope, kind, take)
        self._waiting_since = self._waiting_since or now
        return request

    def close(self, request: Request[Any], now: datetime) -> None:
        """Expect no reply any more; one that comes all the same is ignored."""
        del self._requests[request.envelope.token]
        if not self._requests:
            self._waited, self._waiting_since = self.waited(now), None

    def receive(self, envelope: Envelope) -> bool:
        """Take what arrives: settle the request that it replies to, or note that it came; false to ignore it."""
        if isinstance(envelope.body, Reply):
            request = self._requests.get(envelope.token)
            return request is not None and request.settle(envelope.body)
        is_new = envelope.token not in self._received
        self._received[envelope.token] = None
        return is_new
