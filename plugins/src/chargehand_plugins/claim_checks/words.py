"""Which sides of a subject, months and negations a text has words for."""

import json
import re
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path
from typing import Final

from workflows.rules.claim_words import languages, spoken_in

_NUMERIC_DATE: Final = re.compile(r"\b\d{4}-(\d\d)(?:-\d\d)?\b|\b\d{1,2}[./](\d{1,2})[./]\d{2,4}\b")


@lru_cache(maxsize=8192)
def sides_of(subject: str, text: str, codes: tuple[str, ...] = ()) -> frozenset[int]:
    """List the sides of a subject of which a text has words: of `direction`, 0 is up, 1 is down and 2 unchanged."""
    spoken = (languages()[code].sides[subject] for code in codes or spoken_in(text))
    return frozenset(side for sides in spoken for side, pattern in enumerate(sides) if pattern.search(text))


@lru_cache(maxsize=8192)
def phrase_in(kind: str, text: str) -> re.Match[str] | None:
    """Find the first phrase of a kind that a text has."""
    found = (languages()[code].phrases[kind].search(text) for code in spoken_in(text))
    return next(filter(None, found), None)


@lru_cache(maxsize=4096)
def months_of(text: str, codes: tuple[str, ...] = ()) -> frozenset[int]:
    """List the months that a text names, as words of its own language and of others, or in dates."""
    spoken = (languages()[code].months for code in {*spoken_in(text), *codes})
    named = {int(number) for months in spoken for number, pattern in months.items() if pattern.search(text)}
    return frozenset(named | {int(date[1] or date[2]) for date in _NUMERIC_DATE.finditer(text)})


@lru_cache(maxsize=4096)
def is_negated(text: str) -> bool:
    """Whether a text has a word that negates; a language that negates by an ending of its verbs has none."""
    return bool(_negation().search(text))


def without_negations(text: str) -> str:
    """Return a text without the words that negate."""
    return _negation().sub(" ", re.sub(r"\b\w+n[’']t\b", " ", text))


@cache
def _negation() -> re.Pattern[str]:
    words = json.loads(Path(__file__).with_name("negations.json").read_text(encoding="utf-8"))
    whole, anywhere = ("|".join(chain(*words[key].values())) for key in ("whole_words", "anywhere"))
    return re.compile(rf"\b(?:{whole})\b|{anywhere}", re.IGNORECASE)
