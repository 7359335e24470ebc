"""Filters of lists and times of schedules, whatever they contain: one value in a query, or refused by name."""

import re
from calendar import month_abbr, month_name, monthrange
from collections.abc import Coroutine, Mapping
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta, timezone
from itertools import product
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from temporalio.client import Client

from chargehand.client import Chargehand
from chargehand.errors import InvalidInput
from chargehand.listing import sessions_query
from chargehand.schedules import times

_HOSTILE = st.text(st.sampled_from("'\"\\`%_;)( \n\0\u202e\ud800aé") | st.characters(), max_size=60)
_STRING = re.compile(r"'(?:[^'\\]|\\.)*'", re.DOTALL)


@given(st.sampled_from(("crew", "tenant", "thread", "ids")), _HOSTILE)
def test_no_filter_value_escapes_its_quotes_in_a_visibility_query(field: str, word: str) -> None:
    value: Any = (word,) if field == "ids" else word
    plain: Any = ("x",) if field == "ids" else "x"
    if not word.isprintable():
        with pytest.raises(InvalidInput, match=f"{field}: "):
            sessions_query(**{field: value})
        return

    query = sessions_query(**{field: value})

    assert _STRING.sub("''", query) == _STRING.sub("''", sessions_query(**{field: plain}))
    assert _STRING.findall(query)[-1][1:-1].replace("\\'", "'").replace("\\\\", "\\") == word


@pytest.mark.parametrize(
    "filters",
    [
        {"ids": ()},
        {"ids": ("a\n",)},
        {"tenant": "x" * 1_001},
        {"since": datetime.min.replace(tzinfo=timezone(timedelta(hours=5)))},
        {"since": datetime.max.replace(tzinfo=timezone(timedelta(hours=-5)))},
        {"before": datetime.min.replace(tzinfo=timezone(timedelta(hours=5)))},
        {"state": "\x1b[31m" * 1_000},
        {"stat": "running"},
    ],
    ids=str,
)
def test_impossible_filters_are_refused_by_name(filters: Mapping[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refused:
        sessions_query(**filters)

    told = str(refused.value)
    assert (told.partition(":")[0], told.isprintable(), len(told) < 500) == (*filters, True, True)


@pytest.mark.parametrize("id_", ["", " ", ".", "..", ". .", "a/b", "a\nb", "x" * 176])
async def test_an_id_that_cannot_be_part_of_a_url_is_refused(id_: str) -> None:
    """Each session has a page, so its id is one path segment; the error names the field before anything is sent."""
    nowhere = Chargehand(cast("Client", None))
    starts: dict[str, Coroutine[Any, Any, object]] = {
        "session_id": nowhere.start("What?", session_id=id_),
        "conversation_id": nowhere.converse(conversation_id=id_),
    }
    for field, start in starts.items():
        with pytest.raises(InvalidInput, match=f"^{field}: .* cannot be used; give 1 to 175 characters"):
            await start


_NO_CRONS = (
    *("@every 1s", "* * * * * * *", "*/5 * * * * *", "0 2 * * * # @every 1s", "CRON_TZ=X 0 2 * * *", "", "*" * 100_000),
    *("0 2 * *", "0 2 * * *\n", "at night", "\0 * * * *", "\ud800 * * * *"),
)
_NO_ZONES = ("", "../../etc/passwd", "UTC\n", "\0", "\ud800", "x" * 100_000)


@pytest.mark.parametrize(
    ("cron", "zone", "problem"),
    [
        *((cron, None, "cron: give five fields") for cron in _NO_CRONS),
        *(("@daily", zone, "time_zone: give a name") for zone in _NO_ZONES),
    ],
)
def test_a_cron_cannot_start_sessions_more_often_than_every_minute(cron: str, zone: str | None, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        times(cron, None, zone)


@pytest.mark.parametrize("month", range(1, 13))
def test_a_cron_that_never_fires_is_refused(month: int) -> None:
    """Only these are: the first day is after the last day of the month in a leap year."""
    names = (f"{month:02}", month_abbr[month], month_name[month].upper(), f"{month}-{month}", f"{month}/12")
    for day, name in product(range(1, 32), names):
        comes = day <= monthrange(2028, month)[1]
        for cron in (f"0 2 {day} {name} *", f"* * {day},31 {name},{name} *", f"0 2 {day}-31/2 {name} MON"):
            with nullcontext() if comes else pytest.raises(InvalidInput, match="never comes; give a day"):
                times(cron, None, None)


def test_common_schedules_are_accepted() -> None:
    assert times("0 2 * * MON-FRI", None, "Europe/Berlin").time_zone_name == "Europe/Berlin"
    assert times("@daily", None, None).cron_expressions == ["@daily"]
    for every in (timedelta(seconds=59), timedelta(days=-1), timedelta.max):
        with pytest.raises(InvalidInput, match="every: must be"):
            times(None, every, None)
    with pytest.raises(InvalidInput, match="time_zone: belongs to cron"):
        times(None, timedelta(hours=1), "UTC")
    assert sessions_query(since=datetime(2026, 1, 1, tzinfo=UTC)).endswith("StartTime >= '2026-01-01T00:00:00+00:00'")


@pytest.mark.parametrize("schedule_id", ["", " ", "\ud800", "a\n", "x" * 151])
async def test_an_invalid_schedule_id_is_refused(schedule_id: str) -> None:
    chargehand = Chargehand(cast("Client", None))

    with pytest.raises(InvalidInput, match="schedule_id: give 1 to 150"):
        await chargehand.schedule(schedule_id, "What is new?", cron="@daily")
    with pytest.raises(InvalidInput, match="schedule_id: give 1 to 150"):
        await chargehand.unschedule(schedule_id)
