"""Citations in a text: `[S1]` stands for the first of a report's sources, `[ref]` for a source by its name."""

import re
from collections.abc import Callable, Mapping
from typing import Final

_CITATION: Final = re.compile(r"\[S([0-9]+)\]")
_LONGEST_NUMBER: Final = 6
"""Digits; a longer number cites nothing, and is too long to be read as a number."""


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


def number_refs(text: str, numbers: Mapping[str, int]) -> str:
    """Put `[S<number>]` for every `[ref]`. Whatever looked like a number before cites nothing, and is removed."""
    if not numbers:
        return replace_citations(text, lambda _: "")
    names = "|".join(re.escape(ref) for ref in sorted(numbers, key=len, reverse=True))
    known = re.compile(rf"\[({names})\]|{_CITATION.pattern}")
    return known.sub(lambda match: f"[S{numbers[match[1]]}]" if match[1] else "", text)
