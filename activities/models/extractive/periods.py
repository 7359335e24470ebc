"""Times in a question: days, months, quarters, halves and years, as ranges of dates."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Final, Literal

from activities.models.extractive.wording import word_set

MONTHS: Final = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_MONTH_NUMBERS: Final = {name[:3]: number for number, name in enumerate(MONTHS, 1)}
_MONTH: Final = (
    r"(?P<month>January|February|March|April|May|June|July|August|September|October|November|December"
    r"|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept|Sep|Oct|Nov|Dec)\b\.?"
)
_ORDINALS: Final = {"first": 1, "1st": 1, "second": 2, "2nd": 2, "third": 3, "3rd": 3, "fourth": 4, "4th": 4, "last": 4}
_YEAR: Final = r"(?P<year>(?:19|20)\d\d)(?![\d,.]*\d)"
_OF: Final = r"[\s,]*(?:of\s+|in\s+|/\s*|-\s*)?(?:the\s+year\s+)?"
_LEADING: Final = word_set("in of during since before after until and from to for between by")
_PATTERNS: Final = tuple(
    re.compile(rf"(?<![\w-]){pattern}(?!\w)", re.IGNORECASE)
    for pattern in (
        r"(?P<year>(?:19|20)\d\d)-(?P<number>0[1-9]|1[0-2])-(?P<day>[0-3]\d)",
        rf"(?P<day>[0-3]?\d)(?:st|nd|rd|th)?\s+(?:of\s+)?{_MONTH}[\s,]+{_YEAR}",
        rf"{_MONTH}\s+(?P<day>[0-3]?\d)(?:st|nd|rd|th)?[\s,]+{_YEAR}",
        r"(?P<year>(?:19|20)\d\d)-(?P<number>0[1-9]|1[0-2])(?!-)",
        rf"{_MONTH}{_OF}{_YEAR}",
        rf"{_YEAR}\s+{_MONTH}",
        rf"Q(?P<quarter>[1-4]){_OF}{_YEAR}",
        rf"{_YEAR}[\s-]*Q(?P<quarter>[1-4])",
        rf"(?P<quarter_word>first|1st|second|2nd|third|3rd|fourth|4th|last)\s+quarter{_OF}{_YEAR}",
        rf"H(?P<half>[12]){_OF}{_YEAR}",
        rf"(?P<half_word>first|1st|second|2nd)\s+half{_OF}{_YEAR}",
        r"Q(?P<quarter>[1-4])",
        r"(?P<quarter_word>first|1st|second|2nd|third|3rd|fourth|4th)\s+quarter",
        rf"{_MONTH}",
        _YEAR,
    )
)
_MEASURED: Final = re.compile(
    r"(?:(?:more|less|fewer|higher|lower|greater|longer|larger)\s+than|at\s+(?:least|most)|over|above|below|under|exceed\w*"
    r"|[$€£#>=<]|number|no\.?|id)\s*$",
    re.IGNORECASE,
)
_RELATIVE: Final = re.compile(
    r"\b(?:last|this|next|past|previous|current|coming)\s+(?:\d+\s+)?(?:day|week|month|quarter|year)s?\b|\b(?:today|yesterday"
    r"|tomorrow|(?<!most )recently|so far this year)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Period:
    """A stretch of time: whole dates, or a month or quarter of any year."""

    text: str
    start: int
    end: int
    """Where it stands in the question."""
    since: date | None = None
    before: date | None = None
    """The first day that no longer belongs to it."""
    year: int | None = None
    quarter: int | None = None
    month: int | None = None
    """`year`, `quarter` and `month` as they were said."""


def find_periods(text: str) -> tuple[Period, ...]:
    """Find the times that a question names, ranges put together."""
    found: list[Period] = []
    for pattern in _PATTERNS:
        for match in pattern.finditer(text):
            overlaps = any(match.start() < period.end and period.start < match.end() for period in found)
            if not overlaps and _is_time(match, text):
                found.append(_period(match))
    found.sort(key=lambda period: period.start)
    return tuple(_with_relations(_with_shared_year(found), text))


def find_relative(text: str) -> tuple[tuple[int, int], ...]:
    """Find times that are relative to today, which rules without a clock cannot place."""
    return tuple(match.span() for match in _RELATIVE.finditer(text))


def _is_time(match: re.Match[str], text: str) -> bool:
    said = match.group()
    if said.isdigit():
        return not _MEASURED.search(text[: match.start()])
    if said.lower() in {"may", "march", "mar", "dec", "sep", "jan"}:
        before = re.search(r"(\w+)\W*$", text[: match.start()])
        led = before is not None and before.group(1).lower() in _LEADING
        return said[0].isupper() and (led or said.lower() != "may")
    return True


def _period(match: re.Match[str]) -> Period:
    parts = {name: value for name, value in match.groupdict().items() if value}
    year = int(parts["year"]) if "year" in parts else None
    month = int(parts["number"]) if "number" in parts else _MONTH_NUMBERS.get(parts.get("month", "")[:3].lower())
    quarter_word = parts.get("quarter_word", "").lower()
    quarter = int(parts["quarter"]) if "quarter" in parts else _ORDINALS.get(quarter_word)
    half = int(parts["half"]) if "half" in parts else _ORDINALS.get(parts.get("half_word", "").lower())
    bare = Period(match.group(), match.start(), match.end(), year=year, quarter=quarter, month=month)
    if year is None:
        return bare
    try:
        if "day" in parts:
            day = date(year, month or 1, int(parts["day"]))
            return replace(bare, since=day, before=day + timedelta(days=1), year=None, month=None)
    except ValueError:
        return replace(bare, since=_first(year, month or 1), before=_first(year, (month or 1) + 1))
    first, length = _stretch(month, quarter, half)
    whole = replace(bare, since=_first(year, first), before=_first(year, first + length))
    return replace(whole, year=None) if half else whole


def _stretch(month: int | None, quarter: int | None, half: int | None) -> tuple[int, int]:
    if month:
        return month, 1
    if quarter:
        return quarter * 3 - 2, 3
    if half:
        return half * 6 - 5, 6
    return 1, 12


def _first(year: int, month: int) -> date:
    return date(year + (month - 1) // 12, (month - 1) % 12 + 1, 1)


def _with_shared_year(periods: list[Period]) -> list[Period]:
    """Give `July and August 2025` one year."""
    shared: list[Period] = []
    year: int | None = None
    for period in reversed(periods):
        if period.year:
            year = period.year
        if period.since is None and year is not None and (period.month or period.quarter):
            first, length = _stretch(period.month, period.quarter, None)
            period = replace(  # noqa: PLW2901  # the loop's own value, completed
                period, since=_first(year, first), before=_first(year, first + length), year=year
            )
        shared.append(period)
    return shared[::-1]


_Relation = Literal["since", "after", "before", "until"]
_RELATION_WORDS: Final[dict[_Relation, str]] = {
    "since": "since|starting|starting in|as of|from",
    "after": "after",
    "before": "before|prior to|earlier than",
    "until": "until|till|up to|through|by the end of",
}
_RELATIONS: Final[dict[_Relation, re.Pattern[str]]] = {
    relation: re.compile(rf"\b(?:{words})\s+(?:the\s+|end\s+of\s+|start\s+of\s+)?$", re.IGNORECASE)
    for relation, words in _RELATION_WORDS.items()
}
_RANGE_LEAD: Final = re.compile(r"\b(?:between|from)\s+$", re.IGNORECASE)
_RANGE_MIDDLE: Final = re.compile(r"^\s*(?:and|to|until|till|through|–|-|—)\s*$", re.IGNORECASE)


def _with_relations(periods: list[Period], text: str) -> Iterator[Period]:
    position = 0
    while position < len(periods):
        period = periods[position]
        following = periods[position + 1] if position + 1 < len(periods) else None
        lead = text[: period.start]
        if following and _is_range(period, following, text):
            yield replace(
                period,
                text=text[period.start : following.end],
                end=following.end,
                before=following.before,
                year=None,
                quarter=None,
                month=None,
            )
            position += 2
            continue
        position += 1
        yield _with_relation(period, lead, text) if period.since else period


def _is_range(first: Period, second: Period, text: str) -> bool:
    middle = _RANGE_MIDDLE.search(text[first.end : second.start])
    if not middle or first.since is None or second.before is None:
        return False
    word = middle.group().strip().lower()
    return word != "and" or bool(_RANGE_LEAD.search(text[: first.start]))


def _with_relation(period: Period, lead: str, text: str) -> Period:
    for relation, pattern in _RELATIONS.items():
        if match := pattern.search(lead):
            return _related(period, match, relation, text)
    return period


def _related(period: Period, match: re.Match[str], relation: _Relation, text: str) -> Period:
    start = match.start()
    said = replace(period, text=text[start : period.end], start=start, year=None, quarter=None, month=None)
    if relation == "since":
        return replace(said, before=None)
    if relation == "after":
        return replace(said, since=period.before, before=None)
    if relation == "before":
        return replace(said, since=None, before=period.since)
    return replace(said, since=None)
