"""Periods of time: how a question names them, and how the one column that is a table's calendar holds them."""

import calendar
import re
from collections.abc import Sequence
from datetime import datetime
from functools import cache, lru_cache
from typing import Final, Literal, NamedTuple

from activities.documents.catalog import Column, Table
from activities.documents.sql_names import quoted_text
from activities.documents.words import words
from chargehand_plugins.extractive.lexicon import BOUNDS, empty_words, marks_at, matches, months, pattern, totals
from chargehand_plugins.extractive.tokens import Token, stems

_YEAR: Final = re.compile(r"(?:19|20)\d\d")
_MONTH: Final = re.compile(r"([^\W\d_]+)\.?(?: ((?:19|20)\d\d))?|((?:19|20)\d\d)-(\d\d)")
_LETTERS: Final = re.compile(r"[^\W\d_]+")
_NOT_DIGITS: Final = re.compile(r"\D+")
_ORDERS: Final = ("%d-%m-%Y", "%m-%d-%Y", "%Y-%m-%d")
_RANGES: Final = {"from": {"to", "until"}, "since": {"to", "until"}, "between": {"and"}, "": {"to", "until"}}
_MOST_TOKENS: Final = 6
"""Of one moment, such as `the 7th of March of 2024`."""
_SOME_YEAR: Final = 2000
"""Stands for the year of months that are written without one; it has a 29 February."""


class Moment(NamedTuple):
    """A year, month or day; None for what is not said."""

    year: int | None
    month: int | None = None
    day: int | None = None


class Period(NamedTuple):
    """From one moment to the end of another, both of them as exact; without a year, in every year."""

    first: Moment
    last: Moment
    side: str = ""
    """The side of it that is meant, as a sign such as `>`; empty for the period itself."""

    def through(self, end: "Period") -> "Period | None":
        """Reach on to the end of another period, which completes this one; None if that is not clear."""
        month = self.first.month or (end.last.month if self.first.day else None)
        first, last = Moment(self.first.year or end.last.year, month, self.first.day), end.last
        alike = [(left is None) == (right is None) for left, right in zip(first, last, strict=True)]
        in_order = [part or 0 for part in first] < [part or 0 for part in last]
        return Period(first, last) if all(alike) and in_order else None

    @property
    def days(self) -> tuple[str, str] | None:
        (year, month, day), (last_year, last_month, last_day), _ = self
        if year is None or last_year is None:
            return None
        last_day = last_day or calendar.monthrange(last_year, last_month or 12)[1]
        return f"{year}-{month or 1:02}-{day or 1:02}", f"{last_year}-{last_month or 12:02}-{last_day:02}"


def read_period(tokens: Sequence[Token], at: int, language: str) -> tuple[Period, int] | None:
    """Read the longest period that begins at a token, such as `from May to June` or `since 2020`, and where it ends."""
    starts = {"": at, **dict(marks_at(tokens, at, language))}
    for opener, closers in _RANGES.items():
        first = _read_moment(tokens, starts[opener], is_begun=True) if opener in starts else None
        ends = [end for mark, end in marks_at(tokens, first[1], language) if mark in closers] if first else []
        last = _read_moment(tokens, ends[0]) if ends else None
        if first and last and (joined := first[0].through(last[0])):
            return joined, last[1]
    for bound, side in BOUNDS.items():
        if bound in starts and (found := _read_moment(tokens, starts[bound])):
            return found[0]._replace(side=side), found[1]
    return _read_moment(tokens, at)


def _read_moment(tokens: Sequence[Token], at: int, *, is_begun: bool = False) -> tuple[Period, int] | None:
    """Read a year, quarter, month or day; a bare number is a day where its month may still follow."""
    text = "".join(f"{token.word} " for token in tokens[at : at + _MOST_TOKENS])
    for quarter, form in _forms()[: None if is_begun else -1]:
        if match := form.match(text):
            said = match.groupdict()
            is_name = said.get("name") is not None
            is_meant = not is_name or _is_month(tokens, at + text[: match.start("name")].count(" "))
            if is_meant and (period := _period(said, quarter)):
                return period, at + match[0].count(" ")
    return None


@cache
def _forms() -> Sequence[tuple[int, re.Pattern[str]]]:
    """Write the forms of a moment over words that each end with a blank; those of a quarter with its number."""
    of, names = pattern("of"), "|".join(months())
    year, last = r"(?P<year>(?:19|20)\d\d) ", r"(?:st|nd|rd|th|er)? "
    day, day_after = (rf"(?P<{name}>[12]?\d|3[01]|0[1-9]){last}" for name in ("day", "day_after"))
    in_year, the = rf"(?:(?:{of} )?{year})?", rf"(?:{pattern('article')} )?"
    quarters = [
        (number, rf"(?:[qt]{number}|{the}(?:{ordinal}) (?:{pattern('quarter')})) {in_year}")
        for number, ordinal in enumerate(pattern("ordinals").split(";"), start=1)
    ]
    forms = [
        (0, r"(?P<year>\d{4})-(?P<month>\d\d)(?:-(?P<day>\d\d))? "),
        (0, r"(?P<day>\d\d?)\.(?P<month>\d\d?)\.(?P<year>\d{4}) "),
        *quarters,
        (0, rf"{the}{day}(?:{of} )?(?P<name>{names}) {in_year}"),
        (0, rf"(?P<name>{names}) (?:{day_after})?{in_year}"),
        (0, rf"(?:{of} )?{year}"),
        (0, rf"{the}{day}"),
    ]
    return [(quarter, re.compile(form)) for quarter, form in forms]


def _period(said: dict[str, str | None], quarter: int) -> Period | None:
    year = int(said.get("year") or 0) or None
    if quarter:
        return Period(Moment(year, 3 * quarter - 2), Moment(year, 3 * quarter))
    name, number, stated_day = said.get("name"), said.get("month"), said.get("day") or said.get("day_after")
    month = months()[name] if name else int(number) if number else None
    day = int(stated_day) if stated_day else None
    if month and not (1 <= month <= 12 and 1 <= (day or 1) <= calendar.monthrange(year or _SOME_YEAR, month)[1]):
        return None
    return Period(Moment(year, month, day), Moment(year, month, day))


def _is_month(tokens: Sequence[Token], at: int) -> bool:
    """Whether `may` or `march` is the month: with a capital letter, a number beside it or `in` before it."""
    beside = [token.word for token in (*tokens[max(0, at - 1) : at], *tokens[at + 1 : at + 2])]
    is_dated = any(word[0].isdigit() for word in beside)
    return tokens[at].text[0].isupper() or is_dated or (at > 0 and matches("before_month", beside[0]))


@lru_cache(maxsize=10_000)
def parse_month(text: str) -> Moment | None:
    """Read a month in any of the languages that are told apart: `March`, `Mär 2025`, `2025-03`."""
    if not (match := _MONTH.fullmatch(text)):
        return None
    name, year, iso_year, number = match.groups()
    month = months().get(words(name)[0]) if name else int(number)
    stated = year or iso_year
    return Moment(int(stated) if stated else None, month) if month in range(1, 13) else None


class Calendar(NamedTuple):
    """A column by which a table's rows stand in time."""

    column: Column
    unit: Literal["day", "month", "year"]
    sql: str
    """A row's day, or the first day of its month or year."""
    months: frozenset[Moment] = frozenset()
    """All months of a column of months."""

    def condition(self, period: Period, name: frozenset[str]) -> str | None:
        """Write a period in SQL; None if the table cannot hold all of it. `name` are the words of the table's name."""
        first, last, side = period
        if self.unit == "month":
            years = {month.year for month in self.months}
            year = years.pop() if len(years) == 1 else first.year
            is_stated = first.year == last.year and str(first.year) in name
            if first.day or (year is None and first.year and not is_stated) or not (year or not years):
                return None
            if year is None or not first.year:
                first, last = (moment._replace(year=year or _SOME_YEAR) for moment in (first, last))
            if not side and self._misses(first, last):
                return None
        if self.unit == "year" and (first.month or not first.year):
            return None
        if days := Period(first, last).days:
            ends = [f"DATE '{day}'" for day in days]
            return (
                f"{self.sql} {side} {ends[side in {'>', '<='}]}" if side else f"{self.sql} BETWEEN {' AND '.join(ends)}"
            )
        return None if first.day or side else f"month({self.sql}) BETWEEN {first.month} AND {last.month}"

    def _misses(self, first: Moment, last: Moment) -> bool:
        """Whether a month of a period is not in the column."""
        low, high = (12 * (moment.year or 0) + (moment.month or month) for moment, month in ((first, 1), (last, 12)))
        return not {12 * (each.year or _SOME_YEAR) + (each.month or 0) for each in self.months}.issuperset(
            range(low, high + 1)
        )


def calendar_of(table: Table, asked: frozenset[str], language: str) -> Calendar | None:
    """Find the calendar that a question means: `joined` only if it says so, and none if two would do."""
    generic = {stem for word in pattern("time_words").split("|") for stem in stems(word, language)}
    fitting = [
        (held, frozenset(stems(column.title or column.name, language)) - generic - empty_words(language))
        for column in table.columns
        if (held := read_calendar(column))
    ]
    named = [held for held, telling in fitting if telling and telling <= asked]
    plain = [held for held, telling in fitting if not telling]
    found = named or [held for held in plain if held.unit == "day"] or plain
    return found[0] if len(found) == 1 else None


@lru_cache(maxsize=10_000)
def read_calendar(column: Column) -> Calendar | None:
    """Read a column as days, months or years; None if its values do not say when."""
    sql, proper = f'"{column.name}"', tuple(value for value in column.examples if value.lower() not in totals())
    if column.type.startswith(("DATE", "TIMESTAMP")):
        return Calendar(column, "day", f"CAST({sql} AS DATE)")
    if column.type == "BIGINT" and (_is_year(column) or all(map(_YEAR.fullmatch, column.examples or ("",)))):
        return Calendar(column, "year", f"make_date({sql}, 1, 1)")
    if column.type != "VARCHAR":
        return None
    if day := _text_day(column.name, proper):
        return Calendar(column, "day", day)
    read = {value: month for value in proper if (month := parse_month(value))}
    is_alike = len({month.year is None for month in read.values()}) == 1
    if len(read) < len(proper) or not is_alike or column.distinct > len(column.examples):
        return None
    cases = (
        f"WHEN {quoted_text(text)} THEN DATE '{each.year or _SOME_YEAR}-{each.month:02}-01'"
        for text, each in read.items()
    )
    return Calendar(column, "month", f"CASE {sql} {' '.join(cases)} END", frozenset(read.values()))


def is_series_of(column: Column) -> bool:
    """Whether rows follow each other in the column's months or years, rather than being of a year, such as `built`."""
    held = read_calendar(column)
    return held is not None and (held.unit == "month" or (held.unit == "year" and _is_year(column)))


def _is_year(column: Column) -> bool:
    return not {"year", "jahr", "annee", "ano"}.isdisjoint(words((column.title or column.name).replace("_", " ")))


def _text_day(name: str, examples: Sequence[str]) -> str:
    """Write how dates that are texts are read; empty if the values are none, or could be read in two ways."""
    values = [value.casefold() for value in examples]
    names = {word: month.month for value in values for word in _LETTERS.findall(value) if (month := parse_month(word))}
    plain = [_NOT_DIGITS.sub("-", _LETTERS.sub(lambda found: str(names.get(found[0], "")), value)) for value in values]
    orders = [order for order in _ORDERS if all(_is_date(value, order) for value in plain)]
    if names and values[0][0].isdigit():
        orders = [order for order in orders if order != "%m-%d-%Y"]
    if not values or len(orders) != 1:
        return ""
    sql = f'lower("{name}")'
    for word, month in sorted(names.items(), key=lambda pair: -len(pair[0])):
        sql = f"replace({sql}, {quoted_text(word)}, '{month}')"
    return f"CAST(try_strptime(regexp_replace({sql}, '[^0-9]+', '-', 'g'), '{orders[0]}') AS DATE)"


def _is_date(text: str, order: str) -> bool:
    try:
        return bool(datetime.strptime(text, order))  # noqa: DTZ007 - a day has no time zone
    except ValueError:
        return False
