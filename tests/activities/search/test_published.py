"""Dates of publication in one spelling."""

from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime

from hypothesis import given
from hypothesis import strategies as st

from activities.tools.search.engine import iso_date


def test_a_date_is_written_one_way() -> None:
    """ISO 8601, as exactly as the engine said it, in UTC if the zone is known."""
    cases = [
        ("2026-01-02", "2026-01-02"),
        (" 2026-01-02 ", "2026-01-02"),
        ("2026-01", "2026-01"),
        ("2026", "2026"),
        ("2026-01-02T00:00:00", "2026-01-02"),
        ("2026-01-02T10:20:30", "2026-01-02T10:20:30"),
        ("2026-01-02 10:20:30.123456", "2026-01-02T10:20:30"),
        ("2026-01-02T10:20:30Z", "2026-01-02T10:20:30Z"),
        ("2026-01-02T00:20:30+02:00", "2026-01-01T22:20:30Z"),
        ("Fri, 02 Jan 2026 10:20:30 GMT", "2026-01-02T10:20:30Z"),
        ("Fri, 02 Jan 2026 10:20:30 -0500", "2026-01-02T15:20:30Z"),
        ("2 Jan 2026 10:20:30 GMT", "2026-01-02T10:20:30Z"),
    ]
    for stated, iso in cases:
        assert iso_date(stated) == iso


def test_what_is_no_date_is_left_out() -> None:
    """A wrong date is worse than none."""
    no_dates = [
        None, "", " ", "yesterday", "3 days ago", "03/04/2026", "2026-13-01", "2026-02-30",
        "Fri, 32 Jan 2026 1:2:3 GMT", "0001-01-01T00:00:00+23:00", "9" * 10_000,
    ]  # fmt: skip

    assert [stated for stated in no_dates if iso_date(stated) is not None] == []


@given(st.text())
def test_whatever_an_engine_says_is_a_date_or_nothing(stated: str) -> None:
    """No text makes it fail, and what comes out is read back as the same."""
    iso = iso_date(stated)

    assert iso is None or iso_date(iso) == iso


_moments = st.datetimes(datetime(1900, 1, 2), datetime(9000, 1, 1)).map(lambda moment: moment.replace(microsecond=0))  # noqa: DTZ001  # zones are added
_zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(_moments, _zones)
def test_both_spellings_of_a_moment_are_the_same(moment: datetime, zone: timezone) -> None:
    """A feed's date and an ISO date of one moment become one text, which is that moment."""
    zoned = moment.replace(tzinfo=zone)

    assert iso_date(format_datetime(zoned)) == iso_date(zoned.isoformat())
    assert datetime.fromisoformat(iso_date(zoned.isoformat()) or "") == zoned.astimezone(UTC)
