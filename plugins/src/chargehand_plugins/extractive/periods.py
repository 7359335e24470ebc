"""Periods of time in questions, and in the column that is a table's calendar.

A moment is written as in ISO 8601, as precisely as stated: `2024`, `2024-03`, `2024-03-07`, or `03` in any year.
"""

import re
from calendar import monthrange
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache
from typing import Final, NamedTuple

from activities.documents.catalog import Column
from activities.documents.sql_names import quoted_text
from activities.documents.words import words
from chargehand_plugins.extractive import lexicon
from chargehand_plugins.extractive.lexicon import Token

DAY, _MONTHLY, YEARLY, _YEARLESS = len("2024-03-07"), len("2024-03"), len("2024"), len("03")
"""The precision of a calendar."""
_LETTERS: Final = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_YEAR: Final = r"(?:1[6-9]|20)\d\d"
_DAYS: Final = dict.fromkeys(("%d-%m-%Y", "%m-%d-%Y", "%Y-%m-%d"), "%Y-%m-%d")
_ORDERS: Final = {**_DAYS, **dict.fromkeys(("%m-%Y", "%Y-%m"), "%Y-%m"), "%m": "%m"}
"""Formats of texts that are days or months, with their ISO 8601 form."""
_FORMATS: Final = {(0, DAY): "%Y-%m-%d", (0, _MONTHLY): "%Y-%m", (0, YEARLY): "%Y", (5, 5): "%m-%d"}
"""Positions and lengths of the parts of a date."""
_RANGES: Final = {"from": {"to", "until"}, "since": {"to", "until"}, "between": {"and"}, "": {"to", "until"}}
_MOST_TOKENS: Final = 6
"""Maximum tokens of a phrase for one moment, such as `the 7th of March of 2024`."""


class Period(NamedTuple):
    """From one moment to the end of another of the same precision."""

    first: str
    last: str
    side: str = ""
    """A comparison with it, such as `>`; empty for the period itself."""

    @property
    def has_year(self) -> bool:
        return len(self.first or self.last) in {YEARLY, _MONTHLY, DAY}

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
        if bound in starts and (moment := _read_moment(tokens, starts[bound])):
            return moment[0]._replace(side=side), moment[1]
    return _read_moment(tokens, at)


def _join(first: str, last: str) -> Period | None:
    """Build the period between two moments, completing each from the other; None if that is unclear."""
    if first.startswith("day ") and len(last) in {len("03-07"), DAY}:
        first = last[:-2] + first[-2:]
    if Period("", last).has_year and not Period(first, "").has_year:
        first = last[:5] + first
    return Period(first, last) if len(first) == len(last) and first < last else None


def _read_moment(tokens: Sequence[Token], at: int, *, is_begun: bool = False) -> tuple[Period, int] | None:
    """Read a year, quarter, month or day; a bare number is a day if its month may follow."""
    text = "".join(f"{token.word} " for token in tokens[at : at + _MOST_TOKENS])
    for form in _forms()[: None if is_begun else -1]:
        if match := form.match(text):
            groups = {name: value or "" for name, value in match.groupdict().items()}
            is_meant = not groups.get("name") or _is_month(tokens, at + text[: match.start("name")].count(" "))
            if is_meant and (period := _period(groups)):
                return period, at + match[0].count(" ")
    return None


@cache
def _forms() -> Sequence[re.Pattern[str]]:
    """Build patterns of a moment for words that each end with a blank; that of a bare number comes last."""
    of, the = lexicon.pattern("of"), rf"(?:(?:{lexicon.pattern('article')}) )?"
    names = "|".join(lexicon.numbered("months"))
    year, last = rf"(?:(?:{lexicon.pattern('years')}) )?(?P<year>{_YEAR}) ", r"(?:st|nd|rd|th|er)? "
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
    month = lexicon.numbered("months")[said["name"]] if said.get("name") else int(said.get("month") or 0)
    day = int(said.get("day") or said.get("day_after") or 0)
    if month > 12 or (month and day > monthrange(int(said["year"] or 2000), month)[1]):
        return None
    parts = (said.get("year"), f"{month:02}" if month else "", f"{day:02}" if day else "")
    moment = "-".join(filter(None, parts)) if month or not day else f"day {day:02}"
    return Period(moment, moment)


def _is_month(tokens: Sequence[Token], at: int) -> bool:
    """Whether `may` or `march` is the month: capitalised, next to a number, or after `in`."""
    beside = [token.word for token in (*tokens[max(0, at - 1) : at], *tokens[at + 1 : at + 2])]
    is_dated = any(word[0].isdigit() for word in beside)
    return tokens[at].text[0].isupper() or is_dated or (at > 0 and lexicon.matches("before_month", beside[0]))


class Calendar(NamedTuple):
    """A column with the dates of a table's rows: SQL for a row's date, and its precision."""

    date: str
    length: int
    """The length of a moment as a text."""
    moments: frozenset[str] = frozenset()
    """All known moments."""
    is_series: bool = False
    """Whether it makes the rows a time series, unlike a property such as the year `built`."""

    @property
    def text(self) -> str:
        return self.part(0, self.length)

    def condition(self, period: Period, name: frozenset[str]) -> str | None:
        """Convert a period to SQL; None if the table does not cover it. `name` has the words of the table's name."""
        first, last, side = period
        if self.length == _YEARLESS and period.has_year:
            if first[:4] != last[:4] or first[:4] not in name:
                return None
            first, last = first[5:] or "01", last[5:] or "12"
        start = 0 if self.length == _YEARLESS or period.has_year else YEARLY + 1
        if start + len(first) > self.length or (self.is_series and not side and self._misses(first, last, start)):
            return None
        moment, end = self.part(start, len(first)), last if side in {">", "<="} else first
        return f"{moment} {side} '{end}'" if side else f"{moment} BETWEEN '{first}' AND '{last}'"

    def part(self, start: int, length: int) -> str:
        return f"strftime({self.date}, '{_FORMATS.get((start, length), '%m')}')"

    def _misses(self, first: str, last: str, start: int) -> bool:
        """Whether some month of a period has no rows."""
        years = [f"{year}-" for year in range(int(first[:4]), int(last[:4]) + 1)] if first[3:4].isdigit() else [""]
        months = [f"{year}{month:02}" for year in years for month in range(1, 13)]
        held = {moment[start:] for moment in self.moments}
        return bool(held) and any(first <= month <= f"{last}-99" and month not in held for month in months)


def read_calendar(column: Column) -> Calendar | None:
    """Read a column as days, months or years; None if its values are not dates, or are ambiguous."""
    sql, values = f'"{column.name}"', [value.casefold() for value in column.examples]
    values = [value for value in values if value not in lexicon.data()["totals"]]
    is_known = column.distinct <= len(column.examples)
    if column.type.startswith(("DATE", "TIMESTAMP")):
        return Calendar(sql, DAY, frozenset(value[:DAY] for value in values if is_known))
    if column.type == "BIGINT":
        title = words((column.title or column.name).replace("_", " "))
        is_year = not {"year", "jahr", "annee", "ano"}.isdisjoint(title)
        is_held = all(re.fullmatch(_YEAR, value) for value in values) if values else is_year
        date = f"try_strptime(CAST({sql} AS VARCHAR), '%Y')"
        return Calendar(date, YEARLY, is_series=is_year) if is_held else None
    names = _month_names(values)
    readings = _read_texts(values, names) if column.type == "VARCHAR" and values else []
    if len(readings) != 1 or not (is_known or len(readings[0][1][0]) == DAY):
        return None
    [(order, moments)] = readings
    if moments != values:
        sql = f"lower({sql})"
        for word, month in sorted(names.items(), key=lambda pair: -len(pair[0])):
            sql = f"replace({sql}, {quoted_text(word)}, '{month}')"
        sql = f"trim(regexp_replace({sql}, '[^0-9]+', '-', 'g'), '-')"
    length = len(moments[0])
    return Calendar(f"try_strptime({sql}, '{order}')", length, frozenset(moments if is_known else ()), length < DAY)


def _month_names(texts: Sequence[str]) -> dict[str, str]:
    """Map the lower-case names of months in texts, in any known language, and days in words to numbers."""
    names = {word: "-".join(words(word)) for text in texts for word in _LETTERS.findall(text)}
    known = lexicon.numbered("months")
    known = {**lexicon.numbered("days_in_words"), **known} if not known.keys().isdisjoint(names.values()) else {}
    return {word: f"{known[name]:02}" for word, name in names.items() if name in known}


def _read_texts(texts: Sequence[str], names: dict[str, str]) -> list[tuple[str, list[str]]]:
    """List the formats in which all texts are moments, given the names of months."""
    numbered = [_LETTERS.sub(lambda found: names.get(found[0], ""), text) for text in texts]
    plain = [re.sub(r"\D+", "-", text).strip("-") for text in numbered]
    # A month is written without other words, and a number alone is not a month.
    are_months = all(_LETTERS.sub("", text) != text or len(text) == _MONTHLY for text in texts)
    are_months &= all(word in names for text in texts for word in _LETTERS.findall(text))
    found: list[tuple[str, list[str]]] = []
    for order, iso in (_ORDERS if are_months else _DAYS).items():
        # The day comes first before the name of a month, and where points separate the numbers.
        is_american = order.startswith("%m-%d") and texts[0][0].isdigit() and (names or "." in texts[0])
        with suppress(ValueError):
            moments = [datetime.strptime(text, order).strftime(iso) for text in plain]  # noqa: DTZ007 - days
            found += [] if is_american else [(order, moments)]
    return found
