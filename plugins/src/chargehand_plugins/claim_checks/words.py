"""Words of a text that mark the sides of a subject, months and negations."""

import json
import re
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path
from typing import Final

from workflows.rules.claim_words import languages, not_ended, spoken_in, units

_NUMERIC_DATE: Final = re.compile(
    r"\b(\d{4})-(\d\d)(?:-(\d\d))?\b|\b(\d{1,2})([./])(\d{1,2})(?:\5(\d{2,4})\b|\.(?= [a-zà-ÿ]))"
)
_LAST_MONTH: Final = 12
_PRECIPITATION: Final = re.compile(
    r"\b(?:rain|snow|hail|sleet|regen|schnee|hagel|niederschlag|pluie|neige|grêle|lluvia|nieve|granizo|chuva|neve)\b",
    re.IGNORECASE,
)
_FALLS: Final = re.compile(
    r"\b(?:f[ae]ll\w*|fiel\w*|gefallen|tomb\w+|ca(?:y\w+|en?|ído|iu|íram|i|em))\b", re.IGNORECASE
)
_SENTENCE_END: Final = re.compile(r"(?<=[.!?…;])\s+|\n")
_FULL_STOP: Final = "\0"
_REPEATED: Final = re.compile(r"\b([^\W\d]{3,}) [^\W\d]+ \1\b", re.IGNORECASE)
SUBJECTS: Final = ("direction", "amount", "order", "modality", "extent", "extremes", "verdict", "compass")
"""Subjects in which one word may say the opposite of another."""


def sentences_of(text: str) -> list[str]:
    """Split a text into sentences; `Dr.` and `30. September` do not end one."""
    held = not_ended().sub(lambda match: f"{match[0][:-1]}{_FULL_STOP}", text)
    return [part.replace(_FULL_STOP, ".") for part in _SENTENCE_END.split(held) if part.strip()]


@lru_cache(maxsize=8192)
def sides_of(subject: str, text: str, codes: tuple[str, ...] = ()) -> frozenset[int]:
    """List the sides of a subject that a text mentions: for `direction`, 0 is up, 1 is down and 2 unchanged."""
    if subject == "direction" and _PRECIPITATION.search(text):
        text = _FALLS.sub(" ", text)  # falling rain does not mean a decrease
    spoken = (languages()[code].sides[subject] for code in codes or spoken_in(text))
    return frozenset(side for sides in spoken for side, pattern in enumerate(sides) if pattern.search(text))


@lru_cache(maxsize=8192)
def phrase_in(kind: str, text: str) -> re.Match[str] | None:
    """Find the first phrase of a kind in a text."""
    matches = (languages()[code].phrases[kind].search(text) for code in spoken_in(text))
    return next(filter(None, matches), None)


@lru_cache(maxsize=4096)
def months_of(text: str, codes: tuple[str, ...] = ()) -> frozenset[int]:
    """List the months that a text names, as words of any language or in dates."""
    spoken = map(languages().__getitem__, {*spoken_in(text), *codes})
    calendars = (each.months for each in spoken if each.any_month.search(text))
    named = {int(number) for months in calendars for number, pattern in months.items() if pattern.search(text)}
    return frozenset(named | {int(_parts(date)[1]) for date in _NUMERIC_DATE.finditer(text)})


def without_months(text: str) -> str:
    """Keep only the day and year of numeric dates, as next to the name of a month."""
    return _NUMERIC_DATE.sub(lambda date: " ".join(_parts(date)[::2]), text)


def without_month_names(text: str) -> str:
    for code in spoken_in(text):
        for pattern in languages()[code].months.values():
            text = pattern.sub(" ", text)
    return text


def _parts(date: re.Match[str]) -> tuple[str, str, str]:
    """Return day, month and year of a date; in American dates the month comes first."""
    year, month, day = date[1] or date[7] or "", date[2] or date[6], date[3] or date[4] or ""
    return (month, day, year) if int(month) > _LAST_MONTH else (day, month, year)


@lru_cache(maxsize=4096)
def is_negated(text: str) -> bool:
    """Whether a text denies something: it has a negation or `without`, but not both."""
    negation, without = (bool(words.search(text)) for words in _negations())
    return negation != without


def clauses_of(text: str) -> list[str]:
    """Split a text at commas, and at `and` and `but`."""
    marks = (languages()[code].phrases[kind].pattern for code in spoken_in(text)[:1] for kind in ("but", "also"))
    return re.split(rf"[,;:](?!\d)|{'|'.join(marks)}", text, flags=re.IGNORECASE)


@cache
def each_time() -> re.Pattern[str]:
    """Match how often or how long something happens: `every three months` is no extent."""
    spans = "|".join(words for unit in ("time", "calendar") for words in units()[unit].values())
    return re.compile(rf"\w+ (?:les |los |las )?(?:\w+ )?(?:{spans}|night|nacht|noche|notte)(?!\w)", re.IGNORECASE)


def is_each_time(text: str) -> bool:
    """Whether a text is about all times: `every quarter`, `year by year`, or `von Jahr zu Jahr`."""
    phrases = (match[0] for match in each_time().finditer(text))
    return bool(_REPEATED.search(text)) or any(0 in sides_of("extent", words) for words in phrases)


def without_negations(text: str) -> str:
    negation, without = _negations()
    return negation.sub(" ", without.sub(" ", re.sub(r"\b\w+n[’']t\b", " ", text)))


@cache
def _negations() -> tuple[re.Pattern[str], re.Pattern[str]]:
    words = json.loads(Path(__file__).with_name("negations.json").read_text(encoding="utf-8"))
    whole, anywhere, without = ("|".join(chain(*words[key].values())) for key in ("whole_words", "anywhere", "without"))
    return re.compile(rf"\b(?:{whole})\b|{anywhere}", re.IGNORECASE), re.compile(rf"\b(?:{without})\b", re.IGNORECASE)
