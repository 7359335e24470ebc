"""The client without await is the client: nothing is copied by hand, and nothing is missing."""

from contextlib import closing
from datetime import UTC, datetime

import pytest

from chargehand import Plan, SessionCancelled, Subtask, sync
from chargehand.contracts import Event
from chargehand.contracts.events import StateEvent
from chargehand.testing import StandInChargehand, StandInScript, report_of
from tests.unit.client.sync_stub import STUB, stub

_PLAN = Plan(subtasks=(Subtask(id="T1", agent="reader", instruction="Find the notice"),))


def test_the_types_are_those_of_the_asynchronous_classes() -> None:
    """After a change of a method: `python -m tests.unit.client.sync_stub`."""
    assert STUB.read_text(encoding="utf-8") == stub()


async def test_it_works_in_a_running_event_loop_as_a_notebook_has_one() -> None:
    """Sessions come back as sessions without await, iterators as iterators, and errors as they are."""
    events: tuple[Event, ...] = tuple(
        StateEvent(session="session-1", cursor=str(number), at=datetime.now(UTC), state="planning")
        for number in range(3)
    )
    stand_in = StandInChargehand(StandInScript(report_of("Three months."), plan=_PLAN, events=events))
    chargehand = sync.Chargehand(stand_in)

    session = chargehand.start("When can we leave?")
    with closing(session.follow()) as following:
        first = next(following)
    after = list(session.follow(first.cursor))
    approved = session.approve()
    report = session.result()
    session.cancel()

    assert (approved, report.answer, chargehand.session("session-1").id) == (_PLAN, "Three months.", session.id)
    assert [first, *after] == [*events]
    assert [each.id for each in chargehand.list()] == ["session-1"]
    with pytest.raises(SessionCancelled):
        session.result()
