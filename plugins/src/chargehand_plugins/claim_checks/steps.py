"""Figures of a change: what it starts from, what it leads to, and what it differs by. Pure."""

import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import islice
from typing import Final

from chargehand_plugins.claim_checks.quantities import Quantity, in_figures, is_derived, quantities
from chargehand_plugins.claim_checks.words import sides_of
from workflows.rules.citation_checks import Objection
from workflows.rules.claim_words import languages, spoken_in

FROM, TO, BY = 0, 1, 2
"""Places in the list of steps."""
_BEFORE, _BEHIND = 60, 40
"""Number of characters around a figure in which something rises or falls."""
_MOST_FIGURES: Final = 40


def step_objections(claim: str, sentences: Sequence[str]) -> Iterator[Objection]:
    """Find `rose by 31` where the source has `rose to 31`, and the other way round."""
    there = [each for sentence in sentences for each in steps_of(sentence)]
    for figure, step in steps_of(claim):
        same = {other for each, other in there if figure.is_in((each,))}
        if step in {TO, BY} and same in ({BY}, {TO}, {FROM}) and same != {step} and BY in {step, *same}:
            is_half = any(figure.completes(each) for each, _ in there)  # who loses half has half
            if not (is_half or is_derived(figure, [each for each, _ in there])):
                meaning = "the change" if step == TO else "the new figure"
                yield Objection(f"In its source, {figure.written} is {meaning}.", is_certain=step == BY)


@lru_cache(maxsize=1024)
def steps_of(text: str) -> tuple[tuple[Quantity, int | None], ...]:
    """List the figures of a text, each with its step of a change; None if the words before it do not say."""
    codes, said = spoken_in(text), in_figures(text)
    figures = (each for each in quantities(text) if not each.is_year and (each.unit or not each.is_word))
    found = sorted(islice(figures, _MOST_FIGURES), key=lambda each: each.start)
    patterns = _patterns(codes[0]) if len(codes) == 1 else []
    parts = [said[max(each.start - _BEFORE, 0) : each.start + _BEHIND] for each in found]
    ends = [said[max(each.start - _BEFORE, 0) : each.start] for each in found]
    sides = [{side for side, words in enumerate(patterns) if words.search(end)} for end in ends]
    for at, (side, part) in enumerate(zip(sides, parts, strict=True)):
        if {FROM, BY} <= side:  # `de` is either in French
            leads = any(TO in each for each in sides[at + 1 : at + 2]) and found[at].unit == found[at + 1].unit
            side.discard(BY if leads else FROM)
        if not sides_of("direction", part, codes):
            side.discard(BY)
    return tuple((each, min(side) if len(side) == 1 else None) for each, side in zip(found, sides, strict=True))


@cache
def _patterns(code: str) -> list[re.Pattern[str]]:
    language = languages()[code]
    up, down, *_ = (words.pattern for words in language.sides["direction"])
    between = "|".join(language.phrases[kind].pattern for kind in ("nearly", "article"))
    steps = [words.pattern for words in language.sides["step"]]
    steps[BY] = f"{steps[BY]}|{up}|{down}"  # `climbed 180 pounds`
    return [re.compile(rf"(?:{each})\W{{0,2}}(?:(?:{between})\s)*[$€£]?\s?$", re.IGNORECASE) for each in steps]
