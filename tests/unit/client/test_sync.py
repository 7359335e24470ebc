"""The client without await is the client, and nothing of it is missing."""

from contextlib import closing
from datetime import UTC, datetime

import pytest

from chargehand import Chargehand, Plan, Session, SessionCancelled, Subtask, UserMessage, sync
from chargehand.contracts import Event
from chargehand.contracts.events import StateEvent
from chargehand_plugins.testing import StandInChargehand, StandInScript, report_of

_PLAN = Plan(subtasks=(Subtask(id="T1", agent="reader", instruction="Find the notice"),))


@pytest.mark.parametrize(("waiting", "real"), [(sync.Chargehand, Chargehand), (sync.Session, Session)])
def test_no_method_is_missing(waiting: type, real: type) -> None:
    """Every public method of the asynchronous class has one that waits."""
    public = {name for name in dir(real) if not name.startswith("_")}

    assert public - set(dir(waiting)) == set()


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
    status = session.tell(text="Be brief.")
    report = session.result()
    session.cancel()

    assert (approved, report.answer, chargehand.session("session-1").id) == (_PLAN, "Three months.", session.id)
    assert [first, *after] == [*events]
    assert (status.state, stand_in.sent["session-1"][1:]) == ("finished", [("tell", UserMessage(text="Be brief."))])
    assert [each.id for each in chargehand.list()] == ["session-1"]
    with pytest.raises(SessionCancelled):
        session.result()
