"""The list of sessions on the command line."""

from datetime import UTC, datetime, timedelta

import pytest

from chargehand.listing import SessionSummary
from chargehand.state_words import STOP_REMEDIES
from chargehand_cli.run_options import BadRequest
from chargehand_cli.verbs.sessions import read_moment, session_lines


def _summary(name: str, minute: int, follows: str = "", **fields: object) -> SessionSummary:
    began = datetime(2026, 11, 22, 12, tzinfo=UTC) + timedelta(minutes=minute)
    known = {"id": name, "state": "completed", "started_at": began, "ended_at": began, "follows": follows}
    return SessionSummary.model_validate(known | fields)


def test_follow_ups_are_listed_below_the_session_they_follow() -> None:
    found = [
        _summary("c", 4, "b", state="running", ended_at=None, step="awaiting_approval", waiting_for="a decision"),
        _summary("other", 3, stop_reason="deadline", cost_usd=0.5, crew="research", goal="What\x1b[2J?"),
        _summary("b", 2, "a"),
        _summary("lost", 1, "gone"),
        _summary("a", 0),
    ]
    lines = [" ".join(line.split()[2:]) for line in session_lines(found)]

    assert lines == [
        "finished a",
        "finished ↳ b",
        "awaiting approval ↳ c",
        "a decision: `chargehand status c`",
        "stopped at its deadline ≥ $0.5000 research other What␛[2J?",
        STOP_REMEDIES["deadline"].partition("Raise the ")[2],
        "finished lost",
    ]


def test_since_accepts_an_age_or_a_date() -> None:
    since = read_moment("2h")

    assert timedelta(hours=2) <= datetime.now(UTC) - since < timedelta(hours=2, minutes=5)
    assert read_moment("2026-11-22") == datetime(2026, 11, 22).astimezone()  # local, as it is typed
    for wrong in ("soon", "999999w", "0001-01-01"):
        with pytest.raises(BadRequest, match=rf"--since: '{wrong}' is neither"):
            read_moment(wrong)
