"""The record of sessions' effects, charges and decisions outside Temporal, which survives a restored database.

It is append-only. Each entry is an object `<folder>/<name>`: one folder per session, and one for the
sessions that started on each day. Workers write entries; `chargehand reconcile` reads them after a restore.
"""

import hashlib
from collections.abc import Collection, Iterator, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from pydantic import JsonValue

from chargehand.bucket import open_folder
from chargehand.contracts import Contract, Dollars, SpendLine, left_out
from chargehand.payloads.at_rest import SealedFiles
from chargehand.payloads.encryption import Encryption
from chargehand.tools import ToolAnswer

FOLDER: Final = "record"
"""Folder within the artifacts' directory or bucket."""
_PURPOSE: Final = "record"
_DIGITS: Final = 40
_DAYS: Final = 32
"""Days that a session may run and still be found by the day of its admission request."""


class Activity(NamedTuple):
    workflow_id: str
    run_id: str
    activity_id: str


class SessionBegun(Contract):
    session: str
    run: str
    at: datetime


class PlaceTaken(Contract):
    """A session's request for a place in its tenant's ledger, recorded before it is sent."""

    session: str
    key: str
    """The run that opened the session."""
    usd: Dollars
    """Its budget."""
    at: datetime


class CallBegun(Contract):
    """An acting call, recorded before it is made."""

    session: str
    agent: str
    tool: str
    arguments: dict[str, JsonValue]
    key: str
    """Its idempotency key."""
    number: int = 0
    """Number of the attempt; another attempt follows one that was not applied, or a person's decision."""
    decision: str = left_out("")
    """A person's decision about it and who made it, if any."""
    attempt: str
    """A random value, so that no two workers write the same attempt."""
    at: datetime
    """The start time, by the server's clock."""


class CallEnded(Contract):
    """The result of a recorded call."""

    answer: ToolAnswer
    at: datetime


class Charge(SpendLine):
    """The cost of one model call."""

    session: str
    workflow_id: str
    run_id: str
    activity_id: str
    scheduled_at: datetime
    """When the server scheduled the activity, which differs if it is scheduled again after a restore."""
    attempt: int
    is_known: bool = left_out(True)
    """Whether the provider reported the usage."""

    @property
    def activity(self) -> Activity:
        return Activity(self.workflow_id, self.run_id, self.activity_id)


class Decision(Contract):
    """A person's decision, recorded before it takes effect."""

    session: str
    workflow_id: str
    run_id: str
    update_id: str
    name: str
    """Name of the update that carried it."""
    content: dict[str, JsonValue]
    """Content of that update: the decision, its subject, and who made it."""
    at: datetime
    """The time of the decision, by the server's clock."""


class BookedBy(Contract):
    """A charge from a lost history was booked by the named turn or command."""

    booker: str


_TELLING: Final = BookedBy(booker="reconcile")


class Call(NamedTuple):
    begun: CallBegun
    answer: ToolAnswer | None
    """None if it is unknown whether the call was applied."""


_Entry = TypeVar("_Entry", bound=Contract)


class Record:
    """The entries in a directory or bucket. Methods block and raise `OSError` or `ChargehandError`."""

    def __init__(self, place: Path | str, encryption: Encryption | None = None) -> None:
        self._files = open_folder(place, FOLDER)
        self._sealed = SealedFiles(self._files, encryption, _PURPOSE)

    def begin_session(self, begun: SessionBegun) -> None:
        self._add(_day(begun.at.date()), _digest(begun.session, begun.run), begun)

    def sessions(self, day: date) -> Iterator[SessionBegun]:
        """Read the sessions that started on a day."""
        for name in self._files.names(_day(day)):
            if begun := self._read(_day(day), name, SessionBegun):
                yield begun

    def take_place(self, ledger: str, place: PlaceTaken) -> None:
        self._add(_places(ledger, place.at.date()), _place(place.session, place.key), place)

    def took_place(self, ledger: str, session: str, key: str, day: date) -> bool:
        """Whether a session requested a place on a day or before."""
        return any(
            self._read(_places(ledger, each), _place(session, key), PlaceTaken) is not None for each in _days(day)
        )

    def places(self, ledger: str, day: date, sessions: Collection[str]) -> list[PlaceTaken]:
        """Read the places requested on a day, and earlier ones of the same sessions."""
        earlier, records = {_digest(session) for session in sessions}, list[PlaceTaken]()
        for each in _days(day):
            folder = _places(ledger, each)
            for name in self._files.names(folder):
                is_asked = each == day or name.split("-")[0] in earlier
                if is_asked and (place := self._read(folder, name, PlaceTaken)):
                    records.append(place)
        return sorted(records, key=lambda place: place.at)

    def begin_call(self, begun: CallBegun) -> bool:
        """Record that a call is about to be made; False if another worker has recorded this attempt."""
        return self._add(_digest(begun.session), _call(begun.key, begun.number, "begun"), begun)

    def end_call(self, begun: CallBegun, ended: CallEnded) -> None:
        self._add(_digest(begun.session), _call(begun.key, begun.number, "ended"), ended)

    def last_call(self, session: str, key: str) -> Call | None:
        """Read the last attempt at a call; None if there was none."""
        number, last = 0, None
        while begun := self._read(_digest(session), _call(key, number, "begun"), CallBegun):
            number, last = number + 1, begun
        return last and self._call(last)

    def calls(self, session: str) -> list[Call]:
        """Read the last attempts at all calls of a session, in order of their start."""
        keys = {name.split("-")[1] for name in self._files.names(_digest(session)) if name.startswith("call-")}
        calls = [call for key in keys if (call := self.last_call(session, key))]
        return sorted(calls, key=lambda call: call.begun.at)

    def add_charge(self, charge: Charge) -> Sequence[Charge]:
        """Record a charge; return charges of the same activity from a lost history."""
        number = 0
        while not self._add(_digest(charge.session), _charge(charge.activity, number), charge):
            number += 1
        return self.lost_charges(charge.session, charge.activity, charge.scheduled_at) if number else []

    def lost_charges(self, session: str, activity: Activity, scheduled_at: datetime) -> list[Charge]:
        """Read the charges of the activity in a lost history, where it was scheduled at another time."""
        number, lost = 0, list[Charge]()
        while charge := self._read(_digest(session), _charge(activity, number), Charge):
            number += 1
            if charge.scheduled_at != scheduled_at:
                lost.append(charge)
        return lost

    def charges(self, session: str) -> list[Charge]:
        return self._all(session, "charge", Charge)

    def book(self, charge: Charge, booker: str) -> bool:
        """Claim a charge from a lost history for booking; False if already claimed."""
        folder, name, claim = _digest(charge.session), f"booked-{charge_id(charge)}", BookedBy(booker=booker)
        return self._add(folder, name, claim) or self._read(folder, name, BookedBy) == claim

    def is_booked(self, charge: Charge) -> bool:
        """Whether a charge from a lost history was booked by a turn or sent to its session."""
        folder, name = _digest(charge.session), f"booked-{charge_id(charge)}"
        claim = self._read(folder, name, BookedBy)
        return claim is not None and (claim != _TELLING or self._read(folder, f"{name}-told", BookedBy) is not None)

    def begin_telling(self, charge: Charge) -> bool:
        """Claim a charge to send it to its session; False if a turn has booked it."""
        return self.book(charge, _TELLING.booker)

    def end_telling(self, charge: Charge) -> None:
        self._add(_digest(charge.session), f"booked-{charge_id(charge)}-told", _TELLING)

    def add_decision(self, decision: Decision) -> None:
        name = f"decision-{_digest(decision.workflow_id, decision.run_id, decision.update_id)}"
        self._add(_digest(decision.session), name, decision)

    def decisions(self, session: str) -> list[Decision]:
        """Read people's decisions in order."""
        return sorted(self._all(session, "decision", Decision), key=lambda decision: decision.at)

    def _call(self, begun: CallBegun) -> Call:
        ended = self._read(_digest(begun.session), _call(begun.key, begun.number, "ended"), CallEnded)
        return Call(begun, ended and ended.answer)

    def _all(self, session: str, prefix: str, kind: type[_Entry]) -> list[_Entry]:
        folder = _digest(session)
        names = [name for name in self._files.names(folder) if name.startswith(f"{prefix}-")]
        return [entry for name in names if (entry := self._read(folder, name, kind))]

    def _add(self, folder: str, name: str, entry: Contract) -> bool:
        return self._sealed.add(f"{folder}/{name}", entry.model_dump_json().encode())

    def _read(self, folder: str, name: str, kind: type[_Entry]) -> _Entry | None:
        content = self._sealed.read(f"{folder}/{name}")
        return None if content is None else kind.model_validate_json(content)


def charge_id(charge: Charge) -> str:
    """Build the id of a charge; each attempt at an activity is charged at most once."""
    return _digest(*charge.activity, charge.scheduled_at.isoformat(), str(charge.attempt))


def _charge(activity: Activity, number: int) -> str:
    return f"charge-{_digest(*activity)}-{number}"


def _call(key: str, number: int, what: str) -> str:
    return f"call-{key}-{number}-{what}"


def _day(day: date) -> str:
    return f"began-{day}"


def _places(ledger: str, day: date) -> str:
    return f"places-{_digest(ledger)}-{day}"


def _place(session: str, key: str) -> str:
    return f"{_digest(session)}-{_digest(key)}"


def _days(day: date) -> list[date]:
    return [day - timedelta(days=ago) for ago in range(_DAYS)]


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:_DIGITS]
