"""The closed vocabulary of figures: words that ask for one, and words that change nothing."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

from chargehand_plugins.extractive.tokens import Token

OPENERS: Final = frozenset({"count", "amount", "what", "which", "when", "list"})
RANKS: Final = {"max": "DESC", "most": "DESC", "dearest": "DESC", "min": "ASC", "least": "ASC", "cheapest": "ASC"}
AGGREGATES: Final = frozenset({"share", "sum", "mean", *RANKS})
COMPARISONS: Final = {"above": ">", "at_least": ">=", "below": "<", "at_most": "<="}
BOUNDS: Final = {"after": ">", "since": ">=", "before": "<", "until": "<="}
_LONGEST_PHRASE: Final = 4


@cache
def _words() -> Mapping[str, Mapping[str, Sequence[str]]]:
    return tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))


@cache
def pattern(name: str) -> str:
    """Find a regular expression, or a list with `|`, of words of all languages."""
    return str(_words()["tables"][name])


@cache
def languages() -> tuple[str, ...]:
    return tuple(_words()["languages"])


def sentence(key: str, language: str) -> str:
    """Find a fixed sentence in the user's language, else in English."""
    return _words()["sentences"][key][languages().index(language) if language in languages() else 0]


def says(name: str, text: str) -> bool:
    """Whether a text has one of a pattern's words."""
    return re.search(rf"\b(?:{pattern(name)})\b", text, re.IGNORECASE) is not None


def marks_at(tokens: Sequence[Token], at: int, language: str) -> Iterator[tuple[str, int]]:
    """List what the words at a token may ask for, and where they end; the longest only."""
    for end in range(min(at + _LONGEST_PHRASE, len(tokens)), at, -1):
        phrase = " ".join(token.word for token in tokens[at:end])
        if found := [mark for mark, form in _forms(language) if form.fullmatch(phrase)]:
            yield from ((mark, end) for mark in found)
            return


@cache
def _forms(language: str) -> Sequence[tuple[str, re.Pattern[str]]]:
    at = languages().index(language)
    return [(mark, re.compile(forms[at])) for mark, forms in _words()["marks"].items()]


def is_grammar(word: str, language: str) -> bool:
    """Whether a word says how something is asked, not what."""
    return language in languages() and any(form.fullmatch(word) for _, form in _forms(language))


@cache
def empty_words(language: str) -> frozenset[str]:
    return frozenset(str(_words()["empty"][language]).split())


@cache
def totals() -> tuple[str, ...]:
    """List what the row of a table is called that adds up the others."""
    return tuple(pattern("totals").split("|"))


@cache
def months() -> Mapping[str, int]:
    """List the names of months, in the languages that are told apart, with their numbers."""
    numbered = enumerate(pattern("months").split(";"), start=1)
    return {name: number for number, names in numbered for name in names.split("|")}


@lru_cache(maxsize=10_000)
def unit_forms(word: str) -> frozenset[str]:
    """List the ways to write a unit; nothing for what is none."""
    return frozenset(form for group in pattern("units").split("|") if word in group.split() for form in group.split())


def is_currency(word: str) -> bool:
    return any(form in "€$£" or form == "chf" for form in unit_forms(word.casefold()))


def is_flow(words: Sequence[str]) -> bool:
    """Whether amounts of this name can only have come about bit by bit: money, or what was lost, sold or booked."""
    return any(matches("flow", word) or is_currency(word) for word in words)


def is_added(words: Sequence[str], *, is_event: bool) -> bool:
    """Whether values of this name make a sum; what was charged does where each row is an event."""
    return not any(matches("not_added", word) and not (is_event and matches("charges", word)) for word in words)


def matches(name: str, word: str) -> bool:
    """Whether a word is one of a pattern's: `costs`, or `event`, such as `issued`, `ausgeliehen`, `vendus`."""
    return re.fullmatch(pattern(name), word) is not None
