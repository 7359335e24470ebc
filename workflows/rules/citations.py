"""Citations in a text: `[S1]` stands for the first of a report's sources, `[ref]` for a source by its name."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

_CITATION: Final = re.compile(r"\[S([0-9]+)\]")
_LONGEST_NUMBER: Final = 6
"""Digits; a longer number cites nothing, and is too long to be read as a number."""
_SENTENCE: Final = re.compile(r"[^\n]*?[.!?](?:[*_)\"'”]*(?:[ \t]*\[S[0-9]+\])*)(?=\s|$)[ \t]*|[^\n]*\n+|[^\n]+")
_FIGURE: Final = re.compile(r"\d[\d.,]*\d|\d")
_WORD: Final = re.compile(r"[^\W_]+")
_SAME: Final = 0.8
"""Share of a claim's words that a sentence repeats if it says the same."""
_LEAST_WORDS: Final = 4
"""Words of a claim below which a likeness means nothing."""


def replace_citations(text: str, replacement: Callable[[int], str]) -> str:
    """Put something else for every `[S<number>]`; what can be no number of a source is removed."""

    def replaced(match: re.Match[str]) -> str:
        digits = match[1].lstrip("0")
        return replacement(int(digits)) if 0 < len(digits) <= _LONGEST_NUMBER else ""

    return _CITATION.sub(replaced, text)


def cited_numbers(text: str) -> list[int]:
    """List the numbers that a text cites, each once, in the order of their first appearance."""
    numbers: dict[int, None] = {}

    def note(number: int) -> str:
        numbers[number] = None
        return ""

    replace_citations(text, note)
    return list(numbers)


def name_refs(text: str, refs: Sequence[str]) -> str:
    """Put `[ref]` for every `[S<number>]`; a number that no source has is removed."""
    return replace_citations(text, lambda number: f"[{refs[number - 1]}]" if number <= len(refs) else "")


def number_refs(text: str, numbers: Mapping[str, int]) -> str:
    """Put `[S<number>]` for every `[ref]`. Whatever looked like a number before cites nothing, and is removed."""
    if not numbers:
        return replace_citations(text, lambda _: "")
    names = "|".join(re.escape(ref) for ref in sorted(numbers, key=len, reverse=True))
    known = re.compile(rf"\[({names})\]|{_CITATION.pattern}")
    return known.sub(lambda match: f"[S{numbers[match[1]]}]" if match[1] else "", text)


def sentences(text: str) -> list[str]:
    """Cut a text into sentences and lines; joined, they are the text again."""
    return _SENTENCE.findall(text)


def restates(sentence: str, findings: Iterable[tuple[str, int]]) -> int | None:
    """Find the source of the finding that a sentence restates: most of its words, and every figure of it."""
    said, figures = _words(sentence), _figures(sentence)
    for claim, number in findings:
        words = _words(claim)
        if len(words) < _LEAST_WORDS or not _figures(claim) <= figures:
            continue
        if len(words & said) >= _SAME * len(words):
            return number
    return None


# Each claim is held against each sentence: without a memory, long outcomes would hold a workflow up for seconds.
@lru_cache(maxsize=4_096)
def _words(text: str) -> frozenset[str]:
    return frozenset(word.casefold() for word in _WORD.findall(text))


@lru_cache(maxsize=4_096)
def _figures(text: str) -> frozenset[str]:
    return frozenset(_FIGURE.findall(text))
