"""Periods of time: how a question names them, and how the one column that is a table's calendar holds them.

A moment is written as ISO 8601 does, as far as it is said: `2024`, `2024-03`, `2024-03-07`, and `03` in any year.
"""

import re
from calendar import monthrange
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache, lru_cache
from typing import Final, NamedTuple

from activities.documents.catalog import Column
from activities.documents.sql_names import quoted_text
from activities.documents.words import words
from chargehand_plugins.extractive import lexicon
from chargehand_plugins.extractive.lexicon import Token

_MONTH: Final = re.compile(r"([^\W\d_]+)\.?(?: ((?:19|20)\d\d))?|((?:19|20)\d\d)-(\d\d)")
_YEAR: Final = re.compile(r"(?:19|20)\d\d")
_LETTERS: Final = re.compile(r"[^\W\d_]+")
_ORDERS: Final = ("%d-%m-%Y", "%m-%d-%Y", "%Y-%m-%d")
_RANGES: Final = {"from": {"to", "until"}, "since": {"to", "until"}, "between": {"and"}, "": {"to", "until"}}
_MOST_TOKENS: Final = 6
"""Of one moment, such as `the 7th of March of 2024`."""
DAY, _MONTHLY, _YEARLY, _YEARLESS = len("2024-03-07"), len("2024-03"), len("2024"), len("03")
"""How long the moments of a calendar are."""


class Period(NamedTuple):
    """From one moment to the end of another, both of them as exact."""

    first: str
    last: str
    side: str = ""
    """The side of it that is meant, as a sign such as `>`; empty for the period itself."""

    @property
    def has_year(self) -> bool:
        return len(self.first or self.last) in {_YEARLY, _MONTHLY, DAY}

    @property
    def text(self) -> str:
        return " – ".join(dict.fromkeys((self.first, self.last)))


def read_period(tokens: Sequence[Token], at: int, language: str) -> tuple[Period, int] | None:
    """Read the longest period that begins at a token, such as `from May to June` or `since 2020`, and where it ends."""
    starts = {"": at, **dict(lexicon.marks_at(tokens, at, language))}
    for opener, closers in _RANGES.items():
        first = _read_moment(tokens, starts[opener], is_begun=True) if opener in starts else None
        ends = [end for mark, end in lexicon.marks_at(tokens, first[1], language) if mark in closers] if first else []
        last = _read_moment(tokens, ends[0]) if ends else None
        if first and last and (joined := _join(first[0].first, last[0].last)):
            return joined, last[1]
    for bound, side in lexicon.BOUNDS.items():
        if bound in starts and (found := _read_moment(tokens, starts[bound])):
            return found[0]._replace(side=side), found[1]
    return _read_moment(tokens, at)


def _join(first: str, last: str) -> Period | None:
    """Reach from one moment to another, which completes it; None if that is not clear."""
    if first.startswith("day ") and len(last) in {len("03-07"), DAY}:
        first = last[:-2] + first[-2:]
    if Period("", last).has_year and not Period(first, "").has_year:
        first = last[:5] + first
    return Period(first, last) if len(first) == len(last) and first < last else None


def _read_moment(tokens: Sequence[Token], at: int, *, is_begun: bool = False) -> tuple[Period, int] | None:
    """Read a year, quarter, month or day; a bare number is a day where its month may still follow."""
    text = "".join(f"{token.word} " for token in tokens[at : at + _MOST_TOKENS])
    for form in _forms()[: None if is_begun else -1]:
        if match := form.match(text):
            said = {name: value or "" for name, value in match.groupdict().items()}
            is_meant = not said.get("name") or _is_month(tokens, at + text[: match.start("name")].count(" "))
            if is_meant and (period := _period(said)):
                return period, at + match[0].count(" ")
    return None


@cache
def _forms() -> Sequence[re.Pattern[str]]:
    """Write the forms of a moment over words that each end with a blank; last that of a bare number."""
    of, names, the = lexicon.pattern("of"), "|".join(lexicon.months()), rf"(?:(?:{lexicon.pattern('article')}) )?"
    year, last = r"(?P<year>(?:19|20)\d\d) ", r"(?:st|nd|rd|th|er)? "
    day, day_after = (rf"(?P<{name}>[12]?\d|3[01]|0[1-9]){last}" for name in ("day", "day_after"))
    in_year = rf"(?:(?:{of} )?{year})?"
    ordinals = "|".join(f"(?P<q{at}>{text})" for at, text in enumerate(lexicon.pattern("ordinals").split(";"), start=1))
    forms = [
        r"(?P<year>\d{4})-(?P<month>\d\d)(?:-(?P<day>\d\d))? ",
        r"(?P<day>\d\d?)\.(?P<month>\d\d?)\.(?P<year>\d{4}) ",
        rf"(?:[qt](?P<quarter>[1-4])|{the}(?:{ordinals}) (?:{lexicon.pattern('quarter')})) {in_year}",
        rf"{the}{day}(?:{of} )?(?P<name>{names}) {in_year}",
        rf"(?P<name>{names}) (?:{day_after})?{in_year}",
        rf"(?:{of} )?{year}",
        rf"{the}{day}",
    ]
    return [re.compile(form) for form in forms]


def _period(said: dict[str, str]) -> Period | None:
    year = f"{said['year']}-" if said.get("year") else ""
    quarter = said.get("quarter") or "".join(str(at) for at in range(1, 5) if said.get(f"q{at}"))
    if quarter:
        return Period(f"{year}{3 * int(quarter) - 2:02}", f"{year}{3 * int(quarter):02}")
    month = lexicon.months()[said["name"]] if said.get("name") else int(said.get("month") or 0)
    day = int(said.get("day") or said.get("day_after") or 0)
    if month > 12 or (month and day > monthrange(int(said["year"] or 2000), month)[1]):
        return None
    parts = (said.get("year"), f"{month:02}" if month else "", f"{day:02}" if day else "")
    moment = "-".join(filter(None, parts)) if month or not day else f"day {day:02}"
    return Period(moment, moment)


def _is_month(tokens: Sequence[Token], at: int) -> bool:
    """Whether `may` or `march` is the month: with a capital letter, a number beside it or `in` before it."""
    beside = [token.word for token in (*tokens[max(0, at - 1) : at], *tokens[at + 1 : at + 2])]
    is_dated = any(word[0].isdigit() for word in beside)
    return tokens[at].text[0].isupper() or is_dated or (at > 0 and lexicon.matches("before_month", beside[0]))


@lru_cache(maxsize=10_000)
def parse_month(text: str) -> str:
    """Read a month in any of the languages that are told apart: `March`, `Mär 2025`, `2025-03`; empty if it is none."""
    if not (match := _MONTH.fullmatch(text)):
        return ""
    name, year, iso_year, digits = match.groups()
    month = lexicon.months().get(words(name)[0], 0) if name else int(digits)
    return "-".join(filter(None, (year or iso_year, f"{month:02}"))) if 1 <= month <= 12 else ""


class Calendar(NamedTuple):
    """A column by which a table's rows stand in time."""

    column: Column
    sql: str
    """A row's moment."""
    length: int
    """Of each moment."""
    months: frozenset[str] = frozenset()
    """All moments of a column of months."""

    def condition(self, period: Period, name: frozenset[str]) -> str | None:
        """Write a period in SQL; None if the table cannot hold all of it. `name` are the words of the table's name."""
        first, last, side = period
        if self.length == _YEARLESS and period.has_year:
            if first[:4] != last[:4] or first[:4] not in name:
                return None
            first, last = first[5:] or "01", last[5:] or "12"
        start = 6 if self.length != _YEARLESS and not period.has_year else 1
        if start - 1 + len(first) > self.length or (self.months and not side and self._misses(first, last, start)):
            return None
        moment = self.sql if start == 1 else self.part(start, len(first))
        if start == 1:  # the whole column, so that a source names the period and no part of a text
            first, last = _pad(first, self.length, month=1), _pad(last, self.length, month=12)
        end = last if side in {">", "<="} else first
        return f"{moment} {side} '{end}'" if side else f"{moment} BETWEEN '{first}' AND '{last}'"

    @property
    def is_series(self) -> bool:
        """Whether rows follow each other in its months or years, rather than being of a year, such as `built`."""
        return bool(self.months) or (self.length == _YEARLY and _is_year(self.column))

    def part(self, start: int, length: int) -> str:
        return f"substr(CAST({self.sql} AS VARCHAR), {start}, {length})"

    def _misses(self, first: str, last: str, start: int) -> bool:
        """Whether there are no rows of a month of a period."""
        years = [f"{year}-" for year in range(int(first[:4]), int(last[:4]) + 1)] if first[3:4].isdigit() else [""]
        months = [f"{year}{month:02}" for year in years for month in range(1, 13)]
        held = {moment[start - 1 :] for moment in self.months}
        return any(first <= month <= f"{last}-99" and month not in held for month in months)


def _pad(moment: str, length: int, *, month: int) -> str:
    """Write the first or last month and day of a moment, as far as a calendar has them."""
    if len(moment) == _YEARLY < length:
        moment = f"{moment}-{month:02}"
    if len(moment) == _MONTHLY < length:
        days = monthrange(int(moment[:4]), int(moment[5:]))[1]
        moment = f"{moment}-{1 if month == 1 else days:02}"
    return moment


def read_calendar(column: Column) -> Calendar | None:
    """Read a column as days, months or years; None if its values do not say when."""
    sql, proper = f'"{column.name}"', tuple(value for value in column.examples if value.lower() not in lexicon.totals())
    if column.type.startswith(("DATE", "TIMESTAMP")):
        return Calendar(column, sql if column.type == "DATE" else f"CAST({sql} AS DATE)", DAY)
    if column.type == "BIGINT" and (
        _is_year(column) or all(re.fullmatch("(19|20)..", value) for value in proper or "-")
    ):
        return Calendar(column, f"CAST({sql} AS VARCHAR)", _YEARLY)
    if column.type != "VARCHAR" or not proper:
        return None
    if day := _text_day(column.name, proper):
        return Calendar(column, day, DAY)
    read = {value: parse_month(value) for value in proper}
    lengths = set(map(len, read.values()))
    if 0 in lengths or len(lengths) > 1 or column.distinct > len(column.examples):
        return None
    cases = " ".join(f"WHEN {quoted_text(text)} THEN '{moment}'" for text, moment in read.items())
    is_plain = all(text == moment for text, moment in read.items())
    return Calendar(column, sql if is_plain else f"CASE {sql} {cases} END", lengths.pop(), frozenset(read.values()))


def _is_year(column: Column) -> bool:
    return not {"year", "jahr", "annee", "ano"}.isdisjoint(words((column.title or column.name).replace("_", " ")))


@lru_cache(maxsize=10_000)
def _text_day(name: str, examples: Sequence[str]) -> str:
    """Write how dates that are texts are read; empty if the values are none, or could be read in two ways."""
    values = [value.casefold() for value in examples]
    names = {word: month[-2:] for value in values for word in _LETTERS.findall(value) if (month := parse_month(word))}
    plain = [re.sub(r"\D+", "-", _LETTERS.sub(lambda found: names.get(found[0], ""), value)) for value in values]
    orders: list[str] = []
    for order in _ORDERS:
        with suppress(ValueError):
            orders += [order] if [datetime.strptime(value, order) for value in plain] else []  # noqa: DTZ007 - days
    if names and values[0][0].isdigit():
        orders = [order for order in orders if order != "%m-%d-%Y"]
    if len(orders) != 1:
        return ""
    sql = f'lower("{name}")'
    for word, month in sorted(names.items(), key=lambda pair: -len(pair[0])):
        sql = f"replace({sql}, {quoted_text(word)}, '{month}')"
    return f"strftime(try_strptime(regexp_replace({sql}, '[^0-9]+', '-', 'g'), '{orders[0]}'), '%Y-%m-%d')"
