"""Words for comparing two texts in eight languages: months, units, directions, modal verbs. Data, loaded once.

`claim_words.json` lists them by language as parts of regular expressions; add an entry to add a language.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

TOKEN: Final = re.compile(r"[^\W_]+", re.UNICODE)
"""A word or a number."""
_UNSPACED: Final = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_STEM: Final = 5
_WORD: Final = re.compile(r"[^\W\d_]+", re.UNICODE)
_LEAST_COMMON: Final = 2
"""Minimum number of a language's common words in a text for the text to count as this language."""
_MOST_COURTESIES: Final = 8
"""Maximum courtesies in one sentence; a sentence with more counts as a statement."""
_AMBIGUOUS: Final = frozenset({"may", "march", "mars", "mai", "mayo"})
"""Months that are also other words; they count next to a number, or capitalised inside a sentence."""
_BESIDE_NUMBER: Final = r"(?:\d(?:st|nd|rd|th|er|º|\.)?,? (?:of |de |du )?{0}\b|\b{0}\.?,? (?:of |de |del )?\d)"


@dataclass(frozen=True)
class Language:
    """The words of one language."""

    common: frozenset[str]
    letters: frozenset[str]
    """Letters that few other languages have."""
    any_month: re.Pattern[str]
    months: Mapping[str, re.Pattern[str]]
    scales: Mapping[str, str]
    """Words by factor; languages without other words here come last."""
    numbers: Mapping[str, str]
    """Words by value; `50 percent` and `2 times` have separate units."""
    sides: Mapping[str, tuple[re.Pattern[str], ...]]
    """Opposites by subject: up and down, more and less, before and after, must and may, all and some."""
    alternatives: tuple[tuple[re.Pattern[str], ...], ...]
    """Mutually exclusive words: bought and sold, the seasons, the days of the week."""
    phrases: Mapping[str, re.Pattern[str]]
    """Words that deny without a negation, and words for plans."""
    courtesy: re.Pattern[str]
    """Beginnings of greetings, refusals and remarks to the reader."""
    greeting: re.Pattern[str]
    """A greeting with the name that it addresses, up to the comma."""
    turn: re.Pattern[str]
    """Punctuation or conjunction that ends a courtesy within a sentence."""


@cache
def _data() -> dict[str, Any]:
    return json.loads(Path(__file__).with_name("claim_words.json").read_text(encoding="utf-8"))


@cache
def languages() -> Mapping[str, Language]:
    """Return all supported languages by code."""
    return {code: _language(words) for code, words in _data()["languages"].items()}


@cache
def units() -> Mapping[str, Mapping[str, str]]:
    """Return the units by dimension: the size of each, and its words in any language."""
    return _data()["units"]


@cache
def not_ended() -> re.Pattern[str]:
    """Match a full stop that does not end a sentence: abbreviations, initials, `31.` before a month or a span."""
    months = [month for words in _data()["languages"].values() for month in words["months"]]
    dated = "|".join([*months, *units()["calendar"].values()]).replace("/", "|")
    short = "|".join(month.partition("/")[2] for month in months if "/" in month)
    return re.compile(
        rf"(?:(?<!\w)(?:{_data()['abbreviations']})|(?<!\d)[\s(]\w|\w\.\w)\.(?=\s)"
        rf"|(?<!\w)(?:{_data()['numbered']}|(?i:{short}))\.(?=\s\d)"
        rf"|\b\d{{1,2}}\.(?=\s+(?:[a-zß-ÿ]|(?i:{dated})(?!\w)))"
    )


def _language(words: Mapping[str, Any]) -> Language:
    greeting, but, also = words["greeting"], words["phrases"]["but"], words["phrases"]["also"]
    compiled: dict[str, Any] = {
        "common": frozenset(words["common"]),
        "letters": frozenset(words["letters"]),
        "scales": {**words["scales"], **_data()["scales"]},
        "any_month": _whole("|".join(words["months"]).replace("/", "|")),
        "months": {str(number): _month(name) for number, name in enumerate(words["months"], start=1)},
        "sides": {subject: tuple(map(_whole, sides)) for subject, sides in words["sides"].items()},
        "alternatives": tuple(tuple(map(_whole, group)) for group in words["alternatives"]),
        "phrases": {kind: _whole(phrases) for kind, phrases in words["phrases"].items()},
        "courtesy": re.compile(rf"(?:{greeting}|{words['courtesy']})(?!\w)", re.IGNORECASE),
        "greeting": re.compile(rf"(?:{greeting})(?!\w)[^,;:!–—]*,\s+(?:(?:{but}|{also})\s+)?", re.IGNORECASE),
        "turn": re.compile(rf"[;:!–—]\s+|,?\s+(?:{but})\s+", re.IGNORECASE),
    }
    return Language(**{**words, **compiled})


@cache
def _whole(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{words})(?!\w)", re.IGNORECASE)


def _month(names: str) -> re.Pattern[str]:
    """Match a month's name, and its abbreviation beside a number."""
    name, _, short = names.partition("/")
    beside = "|".join(_BESIDE_NUMBER.format(f"(?:{each})") for each in (name, short) if each)
    inside = rf"(?<=\w ){name.capitalize()}\b" if name in _AMBIGUOUS else rf"(?i:(?<!\w)(?:{name})(?!\w))"
    return re.compile(rf"(?i:{beside})|{inside}")


@lru_cache(maxsize=4096)
def language_of(text: str) -> str | None:
    """Detect the language of a text; None if its words do not determine it."""
    words = [word.casefold() for word in _WORD.findall(text)]
    letters = set(text.casefold())
    counts = {
        code: sum(word in language.common for word in words) + len(language.letters & letters)
        for code, language in languages().items()
    }
    best = max(counts, key=lambda code: counts[code])
    is_sole = sum(count == counts[best] for count in counts.values()) == 1
    return (
        best if is_sole and counts[best] >= max(min(_LEAST_COMMON, max(len(words) // 4, 1)), len(words) // 6) else None
    )


def spoken_in(text: str, context: str = "") -> tuple[str, ...]:
    """Return the language of a text, or else of its context; all languages if neither can be detected."""
    code = language_of(text) or language_of(context)
    return (code,) if code else tuple(languages())


def is_courtesy(text: str) -> bool:
    """Return whether a sentence only greets, refuses or addresses the reader, stating no fact or figure."""
    is_polite = any(_is_polite(text, languages()[code]) for code in spoken_in(text))
    return is_polite and not has_number(text, but="1")  # an article in many languages


def _is_polite(text: str, language: Language) -> bool:
    """Return whether a text consists of courtesies and names, none of which reports what was not found."""
    for _ in range(_MOST_COURTESIES):
        if not language.courtesy.match(text) or language.phrases["found"].search(text):
            return False
        end = language.greeting.match(text) or language.turn.search(text)
        text = text[end.end() :] if end else ""
        if not text or text.istitle():
            return True
    return False


def has_number(text: str, *, but: str = "") -> bool:
    """Return whether a text has a figure or a number word, except those of one number."""
    numbers = (each for code in spoken_in(text) for each in languages()[code].numbers.items())
    return any(map(str.isdigit, text)) or any(each != but and _whole(words).search(text) for each, words in numbers)


def month_names(number: int) -> str:
    """Return the names of a month in all languages, as alternatives of a regular expression."""
    return "|".join(words["months"][number - 1].partition("/")[0] for words in _data()["languages"].values())


@lru_cache(maxsize=2048)
def content(text: str) -> frozenset[str]:
    """List the stems of a text's content words; for scripts without spaces, its character pairs."""
    common = frozenset(word for code in spoken_in(text) for word in languages()[code].common)
    words = [match[0] for match in TOKEN.finditer(text) if match[0].casefold() not in common]
    return frozenset(
        part for word in words for part in (_pairs(word) if _UNSPACED.search(word) else [word.casefold()[:_STEM]])
    )


def covered(mine: frozenset[str], theirs: frozenset[str]) -> float:
    """Compute the share of words that also occur among the others."""
    return len(mine & theirs) / len(mine) if mine else 0.0


def shared(mine: frozenset[str], theirs: frozenset[str]) -> float:
    """Compute the share of the shorter list of words that also occurs in the other."""
    return max(covered(mine, theirs), covered(theirs, mine))


def _pairs(word: str) -> list[str]:
    return [word[at : at + 2] for at in range(len(word) - 1)]
