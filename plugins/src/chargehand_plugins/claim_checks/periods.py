"""Quarters, half-years and seasons, rewritten in the same way for every language. Pure."""

import json
import re
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

from chargehand_plugins.claim_checks.words import months_of

PERIOD: Final = re.compile(r"\b(?:q[1-4]|h[12]|spring|summer|autumn|winter)\b")
"""A period as `with_periods` writes it."""
_ROMAN: Final = ("i", "ii", "iii", "iv")


@lru_cache(maxsize=4096)
def with_periods(text: str) -> str:
    """Write the periods of a text as `q3`, `h1` or `summer`; also `the first` beside `the fourth quarter`."""
    names, ordinals, every = _patterns()
    for name, pattern in names.items() if every.search(text) else ():
        text = pattern.sub(f" {name} ", text)
    kinds = {match[0][0] for match in PERIOD.finditer(text) if match[0][1:].isdigit()}
    for number, pattern in enumerate(ordinals if len(kinds) == 1 else (), start=1):
        text = pattern.sub(f" {min(kinds)}{number} ", text)
    return text


def times_of(title: str) -> list[str]:
    """List the year, and the quarter, half-year, season or month, in the title of a column or row."""
    words = title.replace("_", " ")
    months = sorted(months_in(title))
    return re.findall(r"(?:19|20)\d\d", words) + (
        PERIOD.findall(with_periods(words)) or [f"{month:02}" for month in months][:1]
    )


@lru_cache(maxsize=2048)
def months_in(title: str) -> frozenset[int]:
    """List the months in the title of a column or row, where `may` and `feb` are months."""
    return months_of(" 1 ".join([*title.replace("_", " ").split(), ""]))


@cache
def period_words(kind: str) -> tuple[re.Pattern[str], ...]:
    """Return patterns of words for more and for less: `better`, or for speed `faster`."""
    return tuple(re.compile(rf"(?<!\w)(?:{words})(?!\w)", re.IGNORECASE) for words in _data()[kind])


@cache
def _data() -> dict[str, Any]:
    return json.loads(Path(__file__).with_name("periods.json").read_text(encoding="utf-8"))


@cache
def _patterns() -> tuple[dict[str, re.Pattern[str]], list[re.Pattern[str]], re.Pattern[str]]:
    """Return patterns of each period, of ordinals that may name one without its noun, and of all periods."""
    data = _data()
    words, ordinals = dict(data["names"]), data["ordinals"]
    for kind, most in (("q", 4), ("h", 2)):
        named, letter = data["kinds"][kind], data["letters"][kind]
        for n, (ordinal, roman) in enumerate(zip(ordinals[:most], _ROMAN[:most], strict=True), start=1):
            nth = rf"(?:{ordinal}|{n}(?:st|nd|rd|th|er|ère|e|[.º°ª])?|{roman})[ \u00a0.-]*(?:{named})"
            words[f"{kind}{n}"] = rf"{nth}|(?:{named})[ \u00a0.-]*(?:{n}|{roman})|(?:{letter}){n}|{n}(?:{letter})"
    expressions = {name: rf"(?<![^\W_])(?:{regex})(?![^\W_])|{data['anywhere'][name]}" for name, regex in words.items()}
    ends = rf"(?=\s*(?:[.,;:)]|$|(?:{data['joins']})(?!\w)))"
    bare = [re.compile(rf"(?<!\w)(?:{ordinal}){ends}", re.IGNORECASE) for ordinal in ordinals]
    every = re.compile("|".join(expressions.values()), re.IGNORECASE)
    return {name: re.compile(regex, re.IGNORECASE) for name, regex in expressions.items()}, bare, every
