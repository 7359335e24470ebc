"""What turns have cost, in the record outside Temporal, before and after a database was restored."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

from temporalio.testing import ActivityEnvironment

from activities.models.protocol import ModelReply
from activities.turn.charges import record_charge, take_over
from activities.turn.contracts import TurnResult
from chargehand.contracts import Usage
from chargehand.record import Record
from tests.activities.turns.one_turn import a_turn

_TURN = a_turn().turn
_REPLY = ModelReply(stop="answer", model="m", provider="p", usage=Usage(cost_usd=Decimal("0.01")))
_PAID = Usage(turns=1, cost_usd=Decimal("0.01"))
_BACKUP = datetime(2026, 11, 23, tzinfo=UTC)


def at(hours: int) -> ActivityEnvironment:
    """Schedule the turn so many hours after the backup."""
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, scheduled_time=_BACKUP + timedelta(hours=hours))
    return environment


async def test_a_turn_books_what_it_has_cost_before_a_restore(tmp_path: Path) -> None:
    """Once, however often the database is restored; a repeated attempt in the same history books nothing."""
    record = Record(tmp_path)

    booked = [await at(hours).run(record_charge, record, _TURN, _REPLY) for hours in (1, 1, 2, 3)]

    assert booked[:2] == [None, None]
    assert booked[2:] == [_PAID + _PAID, _PAID]
    assert [charge.usage for charge in record.charges("a-session")] == [_PAID] * 4


async def test_a_reply_that_is_taken_over_is_booked(tmp_path: Path) -> None:
    """A worker that lives through a restore still has the reply: its charge is the only one, and is booked with it."""
    record, kept = Record(tmp_path), TurnResult(stop="answer", model="m", provider="p", usage=_PAID)
    await at(1).run(record_charge, record, _TURN, _REPLY)
    [paid] = record.charges("a-session")
    assert not record.is_booked(paid)

    taken = [await at(hours).run(take_over, record, "a-session", kept) for hours in (1, 2, 2, 3)]

    assert record.is_booked(paid)
    assert taken == [kept] * 4


async def test_a_charge_that_a_session_was_told_of_is_not_booked_with_the_reply(tmp_path: Path) -> None:
    """Whichever of `reconcile --repair` and the turn comes first claims it."""
    record, kept = Record(tmp_path), TurnResult(stop="answer", model="m", provider="p", usage=_PAID)
    await at(1).run(record_charge, record, _TURN, _REPLY)
    [paid] = record.charges("a-session")
    assert record.begin_telling(paid)

    taken = await at(2).run(take_over, record, "a-session", kept)

    assert taken == kept.model_copy(update={"usage": Usage()})


async def test_a_charge_that_cannot_be_recorded_loses_no_reply(tmp_path: Path) -> None:
    """The reply is paid for, so it is used all the same."""
    (tmp_path / "record").write_text("in the way")

    assert await at(1).run(record_charge, Record(tmp_path), _TURN, _REPLY) is None
