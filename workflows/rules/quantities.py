"""The quantities of a text: figures with their scale and unit, and number words, and whether another text has them."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, localcontext
from functools import cache, lru_cache
from itertools import permutations
from typing import Final

from workflows.rules.claim_words import languages, spoken_in, units

_DIGITS: Final = 40
"""Of a number; a longer one is compared as it is written."""
_FIGURE: Final = r"(?:\d{1,3}(?: \d{3})+(?!\d)|\d+(?:[.,'’\u00a0\u202f]\d+)*)"
_CURRENCY: Final = r"US\$|USD|EUR|GBP|CHF|JPY|[$€£¥]"
_NEXT_WORD: Final = re.compile(r"[ \u00a0\u202f-]?([^\W\d_]+)")
_GAP: Final = r"[ \u00a0\u202f-]?"
_ROUNDED_DIGITS: Final = 2
"""Significant digits that a rounded figure has at least."""
_ROUGHLY: Final = Decimal("0.08")
"""By which part of a figure another one may differ that is said to be about as much."""
_STEM: Final = 4
_YEARS: Final = (1800, 2100)
_MOST_COMPARED: Final = 8
"""Figures of a source that are compared with each other; more would give any figure by accident."""
_BEFORE: Final = 25
"""Characters before a figure in which it may be called rounded."""


@dataclass(frozen=True)
class Quantity:
    """A number, and what it counts."""

    written: str
    values: frozenset[Decimal | str]
    """What it may stand for: `1,995` is 1995 or 1.995."""
    unit: str = ""
    """The unit's name in English; empty if it has none that is known."""
    noun: str = ""
    """The word after it, if it has no unit."""
    is_word: bool = False
    """Whether it is written as a word."""
    start: int = -1
    """Where it stands in its text."""
    is_about: bool = False
    """Whether the words before it say that it is rounded."""

    def is_in(self, others: Iterable["Quantity"]) -> bool:
        """Whether others have it: the same value, or one that it rounds, in no other unit."""
        return any(self.has_unit_of(other) and self._has_value_of(other) for other in others)

    def has_unit_of(self, other: "Quantity") -> bool:
        """Whether both count the same, as far as that is known."""
        return not self.unit or not other.unit or self.unit == other.unit

    def _has_value_of(self, other: "Quantity") -> bool:
        return bool(self.values & other.values) or any(
            _rounds(mine, theirs) or (self.is_about and abs(mine - theirs) <= abs(theirs) * _ROUGHLY)
            for mine in self.values
            for theirs in other.values
            if isinstance(mine, Decimal) and isinstance(theirs, Decimal)
        )

    def is_other_in(self, others: Iterable["Quantity"]) -> bool:
        """Whether others count the same thing, and to another number."""
        same = [
            each
            for each in others
            if (self.unit and each.unit == self.unit)
            or (self.noun and each.noun and self.noun[:_STEM] == each.noun[:_STEM])
        ]
        return bool(same) and not self.is_in(same)

    def is_of_other_unit_in(self, others: Iterable["Quantity"]) -> bool:
        """Whether others have its value, and in other units only."""
        same = [each for each in others if self.unit not in {"", "time"} and each.unit and self.values & each.values]
        return bool(same) and not self.is_in(same)


@lru_cache(maxsize=4096)
def quantities(text: str) -> tuple[Quantity, ...]:
    """List the quantities of a text: its figures, then its number words."""
    codes = spoken_in(text)
    figures = (_figure(match, text, codes) for match in _figure_pattern(codes).finditer(text))
    words = (
        _word_quantity(text, match, value)
        for code in codes
        for value, pattern in _number_words(code).items()
        for match in pattern.finditer(text)
    )
    fractions = (
        Quantity(match[0], frozenset({Decimal(value)}), unit, is_word=True, start=match.start())
        for code in codes
        for unit, named in (("percent", languages()[code].fractions), ("time", languages()[code].repeated))
        for value, words in named.items()
        for match in re.finditer(rf"(?<!\w)(?:{words})(?!\w)", text, re.IGNORECASE)
    )
    return (*figures, *words, *fractions)


def differences(there: Sequence[Quantity]) -> list[Quantity]:
    """List what figures of the same unit differ by, and by which part: a source that says both says that too."""
    found: list[Quantity] = []
    figures = [each for each in there if not each.is_word and not _is_year(each)][:_MOST_COMPARED]
    for one, other in permutations(figures, 2):
        mine, theirs = _sole(one), _sole(other)
        if mine is None or theirs is None or not one.has_unit_of(other):
            continue
        unit = "point" if one.unit == "percent" else one.unit
        found.append(Quantity("", frozenset({abs(mine - theirs)}), unit))
        if theirs:
            found += [
                Quantity("", frozenset({abs(mine - theirs) / theirs * 100, mine / theirs * 100}), "percent"),
                Quantity("", frozenset({mine / theirs})),
            ]
    return found


def is_measure(word: str) -> bool:
    """Whether a word is a unit or a scale."""
    return bool(_unit(word)) or any(_factors(code, word) for code in languages())


def _is_year(quantity: Quantity) -> bool:
    return not quantity.unit and any(
        _YEARS[0] <= value < _YEARS[1] for value in quantity.values if isinstance(value, Decimal)
    )


def _sole(quantity: Quantity) -> Decimal | None:
    values = [value for value in quantity.values if isinstance(value, Decimal)]
    return values[0] if len(values) == 1 else None


@lru_cache(maxsize=1024)
def values_of(written: str) -> frozenset[Decimal | str]:
    """Read a figure as it may be meant: `1,995` is 1995 or 1.995."""
    digits = "".join(str(unicodedata.digit(mark)) if mark.isdigit() else mark for mark in written)
    if len(digits) > _DIGITS:
        return frozenset({digits})
    marks = [mark for mark in digits if not mark.isdigit()]
    whole = "".join(filter(str.isdigit, digits))
    values = {Decimal(whole)}
    if marks and marks[-1] in ".," and marks.count(marks[-1]) == 1:
        after = len(digits) - digits.rindex(marks[-1]) - 1
        decimal = Decimal(f"{whole[:-after]}.{whole[-after:]}")
        values = values | {decimal} if after == 3 and len(marks) == 1 else {decimal}
    return frozenset(values)


def _figure(match: re.Match[str], text: str, codes: Sequence[str]) -> Quantity:
    values = values_of(match["figure"])
    for scale in filter(None, re.split(r"[ \u00a0\u202f.-]+", match["scales"] or "")):
        factors = [Decimal(factor) for code in codes for factor in _factors(code, scale)]
        scaled = (value * factor for value in values if isinstance(value, Decimal) for factor in factors)
        values = frozenset[Decimal | str](scaled) or values
    unit = _unit(match["currency"] or "") or _unit(match["unit"] or "")
    noun = "" if unit else _noun(text, match.end())
    return Quantity(
        match[0].strip(), values, unit, noun, start=match.start(), is_about=_is_about(text, match.start(), codes)
    )


def _word_quantity(text: str, match: re.Match[str], value: str) -> Quantity:
    following = _unit_pattern().match(text, match.end())
    unit = _unit(following["unit"]) if following else ""
    noun = "" if unit else _noun(text, match.end())
    about = _is_about(text, match.start(), spoken_in(text))
    return Quantity(
        match[0], frozenset({Decimal(value)}), unit, noun, is_word=True, start=match.start(), is_about=about
    )


def _is_about(text: str, start: int, codes: Sequence[str]) -> bool:
    before = text[max(start - _BEFORE, 0) : start]
    return any(re.search(rf"(?<!\w)(?:{languages()[code].about}) ?$", before, re.IGNORECASE) for code in codes)


def _noun(text: str, end: int) -> str:
    following = _NEXT_WORD.match(text, end)
    return following[1].casefold() if following else ""


def _rounds(rounded: Decimal, exact: Decimal) -> bool:
    """Whether a number is another one, rounded to fewer digits of which enough are left."""
    if rounded == exact or exact.adjusted() != rounded.adjusted():
        return rounded == exact
    _, digits, exponent = rounded.normalize().as_tuple()
    if len(digits) < _ROUNDED_DIGITS:
        return False
    with localcontext(prec=2 * _DIGITS):
        return exact.quantize(Decimal(1).scaleb(int(exponent)), ROUND_HALF_UP) == rounded


def _factors(code: str, word: str) -> list[str]:
    scales = languages()[code].scales
    named = [factor for factor, words in scales.items() if re.fullmatch(words, word, re.IGNORECASE)]
    return named or (["1000000"] if word in {"m", "M"} else [])


@cache
def _figure_pattern(codes: tuple[str, ...]) -> re.Pattern[str]:
    scales = "|".join(
        [*(words for code in codes for words in languages()[code].scales.values()), r"m(?=[ \u00a0]?[€$£])"]
    )
    return re.compile(
        rf"(?P<currency>(?:{_CURRENCY}){_GAP})?(?P<figure>{_FIGURE})"
        rf"(?P<scales>(?:{_GAP}(?:{scales})\b\.?)*)"
        rf"(?:{_GAP}(?:d’|d'|de |of |di |van )?(?P<unit>{_all_units()})(?!\w))?",
        re.IGNORECASE,
    )


@cache
def _number_words(code: str) -> dict[str, re.Pattern[str]]:
    # "twenty-five" and "treinta y cinco" are no "twenty" and no "five".
    joined = r"(?:[ -](?:and|und|et|y|e|en)(?=[ -])|-)"
    return {
        value: re.compile(rf"(?<![\w-])(?<! y )(?<! e )(?<! et )(?:{words})(?![\w]|{joined}\w)", re.IGNORECASE)
        for value, words in languages()[code].numbers.items()
    }


@cache
def _all_units() -> str:
    return "|".join(
        sorted((word for words in units().values() for word in _alternatives(words)), key=len, reverse=True)
    )


def _alternatives(words: str) -> list[str]:
    """Split alternatives at the top level of an expression."""
    depth, parts = 0, [""]
    for mark in words:
        depth += (mark == "(") - (mark == ")")
        if mark == "|" and not depth:
            parts.append("")
        else:
            parts[-1] += mark
    return parts


@cache
def _unit_pattern() -> re.Pattern[str]:
    return re.compile(rf"{_GAP}(?:d’|d'|de )?(?P<unit>{_all_units()})(?!\w)", re.IGNORECASE)


@cache
def _unit(word: str) -> str:
    bare = word.strip().casefold()
    return next((name for name, words in units().items() if bare and re.fullmatch(words, bare, re.IGNORECASE)), "")
