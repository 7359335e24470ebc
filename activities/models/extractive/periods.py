"""Periods of time: how a question names them, and how a table's own calendar holds them."""

import calendar
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, NamedTuple

from activities.documents.catalog import Column, Table
from activities.models.extractive.wording import Token, one_line, stems

_YEAR: Final = re.compile(r"(?:19|20)\d\d")
_DAY: Final = re.compile(r"([12]?\d|3[01]|0[1-9])(?:st|nd|rd|th)?")
_ISO: Final = re.compile(r"(\d{4})-(\d\d)(?:-(\d\d))?")
_ORDINALS: Final = {
    **dict.fromkeys(("first", "ersten", "erste", "erstes", "1", "1st"), 1),
    **dict.fromkeys(("second", "zweiten", "zweite", "zweites", "2", "2nd"), 2),
    **dict.fromkeys(("third", "dritten", "dritte", "drittes", "3", "3rd"), 3),
    **dict.fromkeys(("fourth", "vierten", "vierte", "viertes", "4", "4th"), 4),
}
_INSIDE: Final = frozenset({"of"})
_LONGEST: Final = 4
_TIME_WORDS: Final = ("date", "day", "month", "year", "period", "datum", "tag", "monat", "jahr", "zeitraum")
_YEAR_COLUMNS: Final = frozenset({"year", "jahr"})
_MONTH_COLUMNS: Final = frozenset({"month", "monat"})


@dataclass(frozen=True)
class Period:
    """First and last month or day of a period; without a year, of every year."""

    first_year: int | None
    last_year: int | None
    first_month: int | None = None
    last_month: int | None = None
    first_day: int | None = None
    last_day: int | None = None

    @property
    def ends(self) -> tuple[tuple[int, int, int], tuple[int, int, int]] | None:
        """The first and the last day; None without a year."""
        if self.first_year is None or self.last_year is None:
            return None
        last_month = self.last_month or 12
        last_day = self.last_day or calendar.monthrange(self.last_year, last_month)[1]
        return (self.first_year, self.first_month or 1, self.first_day or 1), (self.last_year, last_month, last_day)

    def through(self, last: "Period") -> "Period | None":
        """Reach on to the end of another period; None if that is not clear."""
        if self.first_month is None and last.first_month is not None:
            return None
        first_year = self.first_year or last.first_year
        if (last.last_year is None) != (first_year is None) or (self.first_month and not last.last_month):
            return None
        if (self.first_day is None) != (last.last_day is None):
            return None
        joined = Period(
            first_year, last.last_year, self.first_month, last.last_month, self.first_day, last.last_day
        )
        ends = joined.ends
        in_order = ends[0] < ends[1] if ends else (joined.first_month or 0) < (joined.last_month or 0)
        return joined if in_order and not (ends is None and joined.first_day) else None


def read_period(tokens: Sequence[Token], at: int) -> tuple[Period, int] | None:
    """Read the longest period that begins at a token, and say where it ends."""
    for read in (_numeric, _quarter, _named):
        if found := read(tokens, at):
            return found
    if _YEAR.fullmatch(tokens[at].word):
        return Period(int(tokens[at].word), int(tokens[at].word)), at + 1
    return None


def _numeric(tokens: Sequence[Token], at: int) -> tuple[Period, int] | None:
    if match := _ISO.fullmatch(tokens[at].word):
        parts: tuple[str | None, ...] = match.groups()
    elif match := re.fullmatch(r"(\d\d?)\.(\d\d?)\.(\d{4})", tokens[at].word):
        parts = match.group(3, 2, 1)
    else:
        return None
    year, month, day = (int(part) if part else None for part in parts)
    if year is None or not 1 <= (month or 0) <= 12 or not (day is None or _is_day(year, month or 0, day)):
        return None
    return Period(year, year, month, month, day, day), at + 1


def _is_day(year: int | None, month: int, day: int) -> bool:
    return 1 <= day <= calendar.monthrange(year or 2000, month)[1]


def _quarter(tokens: Sequence[Token], at: int) -> tuple[Period, int] | None:
    number = _ORDINALS.get(tokens[at].word)
    end = at + 1
    if match := re.fullmatch(r"q([1-4])", tokens[at].word):
        number = int(match[1])
    elif end < len(tokens) and tokens[end].word in {"quarter", "quartal", "quartals"}:
        end += 1
    else:
        return None
    if number is None:
        return None
    year, end = _year_after(tokens, end)
    return Period(year, year, 3 * number - 2, 3 * number), end


def _year_after(tokens: Sequence[Token], at: int) -> tuple[int | None, int]:
    """Read a year, also after `of`."""
    place = at + 1 if at < len(tokens) and tokens[at].word in _INSIDE else at
    if place < len(tokens) and _YEAR.fullmatch(tokens[place].word):
        return int(tokens[place].word), place + 1
    return None, at


def _named(tokens: Sequence[Token], at: int) -> tuple[Period, int] | None:
    """Read `March`, `7 March 2025`, `March 7`; other words that are also months are told by how they are written."""
    day, end = _day_at(tokens, at)
    if day and end < len(tokens) and tokens[end].word in _INSIDE:
        end += 1
    month = month_number(tokens[end].text) if end < len(tokens) else None
    if month is None or not _is_meant(tokens, end):
        return None
    end += 1
    if day is None:
        day, end = _day_at(tokens, end)
    year, end = _year_after(tokens, end)
    if day and not _is_day(year, month, day):
        return None
    return Period(year, year, month, month, day, day), end


def _day_at(tokens: Sequence[Token], at: int) -> tuple[int | None, int]:
    match = _DAY.fullmatch(tokens[at].word) if at < len(tokens) else None
    return (int(match[1]), at + 1) if match else (None, at)


def _is_meant(tokens: Sequence[Token], at: int) -> bool:
    """Whether `may` or `march` is the month: with a capital letter, a number beside it or `in` before it."""
    if tokens[at].text[0].isupper():
        return True
    before = tokens[at - 1].word if at else ""
    after = tokens[at + 1].word if at + 1 < len(tokens) else ""
    return before in {"in", "of", "from", "to", "between", "and", "through"} or after.isdigit() or before[:1].isdigit()


@cache
def month_number(text: str) -> int | None:
    """Find which month a word names in any of the languages that are told apart."""
    if not text.isalpha() or len(text) < 3:
        return None
    parsed = _parsed(text)
    return parsed.month if parsed else None


class _Month(NamedTuple):
    year: int | None
    month: int


@cache
def _parsed(text: str) -> _Month | None:
    """Read a value of a column as a month."""
    from dateparser.date import DateDataParser

    if not re.fullmatch(r"[^\W\d_]{3,}\.?(?:[ ./-]+\d{4})?|\d{4}-\d\d", one_line(text)):
        return None
    settings = {"PARSERS": ["absolute-time"], "REQUIRE_PARTS": ["month"]}
    parser = DateDataParser(languages=["en", "de", "fr", "es", "it", "nl", "pt", "sv"], settings=settings)
    found = parser.get_date_data(text)
    if found.date_obj is None or found.period != "month":
        return None
    year = _YEAR.search(text)
    return _Month(int(year[0]) if year else None, found.date_obj.month)


@dataclass(frozen=True)
class Calendar:
    """The one column, or year and month column, by which a table's rows stand in time."""

    days: Column | None = None
    months: Column | None = None
    years: Column | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that make it up."""
        return tuple(column for column in (self.days, self.months, self.years) if column is not None)

    @property
    def has_years(self) -> bool:
        """Whether two rows can be told to be of different years."""
        return self.days is not None or self.years is not None or any(month.year for month in self._by_value().values())

    def _by_value(self) -> dict[str, _Month]:
        return _months(self.months) if self.months else {}

    def year_sql(self) -> str:
        """Write the year of a row in SQL; NULL where rows have none."""
        if self.days:
            return f'year("{self.days.name}")'
        if self.years:
            return f'"{self.years.name}"'
        dated = [f"WHEN {quoted(value)} THEN {month.year}" for value, month in self._by_value().items() if month.year]
        return f'CASE CAST("{self.months.name}" AS VARCHAR) {" ".join(dated)} END' if self.months and dated else "NULL"

    def unit_sql(self, unit: str) -> str:
        """Write the month or year of a row's day in SQL."""
        return f"strftime(\"{self.days.name}\", '{'%Y-%m' if unit == 'month' else '%Y'}')" if self.days else "NULL"

    def condition(self, period: Period, name: Sequence[str]) -> str | None:
        """Write a period in SQL; None if the table cannot hold it. `name` are the words of the table's own name."""
        if self.days:
            return _day_condition(self.days.name, period)
        if period.first_day is not None:
            return None
        if not self.has_years and period.first_year is not None:
            if period.first_year != period.last_year or str(period.first_year) not in name:
                return None
            period = replace(period, first_year=None, last_year=None)
        parts: list[str | None] = []
        if self.years and period.first_year is not None:
            if period.first_month and period.first_year != period.last_year:
                return None
            parts.append(f'"{self.years.name}" BETWEEN {period.first_year} AND {period.last_year}')
        if period.first_month is not None or not self.years:
            parts.append(self._month_condition(period))
        return " AND ".join(part for part in parts if part) if all(part is not None for part in parts) else None

    def _month_condition(self, period: Period) -> str | None:
        """List the values within a period, if none is missing."""
        if self.months is None:
            return None
        first, last = period.first_month or 1, period.last_month or 12
        ends = period.ends if not self.years else None
        within = {
            value: month
            for value, month in self._by_value().items()
            if (ends[0][:2] <= (month.year or 0, month.month) <= ends[1][:2] if ends else first <= month.month <= last)
        }
        wanted = 12 * (ends[1][0] - ends[0][0]) + ends[1][1] - ends[0][1] + 1 if ends else last - first + 1
        found = len({month if ends else month.month for month in within.values()})
        if not within or (period.first_month and found < wanted):
            return None
        return f'CAST("{self.months.name}" AS VARCHAR) IN ({", ".join(map(quoted, within))})'


def _day_condition(column: str, period: Period) -> str | None:
    if period.ends:
        first, last = (f"DATE '{year:04}-{month:02}-{day:02}'" for year, month, day in period.ends)
        return f'CAST("{column}" AS DATE) BETWEEN {first} AND {last}'
    if period.first_day is not None:
        return None
    return f'month("{column}") BETWEEN {period.first_month} AND {period.last_month}'


def calendar_of(table: Table, asked: frozenset[str], language: str) -> Calendar | None:
    """Find the calendar that a question means: `joined` only if it says so, and none if two would do."""
    fitting = [column for column in table.columns if _own_words(column, language) <= asked]
    days = [column for column in fitting if column.type.startswith(("DATE", "TIMESTAMP"))]
    months = [column for column in fitting if column not in days and _months(column)]
    years = [column for column in fitting if is_year(column)]
    if max(len(days), len(months), len(years)) > 1 or not (days or months or years):
        return None
    if days and (months or years):
        return None
    return Calendar(*(found[0] if found else None for found in (days, months, years)))


def _own_words(column: Column, language: str) -> frozenset[str]:
    return frozenset(stems(column.title or column.name, language)) - {
        one for word in _TIME_WORDS for one in stems(word, language)
    }


def is_year(column: Column) -> bool:
    """Whether a column holds the years of its rows."""
    return bool(_YEAR_COLUMNS.intersection(stems(column.title or column.name, "en"))) and column.type == "BIGINT"


def is_time(column: Column) -> bool:
    """Whether a column says when, in whatever way."""
    return column.type.startswith(("DATE", "TIMESTAMP", "TIME")) or is_year(column) or bool(_months(column))


@cache
def _months(column: Column) -> dict[str, _Month]:
    """Read all values of a column as months; empty if one of them is none, or if not all of them are known."""
    if not column.distinct or column.distinct > len(column.examples):
        return {}
    if column.type == "BIGINT":
        is_month = _MONTH_COLUMNS.intersection(stems(column.title or column.name, "en"))
        numbers = [int(value) for value in column.examples] if is_month else [0]
        return {str(value): _Month(None, value) for value in numbers} if set(numbers) <= set(range(1, 13)) else {}
    read = {value: _parsed(value) for value in column.examples} if column.type == "VARCHAR" else {}
    known = {value: month for value, month in read.items() if month}
    return known if len(known) == len(read) and len({bool(month.year) for month in known.values()}) == 1 else {}


def quoted(text: str) -> str:
    """Write a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"
