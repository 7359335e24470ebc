"""The mailbox of one workflow, pure: outgoing messages, requests awaiting replies, and arrivals.

Messages between two workflows take effect exactly once and in the order in which they were
written. Each envelope has a random token: a workflow that was reset draws new ones, which distinguishes its new
messages from those sent before the reset.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, Protocol, TypeVar

from pydantic import PrivateAttr

from chargehand.contracts import left_out
from workflows.carried import Carried, present
from workflows.mailbox.contracts import Body, Envelope, Reply

_Reply = TypeVar("_Reply", bound=Reply)


class Sender(Protocol):
    """The part of a request that its reply needs: an envelope, or the stored part of one."""

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
    """Accepts a reply on arrival; false if it cannot be genuine."""
    reply: _Reply | None = None

    def settle(self, reply: Reply) -> bool:
        """Accept the reply; only the first one counts."""
        if self.reply is not None or not isinstance(reply, self.kind) or not self.take(reply):
            return False
        self.reply = reply
        return True


@dataclass(eq=False)
class Outbox:
    """Messages for one workflow, sent one at a time while it is running."""

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


class Mailbox(Carried):
    """The messages of one workflow, which continues as new only when none of its requests is open."""

    address: str = present("")
    written: int = left_out(0)
    received: dict[str, None] = left_out({})
    """Tokens of arrivals other than replies."""
    waited: timedelta = left_out(timedelta(0))
    """Total of the finished waits for replies; overlapping ones count once."""
    _requests: dict[str, Request[Any]] = PrivateAttr(default_factory=dict[str, Request[Any]])
    """Requests awaiting a reply, by token."""
    _outboxes: dict[str, Outbox] = PrivateAttr(default_factory=dict[str, Outbox])
    _waiting_since: datetime | None = None

    def waited_until(self, now: datetime) -> timedelta:
        """Return the total time during which at least one request awaited its reply."""
        return self.waited + (timedelta(0) if self._waiting_since is None else now - self._waiting_since)

    def write(self, body: Body, token: str) -> Envelope:
        self.written += 1
        return Envelope(sender=self.address, number=self.written, token=token, body=body)

    def answer(self, request: Sender, reply: Reply) -> Envelope:
        return Envelope(sender=self.address, number=request.number, token=request.token, body=reply)

    def outbox(self, address: str) -> Outbox:
        """Return the outbox for a workflow, which is assumed to be running."""
        return self._outboxes.setdefault(address, Outbox(address))

    def open(
        self, envelope: Envelope, kind: type[_Reply], take: Callable[[_Reply], bool], now: datetime
    ) -> Request[_Reply]:
        request = self._requests[envelope.token] = Request(envelope, kind, take)
        self._waiting_since = self._waiting_since or now
        return request

    def close(self, request: Request[Any], now: datetime) -> None:
        """Stop expecting replies; later ones are ignored."""
        del self._requests[request.envelope.token]
        if not self._requests:
            self.waited, self._waiting_since = self.waited_until(now), None

    def receive(self, envelope: Envelope) -> bool:
        """Process an arrival: settle the request it replies to, or record it; false to ignore it."""
        if isinstance(envelope.body, Reply):
            request = self._requests.get(envelope.token)
            return request is not None and request.settle(envelope.body)
        is_new = envelope.token not in self.received
        self.received[envelope.token] = None
        return is_new
