"""The record of effects, in a directory and in buckets: entries stay once they are added."""

import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from secrets import token_hex

import pytest

from chargehand.bucket import Directory
from chargehand.contracts import Usage
from chargehand.payloads.encryption import Encryption
from chargehand.payloads.errors import KeyMissing, SealBroken
from chargehand.record import Call, CallBegun, CallEnded, Charge, Record, SessionBegun, charge_id
from chargehand.tools import ToolAnswer

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
DONE = CallEnded(answer=ToolAnswer(output={"done": True}), at=NOW)


def call(key: str, number: int = 0) -> CallBegun:
    return CallBegun(
        session="s",
        agent="clerk",
        tool="refund",
        arguments={"order": "A-17"},
        key=key,
        number=number,
        attempt=token_hex(8),
        at=NOW + timedelta(seconds=number),
    )


def charge(*, scheduled_at: datetime = NOW, usd: str = "0.01") -> Charge:
    return Charge(
        session="paid",
        workflow_id="w",
        run_id="r",
        activity_id="turn-1",
        scheduled_at=scheduled_at,
        attempt=1,
        agent="clerk",
        purpose="work",
        model="m",
        usage=Usage(turns=1, cost_usd=Decimal(usd)),
    )


def test_only_one_of_many_workers_may_begin_a_call(place: str) -> None:
    record = Record(place)
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(record.begin_call, [call("race") for _ in range(8)]))

    assert won.count(True) == 1


def test_the_last_attempt_at_a_call_counts(place: str) -> None:
    record = Record(place)
    first, second = call("last"), call("last", 1)

    assert record.last_call("s", "last") is None
    assert record.begin_call(first)
    assert record.last_call("s", "last") == Call(first, None)
    record.end_call(first, DONE)
    assert record.last_call("s", "last") == Call(first, DONE.answer)
    assert record.begin_call(second)
    assert record.last_call("s", "last") == Call(second, None)
    assert Call(second, None) in record.calls("s")
    assert Call(first, DONE.answer) not in record.calls("s")


def test_a_charge_lost_in_a_restore_is_booked_once(place: str) -> None:
    record = Record(place)
    lost, again = charge(), charge(scheduled_at=NOW + timedelta(hours=1), usd="0.02")

    assert record.add_charge(lost) == []
    assert record.add_charge(again) == [lost]
    assert record.charges("paid") == [lost, again]
    assert charge_id(lost) != charge_id(again)
    assert [record.book(lost, by) for by in ("a turn", "reconcile", "a turn")] == [True, False, True]


def test_sessions_are_listed_by_start_day(place: str) -> None:
    record = Record(place)
    begun = [SessionBegun(session="Ärger/1", run=run, at=NOW) for run in ("r1", "r2")]
    for each in (*begun, begun[0]):
        record.begin_session(each)

    assert sorted(record.sessions(NOW.date()), key=lambda each: each.run) == begun
    assert list(record.sessions(NOW.date() + timedelta(days=1))) == []


def test_records_are_encrypted_when_keys_are_set(tmp_path: Path) -> None:
    encryption = Encryption({"k": bytes(32)}, "k")
    assert Record(tmp_path, encryption).begin_call(call("sealed"))
    assert Record(tmp_path).begin_call(call("plain"))

    [sealed] = [path for path in tmp_path.rglob("call-sealed-*") if path.is_file()]
    assert b"A-17" not in sealed.read_bytes()
    assert Record(tmp_path, encryption).last_call("s", "sealed")
    with pytest.raises(KeyMissing):
        Record(tmp_path, Encryption({"other": bytes(32)}, "other")).last_call("s", "sealed")
    with pytest.raises(SealBroken):
        Record(tmp_path).last_call("s", "sealed")
    with pytest.raises(SealBroken):
        Record(tmp_path, encryption).last_call("s", "plain")
    assert Record(tmp_path, Encryption({"k": bytes(32)}, "k", accept_plain=True)).last_call("s", "plain")


def test_an_existing_record_file_is_never_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second write under the same name changes nothing and leaves no draft; new content, its file name and, once, its
    folder are synced to disk.
    """
    synced, fsync, files = list[Path](), os.fsync, Directory(tmp_path)

    def note(file: int) -> None:
        synced.append(Path(f"/proc/self/fd/{file}").readlink())
        fsync(file)

    monkeypatch.setattr(os, "fsync", note)

    assert [files.put_new(*new) for new in (("a/b", b"1"), ("a/b", b"2"), ("a/c", b"3"))] == [True, False, True]
    assert {each.name: each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()} == {"b": b"1", "c": b"3"}
    assert [each for each in synced if each.is_dir()] == [tmp_path, tmp_path / "a", tmp_path / "a"]
    assert len(synced) == 3 + 3  # contents, and folders
