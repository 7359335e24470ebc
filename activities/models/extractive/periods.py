"""Periods of time: how a question names them, and how the one column that is a table's calendar holds them."""

import calendar
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from activities.documents.catalog import Column, Table
from activities.documents.words import LANGUAGES
from activities.models.extractive.wording import Token, stems

_YEAR: Final = re.compile(r"(?:19|20)\d\d")
_DAY: Final = re.compile(r"([12]?\d|3[01]|0[1-9])(?:st|nd|rd|th)?")
_NUMERIC: Final = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d\d)(?:-(?P<day>\d\d))?|(?P<day2>\d\d?)\.(?P<month2>\d\d?)\.(?P<year2>\d{4})"
)
_MONTH_VALUE: Final = re.compile(r"[^\W\d_]{3,}\.?(?: (?:19|20)\d\d)?|(?:19|20)\d\d-\d\d")
_ORDINALS: Final = ("1(st)?|first|erste.?", "2(nd)?|second|zweite.?", "3(rd)?|third|dritte.?", "4(th)?|fourth|vierte.?")
_BEFORE_MONTH: Final = frozenset({"in", "of", "from", "to", "between", "and", "through", "im", "von", "bis", "und"})
_TIME_WORDS: Final = ("date", "day", "month", "year", "period", "datum", "tag", "monat", "jahr", "zeitraum")


class Moment(NamedTuple):
    """A year, month or day; None for what is not said."""

    year: int | None
    month: int | None = None
    day: int | None = None


class Period(NamedTuple):
    """From one moment to the end of another, both of them as exact; without a year, in every year."""

    first: Moment
    last: Moment

    def through(self, end: "Period") -> "Period | None":
        """Reach on to the end of another period; None if that is not clear."""
        first, last = self.first._replace(year=self.first.year or end.last.year), end.last
        alike = [(left is None) == (right is None) for left, right in zip(first, last, strict=True)]
        in_order = [part or 0 for part in first] < [part or 0 for part in last]
        return Period(first, last) if all(alike) and in_order else None

    @property
    def days(self) -> tuple[str, str] | None:
        (year, month, day), (last_year, last_month, last_day) = self
        if year is None or last_year is None:
            return None
        last_day = last_day or calendar.monthrange(last_year, last_month or 12)[1]
        return f"{year}-{month or 1:02}-{day or 1:02}", f"{last_year}-{last_month or 12:02}-{last_day:02}"


def read_period(tokens: Sequence[Token], at: int) -> tuple[Period, int] | None:
    """Read the longest period that begins at a token, and say where it ends."""
    if match := _NUMERIC.fullmatch(tokens[at].word):
        return _moment(at + 1, *(match[name] or match[f"{name}2"] for name in ("year", "month", "day")))
    if found := _quarter(tokens, at) or _named(tokens, at):
        return found
    year, end = _year(tokens, at)
    return (Period(Moment(year), Moment(year)), end) if year else None


def _moment(end: int, *parts: str | int | None) -> tuple[Period, int] | None:
    year, month, day = (int(part) if part else None for part in parts)
    if not month or not 1 <= month <= 12 or not 1 <= (day or 1) <= calendar.monthrange(year or 2000, month)[1]:
        return None
    moment = Moment(year, month, day)
    return Period(moment, moment), end


def _year(tokens: Sequence[Token], at: int) -> tuple[int | None, int]:
    """Read a year, also after `of`."""
    place = at + 1 if at < len(tokens) and tokens[at].word == "of" else at
    is_year = place < len(tokens) and _YEAR.fullmatch(tokens[place].word)
    return (int(tokens[place].word), place + 1) if is_year else (None, at)


def _quarter(tokens: Sequence[Token], at: int) -> tuple[Period, int] | None:
    """Read `Q2`, `second quarter`, `2. Quartal`."""
    word, end = tokens[at].word, at + 1
    if match := re.fullmatch(r"q([1-4])", word):
        number = int(match[1])
    elif end < len(tokens) and tokens[end].word in {"quarter", "quartal", "quartals"}:
        number = next((number for number, form in enumerate(_ORDINALS, 1) if re.fullmatch(form, word)), 0)
        end += 1
    else:
        return None
    year, end = _year(tokens, end)
    return (Period(Moment(year, 3 * number - 2), Moment(year, 3 * number)), end) if number else None


def _named(tokens: Sequence[Token], at: int) -> tuple[Period, int] | None:
    """Read `March`, `7 March 2025`, `March 7`."""
    day, end = _day(tokens, at)
    if day and end < len(tokens) and tokens[end].word == "of":
        end += 1
    month = parse_month(tokens[end].text) if end < len(tokens) and tokens[end].text.isalpha() else None
    if month is None or not _is_meant(tokens, end):
        return None
    day, end = (day, end + 1) if day else _day(tokens, end + 1)
    year, end = _year(tokens, end)
    return _moment(end, year, month.month, day)


def _day(tokens: Sequence[Token], at: int) -> tuple[int | None, int]:
    match = _DAY.fullmatch(tokens[at].word) if at < len(tokens) else None
    return (int(match[1]), at + 1) if match else (None, at)


def _is_meant(tokens: Sequence[Token], at: int) -> bool:
    """Whether `may` or `march` is the month: with a capital letter, a number beside it or `in` before it."""
    beside = [token.word for token in (*tokens[max(0, at - 1) : at], *tokens[at + 1 : at + 2])]
    is_dated = any(word[0].isdigit() for word in beside)
    return tokens[at].text[0].isupper() or is_dated or (at > 0 and beside[0] in _BEFORE_MONTH)


@lru_cache(maxsize=10_000)
def parse_month(text: str) -> Moment | None:
    """Read a month in any of the languages that are told apart: `March`, `Mär 2025`, `2025-03`."""
    if not _MONTH_VALUE.fullmatch(text):
        return None
    from dateparser import parse

    found = parse(text, languages=list(LANGUAGES), settings={"PARSERS": ["absolute-time"], "REQUIRE_PARTS": ["month"]})
    year = _YEAR.search(text)
    return Moment(int(year[0]) if year else None, found.month) if found else None


class Calendar(NamedTuple):
    """The column by which a table's rows stand in time."""

    column: Column
    unit: Literal["day", "month", "year"]

    def condition(self, period: Period, name: frozenset[str]) -> str | None:
        """Write a period in SQL; None if the table cannot hold it. `name` are the words of the table's own name."""
        (year, month, day), (last_year, last_month, _) = period
        column = f'"{self.column.name}"'
        if self.unit == "year":
            return f"{column} BETWEEN {year} AND {last_year}" if year and not month else None
        if self.unit == "month":
            return self._month_condition(period, name) if day is None else None
        if days := period.days:
            return f"CAST({column} AS DATE) BETWEEN DATE '{days[0]}' AND DATE '{days[1]}'"
        return f"month({column}) BETWEEN {month} AND {last_month}" if day is None else None

    def _month_condition(self, period: Period, name: frozenset[str]) -> str | None:
        """List the months of a period, if none is missing; those without a year are of the year in the table's name."""
        first, last = period
        months = _months(self.column.examples)
        years = {month.year for month in months.values()}
        is_named = first.year == last.year and str(first.year) in name
        if (years == {None} and first.year and not is_named) or (not first.year and len(years) > 1):
            return None
        base = 0 if years == {None} or not first.year else 12

        def place(moment: Moment, month: int) -> int:
            return base * (moment.year or 0) + (moment.month or month)

        wanted = range(place(first, 1), place(last, 12) + 1)
        within = {text: place(month, 1) for text, month in months.items() if place(month, 1) in wanted}
        if len(set(within.values())) < len(wanted):
            return None
        return f'"{self.column.name}" IN ({", ".join(map(quoted, within))})'


def calendar_of(table: Table, asked: frozenset[str], language: str) -> Calendar | None:
    """Find the calendar that a question means: `joined` only if it says so, and none if two would do."""
    generic = {stem for word in _TIME_WORDS for stem in stems(word, language)}
    fitting = [
        Calendar(column, unit)
        for column in table.columns
        if (unit := time_unit(column)) and set(stems(column.title or column.name, language)) - generic <= asked
    ]
    return fitting[0] if len(fitting) == 1 else None


def time_unit(column: Column) -> Literal["day", "month", "year"] | None:
    """Name what a column's values are, if they say when."""
    if column.type.startswith(("DATE", "TIMESTAMP")):
        return "day"
    is_year = column.type == "BIGINT" and {"year", "jahr"}.intersection(stems(column.title or column.name, "en"))
    is_known = column.type == "VARCHAR" and column.distinct <= len(column.examples)
    return "year" if is_year else "month" if is_known and _months(column.examples) else None


@lru_cache(maxsize=10_000)
def _months(values: tuple[str, ...]) -> dict[str, Moment]:
    """Read values as months; empty if one of them is none, or if only some have a year."""
    read = {value: month for value in values if (month := parse_month(value))}
    is_alike = len({month.year is None for month in read.values()}) == 1
    return read if len(read) == len(values) and is_alike else {}


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
