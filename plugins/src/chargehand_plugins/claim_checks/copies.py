"""Claims that nearly copy a sentence of their source: negations, and other figures, units, months and names."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache, lru_cache
from typing import Final

from chargehand_plugins.claim_checks.quantities import FIGURE, all_units, meanings_of, quantities, unit_of
from chargehand_plugins.claim_checks.words import SUBJECTS, is_negated, months_of, sides_of
from workflows.rules.claim_words import spoken_in

CLAUSE_END: Final = re.compile(r"[,;:()]|\s(?:and|und|et|y|e|en|with|mit|avec|con|com|met)\s")
_COPIED: Final = 0.7
"""Minimum share of a claim's words, in the order of its source, that makes it a copy."""
_LEAST_TOKENS: Final = 3
MOST_TOKENS: Final = 80
"""Maximum words of a sentence that is compared word for word."""
LEAST_NAME: Final = 4
"""Minimum letters of a name; shorter words are abbreviations."""
_STEM: Final = 4


@dataclass(frozen=True)
class _Token:
    written: str
    kind: str = ""
    """The kind of words that may replace it; empty if it belongs to no closed class."""
    meanings: frozenset[object] = frozenset()
    """Two tokens of the same kind that share a value mean the same."""

    @property
    def place(self) -> str:
        return f"<{self.kind}>" if self.kind else self.written.casefold()

    def says(self, other: "_Token") -> bool:
        """Whether it means the same as another token of its kind."""
        is_same = not self.kind or not self.meanings.isdisjoint(other.meanings)
        return is_same or any(each.is_in(quantities(other.written)) for each in quantities(self.written))


@dataclass(frozen=True)
class Replacement:
    """A word of a claim where its source has a different one of the same kind."""

    kind: str
    theirs: str
    mine: str


@dataclass(frozen=True)
class Copy:
    """The words that a claim shares with a sentence, in order."""

    share: float
    """The share of these words among the claim's words, not counting negations."""
    clause: str
    """The part of the sentence from the first to the last shared word."""
    replacements: tuple[Replacement, ...]


def copy_of(claim: str, sentence: str) -> Copy | None:
    """Compare a claim with a sentence word for word; None if its words are too different."""
    codes = spoken_in(claim, sentence)
    (_, tokens), (starts, source) = _tokens(claim, codes), _tokens(sentence, codes)
    if len(tokens) < _LEAST_TOKENS or max(len(tokens), len(source)) > MOST_TOKENS:
        return None
    matcher = SequenceMatcher(None, [each.place for each in source], [each.place for each in tokens], autojunk=False)
    blocks = matcher.get_matching_blocks()
    at = {block.b + step: block.a + step for block in blocks for step in range(block.size)}
    if len(at) < _COPIED * len(tokens):
        return None

    def is_kept(own: int, other: int) -> bool:
        return not 0 <= own < len(tokens) or (
            at.get(own) == other and (tokens[own].kind == "name" or tokens[own].says(source[other]))
        )

    replaced = (
        Replacement(tokens[own].kind, source[other].written, tokens[own].written)
        for own, other in at.items()
        if not tokens[own].says(source[other]) and is_kept(own - 1, other - 1) and is_kept(own + 1, other + 1)
    )
    first, last = starts[min(at.values())], starts[max(at.values())]
    ends = [0, *(mark.end() for mark in CLAUSE_END.finditer(sentence)), len(sentence)]
    clause = sentence[max(end for end in ends if end <= first) : min(end for end in ends if end > last)].rstrip(".")
    return Copy(len(at) / len(tokens), clause, tuple(replaced))


@cache
def _token() -> re.Pattern[str]:
    return re.compile(rf"{FIGURE}|(?<!\w)(?:{all_units()})(?![\w’'-])|[^\W\d_]+(?:[’'-][^\W\d_]+)*", re.IGNORECASE)


def _tokens(text: str, codes: tuple[str, ...]) -> tuple[list[int], list[_Token]]:
    """List the words of a text except negations, and their positions."""
    words = [match for match in _token().finditer(text) if not is_negated(match[0])]
    return [match.start() for match in words], [_read(match[0], codes, is_first=not match.start()) for match in words]


@lru_cache(maxsize=8192)
def _read(word: str, codes: tuple[str, ...], *, is_first: bool) -> _Token:
    return next(_kinds(word, codes, is_first=is_first), _Token(word))


def _kinds(word: str, codes: tuple[str, ...], *, is_first: bool) -> Iterator[_Token]:
    if word[0].isdigit():
        yield _Token(word, "figure")
    if months := months_of(f"on {word} 1", codes):
        yield _Token(word, "month", months)
    for code in codes:
        if scales := meanings_of(word, "scales", code):
            yield _Token(word, "scale", frozenset(scales))
        if numbers := meanings_of(word, "numbers", code):
            yield _Token(word, "figure", frozenset(numbers))
    for subject in SUBJECTS:
        if sides := sides_of(subject, word, codes):
            yield _Token(word, subject, sides)
    if (unit := unit_of(word))[0]:
        yield _Token(word, "unit", frozenset({unit}))
    if word[0].isupper() and not is_first and len(word) >= LEAST_NAME:
        yield _Token(word, "name", frozenset({word.casefold()[:_STEM]}))
