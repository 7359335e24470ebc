"""Words by which two texts are compared, in seven languages: months, units, opposites, modal verbs. Data, read once.

`claim_words.json` lists them by language as parts of regular expressions; a further language is a further entry.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Final

_WORD: Final = re.compile(r"[^\W\d_]+", re.UNICODE)
_LEAST_COMMON: Final = 2
"""Common words of a language that a text has at least, for it to be in this language."""
_AMBIGUOUS: Final = frozenset({"may", "march", "mars", "mai", "mei", "maart", "marzo", "juin", "mayo"})
"""Months that are other words as well: they count beside a number, or with a capital in the middle of a sentence."""
_BESIDE_NUMBER: Final = r"(?:\d(?:st|nd|rd|th|er|º|\.)?,? (?:of |de |du )?{0}\b|\b{0}\.?,? (?:of |de |del )?\d)"


@dataclass(frozen=True)
class Language:
    """The words of one language."""

    common: frozenset[str]
    letters: frozenset[str]
    """That few other languages have."""
    months: Mapping[str, re.Pattern[str]]
    weekdays: Mapping[str, re.Pattern[str]]
    scales: Mapping[str, str]
    """Factor to the words for it."""
    numbers: Mapping[str, str]
    """Value to the words for it."""
    opposites: Mapping[str, tuple[re.Pattern[str], ...]]
    """For each subject, its sides."""
    modality: tuple[re.Pattern[str], ...]
    """What must be, what may be, and what is advised."""
    fractions: Mapping[str, str]
    """Percentage to the words for it."""
    repeated: Mapping[str, str]
    """How many times, to the words for it."""
    about: str
    """Words before a figure that is rounded."""
    denials: re.Pattern[str]
    """Words that deny, or of which a denial is another way of saying, without being a negation."""
    planned: re.Pattern[str]
    """What is to come, and not done."""
    causes: re.Pattern[str]
    """Anything that may name a cause."""
    claimed_causes: re.Pattern[str]
    """What surely names one."""
    extremes: re.Pattern[str]
    """The most or the least."""
    courtesy: re.Pattern[str]
    """What a greeting, a refusal or a remark to the reader begins with."""
    extent: tuple[re.Pattern[str], ...]
    """All, a part, and none."""


@cache
def _data() -> dict[str, Any]:
    return json.loads(Path(__file__).with_name("claim_words.json").read_text(encoding="utf-8"))


@cache
def languages() -> Mapping[str, Language]:
    """Return all languages that have words here, by their code."""
    return {code: _language(words) for code, words in _data()["languages"].items()}


@cache
def units() -> Mapping[str, str]:
    """Return the words for each unit, in any language."""
    return _data()["units"]


def _language(words: Mapping[str, Any]) -> Language:
    return Language(
        common=frozenset(words["common"]),
        letters=frozenset(words["letters"]),
        months={str(number): _month(name) for number, name in enumerate(words["months"], start=1)},
        weekdays={str(number): _whole(name) for number, name in enumerate(words["weekdays"], start=1)},
        scales=words["scales"],
        numbers=words["numbers"],
        opposites={subject: tuple(map(_whole, sides)) for subject, sides in words["opposites"].items()},
        modality=tuple(map(_whole, words["modality"])),
        fractions=words["fractions"],
        repeated=words["repeated"],
        about=words["about"],
        denials=_whole(words["denials"]),
        planned=_whole(words["planned"]),
        causes=_whole(words["causes"]),
        claimed_causes=_whole(words["claimed_causes"]),
        extremes=_whole(words["extremes"]),
        courtesy=re.compile(rf"(?:{words['courtesy']})(?!\w)", re.IGNORECASE),
        extent=tuple(map(_whole, words["extent"])),
    )


def _whole(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{words})(?!\w)", re.IGNORECASE)


def _month(name: str) -> re.Pattern[str]:
    if name not in _AMBIGUOUS:
        return _whole(name)
    beside = _BESIDE_NUMBER.format(name)
    return re.compile(rf"(?i:{beside})|(?<=\w )(?-i:{name.capitalize()})\b")


@lru_cache(maxsize=4096)
def language_of(text: str) -> str | None:
    """Return the code of the language that a text is in; None if its words do not tell."""
    words = [word.casefold() for word in _WORD.findall(text)]
    letters = set(text.casefold())
    counts = {
        code: sum(word in language.common for word in words) + len(language.letters & letters)
        for code, language in languages().items()
    }
    best = max(counts, key=lambda code: counts[code])
    is_sole = sum(count == counts[best] for count in counts.values()) == 1
    return best if is_sole and counts[best] >= min(_LEAST_COMMON, max(len(words) // 4, 1)) else None


def spoken_in(text: str) -> tuple[str, ...]:
    """Return the code of the language of a text, or all codes if it cannot be told."""
    code = language_of(text)
    return (code,) if code else tuple(languages())


def is_courtesy(text: str) -> bool:
    """Whether a sentence greets, refuses or speaks to the reader, and states no figure."""
    says_nothing = not any(map(str.isdigit, text))
    return says_nothing and any(languages()[code].courtesy.match(text) for code in spoken_in(text))


@lru_cache(maxsize=4096)
def is_negated(text: str) -> bool:
    """Whether a text has a word that negates; a language that negates by an ending of its verbs has none."""
    return bool(_negation().search(text))


@cache
def _negation() -> re.Pattern[str]:
    words = json.loads(Path(__file__).with_name("negations.json").read_text(encoding="utf-8"))
    whole, anywhere = ("|".join(chain(*words[key].values())) for key in ("whole_words", "anywhere"))
    return re.compile(rf"\b(?:{whole})\b|{anywhere}", re.IGNORECASE)
