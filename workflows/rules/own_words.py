"""Which values of a tool call are the user's own words, in the spellings that tools accept.

Such a value is one piece of what the user said, in one of a few spellings. Each spelling is a function of the piece, so
that nothing can be encoded in it: a value reveals only which piece was chosen, and in which spelling.
"""

import re
from collections.abc import Collection, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import islice
from typing import Final

from pydantic import JsonValue

from workflows.rules.claim_words import TOKEN, month_names

_STRAIGHT: Final = str.maketrans(
    {**dict.fromkeys("‘’‚", "'"), **dict.fromkeys("“”„", '"'), **dict.fromkeys("–—‑", "-")}
)
_AND: Final = r"(?:(?:and|und|et|y|e|en|&)\s+)"
_BETWEEN: Final = re.compile(rf"(?<!\s)(?:\s*[,;]\s*{_AND}?|\s+{_AND}|\s*\n\s*(?:[-*•]\s+)?)")
"""Separators of list items; items contain none, so that a piece can be split in only one way."""
_MOST_ITEMS: Final = 20
_CODE: Final = re.compile(r"(?=.*\d)\+?[A-Za-z0-9]{2,40}")
_FIGURE: Final = re.compile(r"(?<![^\W_])\d{1,15}(?:[.,'’\s]\d{1,15}){0,5}(?![^\W_])")
_MOST_FIGURES: Final = 500
_THOUSANDS: Final = re.compile(r"\d{1,3}(?:\D\d{3})+")
_MOMENT: Final = re.compile(r"(?:(\d{4})-(\d\d)-(\d\d)(?:$|T(?=.)))?(?:(\d\d):(\d\d)(?::00)?)?", re.ASCII)


def is_own(value: JsonValue, said: Collection[str]) -> bool:
    """Return whether a value is empty, a piece of the user's words, or a list of consecutive pieces."""
    match value:
        case None | "" | [] | bool() | dict():
            return value in (None, "", [], {})
        case [str() | int() | float() as item] if not isinstance(item, bool):
            return is_own(item, said)
        case list():
            items = [
                item for item in value[:_MOST_ITEMS] if isinstance(item, str) and item and not _BETWEEN.search(item)
            ]
            return len(items) == len(value) and any(_are_listed(items, text) for text in said)
        case _:
            written = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
            return any(_is_piece(written, text) for text in said)


def _is_piece(value: str, text: str) -> bool:
    if len(value) > len(text) + len("https://"):
        return False
    return (
        any(_stands(spelled, words) for spelled in _beginnings(value) for words in _spellings(text))
        or value in _figures(text)
        or _stands_apart(value, text)
        or _is_moment(value, text)
    )


def _beginnings(value: str) -> Sequence[str]:
    """List the spellings of a value: itself, with its first letter in the other case, or without `https://`."""
    return (value, value[:1].swapcase() + value[1:], value.removeprefix("https://"))


@lru_cache(maxsize=64)
def _spellings(text: str) -> Sequence[str]:
    """Return a text unchanged; with straight quotes and single spaces; and that in lower case."""
    plain = " ".join(text.translate(_STRAIGHT).split())
    return (text, plain, plain.lower())


def _stands(value: str, text: str) -> bool:
    """Return whether a value occurs in a text as whole words; `in` is linear even for repetitive texts."""
    return value in text and _by_words(value) in _by_words(text)


def _by_words(text: str) -> str:
    return TOKEN.sub("\0\\g<0>\0", text)


def _are_listed(items: Sequence[str], text: str) -> bool:
    """Return whether items are consecutive in a text, separated only as in a list."""
    begins = re.finditer(rf"(?<![^\W_]){re.escape(items[0])}", text)
    return any(_follow(items, text, match.start()) for match in begins)


def _follow(items: Sequence[str], text: str, at: int) -> bool:
    for item in items[:-1]:
        between = _BETWEEN.match(text, at + len(item)) if text.startswith(item, at) else None
        if between is None:
            return False
        at = between.end()
    return text.startswith(items[-1], at) and not TOKEN.match(text, at + len(items[-1]))


def _stands_apart(value: str, text: str) -> bool:
    """Return whether an account or telephone number occurs in a text with its spaces and dashes."""
    apart = r"[ ./()-]{0,2}".join(map(re.escape, value)) if _CODE.fullmatch(value) else ""
    return bool(apart and re.search(rf"(?<![^\W_]){apart}(?![^\W_])", text))


@lru_cache(maxsize=64)
def _figures(text: str) -> Collection[str]:
    """Parse the first figures of a text, with their thousands and decimal separators."""
    figures = set[str]()
    for written in {match[0] for match in islice(_FIGURE.finditer(text), _MOST_FIGURES)}:
        *whole, last = re.split(r"\D", written)
        readings = {"".join([*whole, last])} if _THOUSANDS.fullmatch(written) else set[str]()
        if whole and written[-len(last) - 1] in ".,":
            readings.add(f"{''.join(whole)}.{last}")
        figures |= readings | {f"{Decimal(each).normalize():f}" for each in readings}
    return figures


def _is_moment(value: str, text: str) -> bool:
    """Return whether a text states this date, time, or date and time."""
    match = _MOMENT.fullmatch(value)
    if not value or match is None:
        return False
    year, month, day, hour, minute = match.groups()
    named = rf"(?:{_days(year, int(month), int(day))})" if year else ""
    named += ",? (?:at |um |à |alle |om )?" if year and hour else ""
    named += rf"(?:{_times(int(hour), minute)})" if hour else ""
    return bool(re.search(rf"(?<!\w){named}(?!\w)", _spellings(text)[1], re.IGNORECASE))


def _days(year: str, month: int, day: int) -> str:
    name, number = rf"(?:{month_names(month)})" if 1 <= month <= 12 else "$^", rf"0?{day}(?:st|nd|rd|th|er|º|\.)?"
    written = rf"{number} (?:of |de )?{name},?(?: de)? {year}|{name} {number},? {year}|{year}-{month:02}-{day:02}"
    return rf"{written}|0?{day}[./]0?{month}[./]{year}|0?{month}/0?{day}/{year}"


def _times(hour: int, minute: str) -> str:
    minutes = rf"(?:[:.]{minute}){'?' if minute == '00' else ''}"
    return rf"0?{hour}[:.]{minute}|0?{hour % 12 or 12}{minutes} ?{'am' if hour < 12 else 'pm'}"
