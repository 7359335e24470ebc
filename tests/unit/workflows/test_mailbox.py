"""Messages between workflows: delivered once, in order, none lost, despite repetition, delay and strangers."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from workflows.mailbox.contracts import CallReply, Envelope, Grant, GrantRequest
from workflows.mailbox.mailbox import Mailbox, Outbox, Request

_START = datetime(2030, 1, 1, tzinfo=UTC)
_WHICH = st.integers(min_value=0, max_value=1_000)


def _request(turns: int = 1) -> GrantRequest:
    return GrantRequest(turns=turns, usd=Decimal(0))


def _grant(turns: int = 1) -> Grant:
    return Grant(turns=turns, usd=Decimal(0))


def _open(mailbox: Mailbox, token: str, now: datetime = _START) -> Request[Grant]:
    return mailbox.open(mailbox.write(_request(), token), Grant, lambda _: True, now)


def _resumed(mailbox: Mailbox) -> Mailbox:
    """Continue as new."""
    later = Mailbox(address="child")
    later.take_over(Mailbox.model_validate_json(mailbox.model_dump_json()))
    return later


class TwoWorkflows(RuleBasedStateMachine):
    """A parent and a child write to each other; either may continue as new, and the parent may be reset."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = (f"token {number}" for number in count())
        self.parent, self.child = Mailbox(address="parent"), Mailbox(address="child")
        self.outbox = Outbox("child", is_started=False)
        self.written: list[Envelope] = []
        """Messages waiting to be sent to the child, in order."""
        self.sent: list[Envelope] = []
        """Messages that the server has accepted, and may deliver more than once."""
        self.acted_on: list[Envelope] = []
        self.before = _resumed(self.parent)
        self.requests: list[Request[Grant]] = []
        self.open: set[str] = set()
        """Tokens of the requests whose workflow still waits, or has not noticed the reply."""
        self.replies: list[Envelope] = []
        self.first: dict[str, Grant] = {}
        """The first timely reply to each request."""

    @rule()
    def write(self) -> None:
        self.written.append(self.parent.write(_request(), next(self.tokens)))
        self.outbox.put(self.written[-1])

    @rule()
    def start(self) -> None:
        self.outbox.start()

    @rule()
    def send(self) -> None:
        """Have the server accept everything that may be sent."""
        for envelope in [each for each in self.written if self.outbox.is_next(each)]:
            self.written.remove(envelope)
            self.outbox.remove(envelope)
            self.sent.append(envelope)
            self._deliver(envelope)

    @rule(which=_WHICH)
    def give_up(self, which: int) -> None:
        """Cancel the writer of a message before it is sent."""
        if self.written:
            self.outbox.remove(self.written.pop(which % len(self.written)))

    @precondition(lambda self: self.sent)
    @rule(which=_WHICH)
    def deliver_again(self, which: int) -> None:
        self._deliver(self.sent[which % len(self.sent)])

    @rule()
    def continue_the_parent_as_new(self) -> None:
        self.parent = _resumed(self.parent)

    @rule()
    def remember_the_parent(self) -> None:
        self.before = _resumed(self.parent)

    @rule()
    def reset_the_parent(self) -> None:
        """Resume from an earlier moment and write the same messages, or others, with other tokens."""
        self.parent = Mailbox(address="parent")
        self.parent.take_over(self.before)

    @precondition(lambda self: not self.open)
    @rule()
    def continue_the_child_as_new(self) -> None:
        """Continue between two rounds, when no request is open."""
        self.child = _resumed(self.child)

    @rule()
    def ask(self) -> None:
        self.requests.append(_open(self.child, next(self.tokens)))
        self.open.add(self.requests[-1].envelope.token)

    @precondition(lambda self: self.requests)
    @rule(which=_WHICH, turns=st.integers(0, 1_000))
    def reply(self, which: int, turns: int) -> None:
        """Have the parent reply, possibly again after a reset."""
        request = self.requests[which % len(self.requests)].envelope
        self.replies.append(self.parent.answer(request, _grant(turns)))

    @precondition(lambda self: self.requests)
    @rule(which=_WHICH)
    def end_the_wait(self, which: int) -> None:
        """End a wait, as there is a reply or none is needed any more."""
        request = self.requests[which % len(self.requests)]
        if request.envelope.token in self.open:
            self.child.close(request, _START)
            self.open.remove(request.envelope.token)

    @precondition(lambda self: self.replies)
    @rule(which=_WHICH)
    def deliver_a_reply(self, which: int) -> None:
        """Deliver replies in any order, any number of times."""
        envelope = self.replies[which % len(self.replies)]
        is_due = envelope.token in self.open - self.first.keys()

        assert self.child.receive(envelope) == is_due

        if is_due:
            assert isinstance(envelope.body, Grant)
            self.first[envelope.token] = envelope.body

    @rule(token=st.sampled_from(["", "x", "token"]))
    def forge_a_reply(self, token: str) -> None:
        forged = Envelope(sender="parent", number=1, token=token, body=_grant(1_000))

        assert not self.child.receive(forged)

    @invariant()
    def everything_sent_was_acted_on_once_and_in_order(self) -> None:
        assert self.acted_on == self.sent

    @invariant()
    def what_waits_is_sent_as_soon_as_it_may_be(self) -> None:
        ready = [each for each in self.written if self.outbox.is_next(each)]
        assert ready == (self.written[:1] if self.outbox.is_started else [])

    @invariant()
    def every_request_has_its_own_first_reply(self) -> None:
        for request in self.requests:
            assert request.reply == self.first.get(request.envelope.token)

    @invariant()
    def every_envelope_of_the_child_has_a_number_of_its_own(self) -> None:
        assert [each.envelope.number for each in self.requests] == list(range(1, len(self.requests) + 1))

    def _deliver(self, envelope: Envelope) -> None:
        if self.child.receive(envelope):
            self.acted_on.append(envelope)


class TestTwoWorkflows(TwoWorkflows.TestCase):
    """Once, in order, none lost; each request has one reply."""

    settings = settings(stateful_step_count=40, deadline=None)


def test_a_reply_of_the_wrong_kind_or_value_is_ignored() -> None:
    """Knowing a request's token is not enough: the reply must be one that its receiver could have sent."""
    mailbox = Mailbox(address="child")
    envelope = mailbox.write(_request(), "t")
    request = mailbox.open(envelope, Grant, lambda grant: grant.turns <= 5, _START)

    assert not mailbox.receive(mailbox.answer(envelope, CallReply(verdict="approved")))
    assert not mailbox.receive(mailbox.answer(envelope, _grant(6)))
    assert mailbox.receive(mailbox.answer(envelope, _grant(5)))
    assert request.reply == _grant(5)


@pytest.mark.parametrize("is_started", [True, False])
def test_nothing_is_sent_to_a_workflow_that_has_ended(*, is_started: bool) -> None:
    """This includes messages queued before it started."""
    outbox, envelope = Outbox("child", is_started=is_started), Mailbox(address="parent").write(_request(), "t")
    outbox.put(envelope)
    outbox.end()
    outbox.start()

    assert not outbox.is_next(envelope)


def test_overlapping_waits_count_once_and_across_runs() -> None:
    """An agent's clock is stopped while any of its requests is waiting."""
    mailbox = Mailbox(address="child")
    minute = timedelta(minutes=1)
    first = _open(mailbox, "a", _START)
    second = _open(mailbox, "b", _START + minute)
    mailbox.close(first, _START + 2 * minute)

    assert mailbox.waited_until(_START + 3 * minute) == 3 * minute

    mailbox.close(second, _START + 4 * minute)
    later = _resumed(mailbox)

    assert later.waited_until(_START + 9 * minute) == 4 * minute

    third = _open(later, "c", _START + 9 * minute)
    later.close(third, _START + 10 * minute)

    assert later.waited_until(_START + 11 * minute) == 5 * minute
