"""The record of what sessions did, paid and were told, outside Temporal: a restored database forgets, it does not.

Entries are added and never changed, each an object `<folder>/<name>`: one folder for each session, and one for the
sessions that began on each day. Workers write them, and who has restored a database reads them.
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
"""In the place of the artifacts."""
_PURPOSE: Final = "record"
_DIGITS: Final = 40
_DAYS: Final = 32
"""For which a session may run and still be found by the day on which it took its place."""


class Activity(NamedTuple):
    workflow_id: str
    run_id: str
    activity_id: str


class SessionBegun(Contract):
    session: str
    run: str
    at: datetime


class PlaceTaken(Contract):
    """A session asks the ledger of its tenant for a place, before it does."""

    session: str
    key: str
    """The run that opened the session."""
    usd: Dollars
    """Its budget."""
    at: datetime


class CallBegun(Contract):
    """A call that acts, before it is made."""

    session: str
    agent: str
    tool: str
    arguments: dict[str, JsonValue]
    key: str
    """Its idempotency key."""
    number: int = 0
    """Of the attempt: another one follows a call that was not applied, or the decision of a person."""
    decision: str = left_out("")
    """What a person has decided about it, and who, if one has."""
    attempt: str
    """Drawn at random, so that no two workers write the same."""
    at: datetime
    """By the server's clock."""


class CallEnded(Contract):
    """The same call, after it was made."""

    answer: ToolAnswer
    at: datetime


class Charge(SpendLine):
    """What one model call has cost."""

    session: str
    workflow_id: str
    run_id: str
    activity_id: str
    scheduled_at: datetime
    """When the server scheduled the activity: what is scheduled again after a restore has another time."""
    attempt: int
    is_known: bool = left_out(True)
    """Whether the provider said what it used."""

    @property
    def activity(self) -> Activity:
        return Activity(self.workflow_id, self.run_id, self.activity_id)


class Decision(Contract):
    """What a person has decided, before it has an effect."""

    session: str
    workflow_id: str
    run_id: str
    update_id: str
    name: str
    """Of the update that brought it."""
    content: dict[str, JsonValue]
    """Of that update: what is decided, about what, and by whom."""
    at: datetime
    """By the server's clock."""


class BookedBy(Contract):
    """A charge of a history that is gone has been booked, by the turn or the command that says so."""

    booker: str


_TELLING: Final = BookedBy(booker="reconcile")


class Call(NamedTuple):
    begun: CallBegun
    answer: ToolAnswer | None
    """None if it is unknown whether it was applied."""


_Entry = TypeVar("_Entry", bound=Contract)


class Record:
    """The entries, in a directory or bucket. Its methods block, and raise `OSError` or `ChargehandError`."""

    def __init__(self, place: Path | str, encryption: Encryption | None = None) -> None:
        self._files = open_folder(place, FOLDER)
        self._sealed = SealedFiles(self._files, encryption, _PURPOSE)

    def begin_session(self, begun: SessionBegun) -> None:
        self._add(_day(begun.at.date()), _digest(begun.session, begun.run), begun)

    def sessions(self, day: date) -> Iterator[SessionBegun]:
        """Read the sessions that began on a day."""
        for name in self._files.names(_day(day)):
            if begun := self._read(_day(day), name, SessionBegun):
                yield begun

    def take_place(self, ledger: str, place: PlaceTaken) -> None:
        self._add(_places(ledger, place.at.date()), _place(place.session, place.key), place)

    def took_place(self, ledger: str, session: str, key: str, day: date) -> bool:
        """Whether a session took a place on a day or before."""
        return any(
            self._read(_places(ledger, each), _place(session, key), PlaceTaken) is not None for each in _days(day)
        )

    def places(self, ledger: str, day: date, sessions: Collection[str]) -> list[PlaceTaken]:
        """Read the places that were taken on a day, and those that these sessions took before."""
        earlier, found = {_digest(session) for session in sessions}, list[PlaceTaken]()
        for each in _days(day):
            folder = _places(ledger, each)
            for name in self._files.names(folder):
                is_asked = each == day or name.split("-")[0] in earlier
                if is_asked and (place := self._read(folder, name, PlaceTaken)):
                    found.append(place)
        return sorted(found, key=lambda place: place.at)

    def begin_call(self, begun: CallBegun) -> bool:
        """Record that a call is going to be made; False if the attempt of that number is another worker's."""
        return self._add(_folder(begun.session), _call(begun.key, begun.number, "begun"), begun)

    def end_call(self, begun: CallBegun, ended: CallEnded) -> None:
        self._add(_folder(begun.session), _call(begun.key, begun.number, "ended"), ended)

    def last_call(self, session: str, key: str) -> Call | None:
        """Read the last attempt at a call; None if there was none."""
        number, last = 0, None
        while begun := self._read(_folder(session), _call(key, number, "begun"), CallBegun):
            number, last = number + 1, begun
        return last and self._call(last)

    def calls(self, session: str) -> list[Call]:
        """Read the last attempts at all calls of a session, in the order in which they began."""
        keys = {name.split("-")[1] for name in self._files.names(_folder(session)) if name.startswith("call-")}
        calls = [call for key in keys if (call := self.last_call(session, key))]
        return sorted(calls, key=lambda call: call.begun.at)

    def add_charge(self, charge: Charge) -> Sequence[Charge]:
        """Record a charge; return those of the same activity in a history that is gone."""
        number = 0
        while not self._add(_folder(charge.session), _charge(charge.activity, number), charge):
            number += 1
        return self.lost_charges(charge.session, charge.activity, charge.scheduled_at) if number else []

    def lost_charges(self, session: str, activity: Activity, scheduled_at: datetime) -> list[Charge]:
        """Read the charges of an activity that was scheduled at another time, in a history that is gone."""
        number, lost = 0, list[Charge]()
        while charge := self._read(_folder(session), _charge(activity, number), Charge):
            number += 1
            if charge.scheduled_at != scheduled_at:
                lost.append(charge)
        return lost

    def charges(self, session: str) -> list[Charge]:
        return self._all(session, "charge", Charge)

    def book(self, charge: Charge, booker: str) -> bool:
        """Claim a charge of a history that is gone, to book it; False if another has."""
        folder, name, claim = _folder(charge.session), f"booked-{charge_id(charge)}", BookedBy(booker=booker)
        return self._add(folder, name, claim) or self._read(folder, name, BookedBy) == claim

    def is_booked(self, charge: Charge) -> bool:
        """Whether a turn has booked a charge of a history that is gone, or a session was told of it."""
        folder, name = _folder(charge.session), f"booked-{charge_id(charge)}"
        claim = self._read(folder, name, BookedBy)
        return claim is not None and (claim != _TELLING or self._read(folder, f"{name}-told", BookedBy) is not None)

    def begin_telling(self, charge: Charge) -> bool:
        """Claim a charge, to tell a session of it; False if a turn has booked it."""
        return self.book(charge, _TELLING.booker)

    def end_telling(self, charge: Charge) -> None:
        self._add(_folder(charge.session), f"booked-{charge_id(charge)}-told", _TELLING)

    def add_decision(self, decision: Decision) -> None:
        name = f"decision-{_digest(decision.workflow_id, decision.run_id, decision.update_id)}"
        self._add(_folder(decision.session), name, decision)

    def decisions(self, session: str) -> list[Decision]:
        """Read what people have decided, in order."""
        return sorted(self._all(session, "decision", Decision), key=lambda decision: decision.at)

    def _call(self, begun: CallBegun) -> Call:
        ended = self._read(_folder(begun.session), _call(begun.key, begun.number, "ended"), CallEnded)
        return Call(begun, ended and ended.answer)

    def _all(self, session: str, prefix: str, kind: type[_Entry]) -> list[_Entry]:
        folder = _folder(session)
        names = [name for name in self._files.names(folder) if name.startswith(f"{prefix}-")]
        return [entry for name in names if (entry := self._read(folder, name, kind))]

    def _add(self, folder: str, name: str, entry: Contract) -> bool:
        return self._sealed.add(f"{folder}/{name}", entry.model_dump_json().encode())

    def _read(self, folder: str, name: str, kind: type[_Entry]) -> _Entry | None:
        content = self._sealed.read(f"{folder}/{name}")
        return None if content is None else kind.model_validate_json(content)


def charge_id(charge: Charge) -> str:
    """Name a charge: each attempt at an activity is charged once at most."""
    return _digest(*charge.activity, charge.scheduled_at.isoformat(), str(charge.attempt))


def _charge(activity: Activity, number: int) -> str:
    return f"charge-{_digest(*activity)}-{number}"


def _call(key: str, number: int, what: str) -> str:
    return f"call-{key}-{number}-{what}"


def _folder(session: str) -> str:
    return _digest(session)


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
