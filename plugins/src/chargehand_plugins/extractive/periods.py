"""Periods of time: how a question names them, and how the one column that is a table's calendar holds them."""

import calendar
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache, lru_cache
from typing import Final, Literal, NamedTuple

from activities.documents.catalog import Column, Table
from activities.documents.sql_names import quoted_text
from activities.documents.words import words
from chargehand_plugins.extractive.lexicon import empty_words, languages, matches, months, pattern, totals
from chargehand_plugins.extractive.tokens import Token, stems

_YEAR: Final = re.compile(r"(?:19|20)\d\d")
_MONTH: Final = re.compile(r"([^\W\d_]+)\.?(?: ((?:19|20)\d\d))?|((?:19|20)\d\d)-(\d\d)")
_LETTERS: Final = re.compile(r"[^\W\d_]+")
_NOT_DIGITS: Final = re.compile(r"\D+")
_ORDERS: Final = ("%d-%m-%Y", "%m-%d-%Y", "%Y-%m-%d")
_MOST_TOKENS: Final = 6
"""Of one period, such as `the 7th of March of 2024`."""


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
    text = "".join(f"{token.word} " for token in tokens[at : at + _MOST_TOKENS])
    for quarter, form in _forms():
        if match := form.match(text):
            said = match.groupdict()
            is_name = said.get("name") is not None
            is_meant = not is_name or _is_meant(tokens, at + text[: match.start("name")].count(" "))
            period = _period(said, quarter) if is_meant else None
            if period:
                return period, at + match[0].count(" ")
    return None


@cache
def _forms() -> Sequence[tuple[int, re.Pattern[str]]]:
    """Write the forms of a period over words that each end with a blank; those of a quarter with its number."""
    of, names = pattern("of"), "|".join(months())
    year, last = r"(?P<year>(?:19|20)\d\d) ", r"(?:st|nd|rd|th|er)? "
    day, day_after = (rf"(?P<{name}>[12]?\d|3[01]|0[1-9]){last}" for name in ("day", "day_after"))
    in_year = rf"(?:(?:{of} )?{year})?"
    quarters = [
        (number, rf"(?:[qt]{number}|(?:{ordinal}) (?:{pattern('quarter')})) {in_year}")
        for number, ordinal in enumerate(pattern("ordinals").split(";"), start=1)
    ]
    forms = [
        (0, r"(?P<year>\d{4})-(?P<month>\d\d)(?:-(?P<day>\d\d))? "),
        (0, r"(?P<day>\d\d?)\.(?P<month>\d\d?)\.(?P<year>\d{4}) "),
        *quarters,
        (0, rf"(?:{day}(?:{of} )?(?P<name>{names}) {in_year})"),
        (0, rf"(?P<name>{names}) (?:{day_after})?{in_year}"),
        (0, rf"(?:{of} )?{year}"),
    ]
    return [(quarter, re.compile(form)) for quarter, form in forms]


def _period(said: Mapping[str, str | None], quarter: int) -> Period | None:
    year = int(said["year"] or 0) or None
    if quarter:
        return Period(Moment(year, 3 * quarter - 2), Moment(year, 3 * quarter))
    name, number, stated_day = said.get("name"), said.get("month"), said.get("day") or said.get("day_after")
    month = months()[name] if name else int(number) if number else None
    day = int(stated_day) if stated_day else None
    if month and not (1 <= month <= 12 and 1 <= (day or 1) <= calendar.monthrange(year or 2000, month)[1]):
        return None
    return Period(Moment(year, month, day), Moment(year, month, day))


def _is_meant(tokens: Sequence[Token], at: int) -> bool:
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
    """The column by which a table's rows stand in time."""

    column: Column
    unit: Literal["day", "month", "year"]

    @property
    def sql(self) -> str:
        """The column's value; a date written as text is read."""
        return (self.column.type == "VARCHAR" and self.unit == "day" and _date_sql(self.column)) or (
            f'CAST("{self.column.name}" AS DATE)' if self.unit == "day" else f'"{self.column.name}"'
        )

    def condition(self, period: Period, name: frozenset[str], bound: str = "") -> str | None:
        """Write a period in SQL; None if the table cannot hold it. `name` are the words of the table's own name.

        With a `bound`, such as `>`, it is the time on that side of the period.
        """
        (year, month, day), (last_year, _, _) = period
        if self.unit == "year":
            ends = (str(year), str(last_year))
            return _between(self.sql, ends, bound) if year and not month else None
        if self.unit == "month":
            return self._month_condition(period, name, bound) if day is None else None
        if days := period.days:
            return _between(self.sql, (f"DATE '{days[0]}'", f"DATE '{days[1]}'"), bound)
        return None if day or bound else f"month({self.sql}) BETWEEN {month} AND {period.last.month}"

    def _month_condition(self, period: Period, name: frozenset[str], bound: str) -> str | None:
        """List the months of a period, if none is missing; those without a year are of the year in the table's name."""
        first, last = period
        months = _months(_proper(self.column.examples))
        years = {month.year for month in months.values()}
        is_named = first.year == last.year and str(first.year) in name
        if (years == {None} and first.year and not is_named) or (not first.year and len(years) > 1):
            return None
        base = 0 if years == {None} or not first.year else 12

        def place(moment: Moment, month: int) -> int:
            return base * (moment.year or 0) + (moment.month or month)

        low, high = place(first, 1), place(last, 12)
        least, most = {">": (high + 1, None), ">=": (low, None), "<": (None, low - 1), "<=": (None, high)}.get(
            bound, (low, high)
        )
        within = {
            text: at
            for text, month in months.items()
            if (at := place(month, 1)) >= (least or at) and at <= (most if most is not None else at)
        }
        if not within or (not bound and len(set(within.values())) < high - low + 1):
            return None
        return f"{self.sql} IN ({', '.join(map(quoted_text, within))})"


def _between(sql: str, ends: tuple[str, str], bound: str) -> str:
    return f"{sql} {bound} {ends[bound in {'>', '<='}]}" if bound else f"{sql} BETWEEN {ends[0]} AND {ends[1]}"


def calendar_of(table: Table, asked: frozenset[str], language: str) -> Calendar | None:
    """Find the calendar that a question means: `joined` only if it says so, and none if two would do."""
    generic = {stem for word in pattern("time_words").split("|") for stem in stems(word, language)}
    empty = empty_words(language) if language in languages() else frozenset[str]()
    fitting = [
        (Calendar(column, unit), frozenset(stems(column.title or column.name, language)) - generic - empty)
        for column in table.columns
        if (unit := time_unit(column))
    ]
    named = [calendar for calendar, telling in fitting if telling and telling <= asked]
    plain = [calendar for calendar, telling in fitting if not telling]
    found = named or [calendar for calendar in plain if calendar.unit == "day"] or plain
    return found[0] if len(found) == 1 else None


def time_unit(column: Column) -> Literal["day", "month", "year"] | None:
    """Name what a column's values are, if they say when."""
    if column.type.startswith(("DATE", "TIMESTAMP")) or (column.type == "VARCHAR" and _date_sql(column)):
        return "day"
    if column.type == "BIGINT" and (_is_year(column) or all(map(_YEAR.fullmatch, column.examples or ("",)))):
        return "year"
    is_known = column.type == "VARCHAR" and column.distinct <= len(column.examples)
    return "month" if is_known and _months(_proper(column.examples)) else None


def is_series_of(column: Column) -> bool:
    """Whether rows follow each other in the column's months or years, rather than being of a year, such as `built`."""
    return time_unit(column) == "month" or (time_unit(column) == "year" and _is_year(column))


def _is_year(column: Column) -> bool:
    return not {"year", "jahr", "annee", "ano"}.isdisjoint(words((column.title or column.name).replace("_", " ")))


def _proper(examples: Sequence[str]) -> tuple[str, ...]:
    return tuple(value for value in examples if value.lower() not in totals())


def _date_sql(column: Column) -> str:
    """Write how dates that are texts are read; empty if the values are none, or could be read in two ways."""
    return _text_date_sql(column.name, _proper(column.examples))


@lru_cache(maxsize=10_000)
def _text_date_sql(name: str, examples: tuple[str, ...]) -> str:
    values = [value.casefold() for value in examples]
    names = {word: month.month for value in values for word in _LETTERS.findall(value) if (month := parse_month(word))}
    plain = [_NOT_DIGITS.sub("-", _LETTERS.sub(lambda found: str(names.get(found[0], "")), value)) for value in values]
    orders = [order for order in _ORDERS if all(_is_date(value, order) for value in plain)]
    if names and values and values[0][0].isdigit():
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


@lru_cache(maxsize=10_000)
def _months(values: tuple[str, ...]) -> dict[str, Moment]:
    """Read values as months; empty if one of them is none, or if only some have a year."""
    read = {value: month for value in values if (month := parse_month(value))}
    is_alike = len({month.year is None for month in read.values()}) == 1
    return read if len(read) == len(values) and is_alike else {}
