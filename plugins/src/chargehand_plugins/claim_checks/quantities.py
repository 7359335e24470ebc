"""The quantities of a text: figures with scale and unit, and number words; and whether another text has them."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal, localcontext
from functools import cache, cached_property, lru_cache
from itertools import islice, permutations, zip_longest
from typing import Final, Literal

from chargehand_plugins.claim_checks.words import sides_of
from workflows.rules.claim_words import languages, spoken_in, units

_DIGITS: Final = 40
"""Maximum digits of a number; a longer one is compared as written."""
FIGURE: Final = r"(?:\d{1,3}(?: \d{3})+(?:,\d+)?(?!\d)|\d+(?:[.,'’\u00a0\u202f]\d+)*)"
_CURRENCY: Final = r"US\$|USD|EUR|GBP|CHF|JPY|[$€£¥]"
_NEXT_WORD: Final = re.compile(r"[ \u00a0\u202f-]?([^\W\d_]+)")
_GAP: Final = r"[ \u00a0\u202f-]?"
_ROUNDED_DIGITS: Final = 2
"""Minimum significant digits of a rounded figure; `nine million` has one."""
_NEAR: Final = 25
"""A third may be 32 percent, which is less than a 25th of it away."""
_STEM: Final = 4
_YEAR: Final = re.compile(r"1[5-9]\d\d|20\d\d|21\d\d")
_BETWEEN: Final = re.compile(r" ?(?:to|auf|bis|and|und|or|oder|au?|à|et|ou|al|y|o|e|tot|naar|en|of|[-–]) ?")
_TENS: Final = frozenset(map(str, range(20, 100, 10)))
_CENT: Final = Decimal("0.01")
"""The smallest amount of any currency."""
_MOST_WORDS: Final = 300
"""Maximum number words read from a text."""
_MOST_COMPARED: Final = 8
"""Maximum figures of a source that are combined with each other; more would yield any figure by chance."""


@dataclass(frozen=True)
class Quantity:
    """A number, and what it counts."""

    written: str
    digits: frozenset[Decimal | str]
    """Its possible values, without its scale: `1,995` is 1995 or 1.995."""
    unit: str = ""
    """The dimension of its unit; empty without a known unit."""
    size: Decimal = Decimal(1)
    """The size of its unit, in the dimension's base unit."""
    noun: str = ""
    """The word after it, if it has no unit."""
    is_word: bool = False
    """Whether it is a number word."""
    start: int = -1
    """Its position in its text."""
    scale: Decimal = Decimal(1)
    """Thousand, million and so on."""

    @cached_property
    def values(self) -> frozenset[Decimal | str]:
        return _times(self.digits, self.scale)

    @cached_property
    def measures(self) -> frozenset[Decimal | str]:
        """Its possible values, in the dimension's base unit."""
        return _times(self.values, self.size)

    @property
    def is_year(self) -> bool:
        return not self.unit and self.scale == 1 and bool(_YEAR.fullmatch(self.written))

    def is_in(self, others: Iterable["Quantity"]) -> bool:
        """Whether other quantities contain it: the same value, or one that it rounds, and no different unit."""
        return any(self.has_unit_of(other) and self.has_value_of(other) for other in others)

    def is_one_with(self, other: "Quantity") -> bool:
        """Whether either is in the other's text: as the same value, or as one that the other rounds."""
        return self.has_unit_of(other) and (self.has_value_of(other) or other.has_value_of(self))

    def has_unit_of(self, other: "Quantity") -> bool:
        """Whether both count the same thing, as far as is known; a share of people or things is not a count."""
        is_count = bool(self.noun or other.noun) and {self.unit, other.unit} == {"percent", ""}
        return self.unit == other.unit or not ((self.unit and other.unit) or is_count)

    def completes(self, other: "Quantity") -> bool:
        """Whether both are shares that together make up the whole, such as 70 and 30 percent."""
        shares = (100 - each for each in other.values if isinstance(each, Decimal))
        return self.unit == other.unit == "percent" and not self.values.isdisjoint(shares)

    def counts_as(self, other: "Quantity") -> bool:
        """Whether both certainly count the same thing: by their unit, or by the word after them."""
        if self.unit or other.unit:
            return (self.unit, self.size) == (other.unit, other.size)
        return bool(self.noun) and self.noun[:_STEM] == other.noun[:_STEM]

    def is_other_size_of(self, other: "Quantity") -> bool:
        """Whether both have the same digits but a different scale or unit."""
        if "times" in {self.unit, other.unit} or not self.digits & other.digits:
            return False
        return (1 not in {self.scale, other.scale} and self.scale != other.scale) or bool(self.unit and other.unit)

    def has_value_of(self, other: "Quantity") -> bool:
        """Whether the other has its value, or the value that it rounds."""
        is_same = self.unit != other.unit or self.size == other.size
        own, theirs = (self.values, other.values) if is_same else (self.measures, other.measures)
        is_share = bool(self.is_word and other.written and self.unit == other.unit == "percent")
        least = 1 if is_share or (self.is_word and self.scale != 1) else _ROUNDED_DIGITS
        if not own.isdisjoint(theirs) or any(not own.isdisjoint(roundings(each, least)) for each in theirs):
            return True
        ones, others = ([each for each in part if isinstance(each, Decimal)] for part in (own, theirs))
        return is_share and any(abs(one - each) * _NEAR <= each for one in ones for each in others)


@lru_cache(maxsize=4096)
def quantities(text: str) -> tuple[Quantity, ...]:
    """List the quantities of a text: its figures, then its number words."""
    text, codes = in_figures(text), spoken_in(text)
    figures = (_figure(match, text, codes) for match in _figure_pattern().finditer(text))
    words = [
        (match, value, code)
        for code in codes
        for match in islice(_number_pattern(code).finditer(text), _MOST_WORDS)
        for value in meanings_of(match[0].casefold(), "numbers", code)
    ]
    whole = (_word_quantity(text, match, value, code) for match, value, code in words)
    all_quantities = (*_distribute([*figures], text), *whole)
    return tuple(
        replace(each, unit="", digits=each.digits | _times(each.digits, _CENT)) if each.unit == "cent" else each
        for each in all_quantities
    )


@lru_cache(maxsize=8192)
def meanings_of(word: str, kind: Literal["numbers", "scales"], code: str) -> tuple[str, ...]:
    """List the meanings of a word in a language, as a number or scale; a word without any costs one comparison."""
    every, each = _lexicon(kind, code)
    return tuple(value for value, words in each if words.fullmatch(word)) if every.fullmatch(word) else ()


@cache
def _lexicon(kind: str, code: str) -> tuple[re.Pattern[str], list[tuple[str, re.Pattern[str]]]]:
    """Return a pattern for any word of a kind, and patterns by value or, for units, by dimension and size."""
    words: Mapping[str, str] = (
        {f"{each} {size}": one for each, sizes in units().items() for size, one in sizes.items()}
        if kind == "units"
        else getattr(languages()[code], kind)
    )
    every = re.compile("|".join(f"(?:{one})" for one in words.values()), re.IGNORECASE)
    return every, [(value, re.compile(one, re.IGNORECASE)) for value, one in words.items()]


def in_figures(text: str) -> str:
    """Convert number words of two parts to figures: `forty-two`, `zweiundvierzig`, `cuarenta y dos`, `quarantadue`."""
    for code in spoken_in(text):
        text = _compound(code).sub(lambda match, code=code: str(_compound_value(match, code)), text)
    return text


@cache
def _compound(code: str) -> re.Pattern[str]:
    numbers = sorted(languages()[code].numbers.items(), key=lambda each: -len(each[1]))
    tens = "|".join(words for value, words in numbers if value in _TENS)
    ones = "|".join(words for value, words in numbers if value.isdigit() and len(value) <= 2 and value not in _TENS)
    return re.compile(
        rf"(?<![\w-])(?:(?P<tens>{tens})(?:-(?:et-)?| y | e | et )?(?P<ones>{ones})"
        rf"|(?P<first>{ones})(?:und|en|ën)(?P<last>{tens}))(?!\w)",
        re.IGNORECASE,
    )


def _compound_value(match: re.Match[str], code: str) -> int:
    parts = [part for part in match.groups() if part]
    return sum(int(value) for part in parts for value in meanings_of(part.casefold(), "numbers", code))


def _distribute(figures: Sequence[Quantity], text: str) -> Iterator[Quantity]:
    """Give a figure the scale and unit of the one that follows: `from 6.1 to 7.4 million euros`."""
    for one, following in zip_longest(figures, figures[1:]):
        between = text[one.start + len(one.written) : following.start] if following else ""
        if following and not (one.unit or one.is_year) and _BETWEEN.fullmatch(between):
            scale = following.scale if one.scale == 1 else one.scale
            yield replace(one, scale=scale, unit=following.unit, size=following.size, noun="")
        else:
            yield one


def is_derived(figure: Quantity, there: Iterable[Quantity]) -> bool:
    """Whether a figure is a sum, difference, share, ratio or product of two others, as far as their units allow it."""
    return figure.is_in(_derive(tuple(dict.fromkeys(there))))


@lru_cache(maxsize=256)
def _derive(there: tuple[Quantity, ...]) -> tuple[Quantity, ...]:
    numbers = [each for each in there if any(isinstance(value, Decimal) for value in each.values)]
    numbers = sorted(numbers, key=lambda each: each.is_word and not each.unit)[:_MOST_COMPARED]
    results = (result for one, other in permutations(numbers, 2) for result in _of_two(one, other))
    return tuple(Quantity("", frozenset({value}), unit) for value, unit in results)


def _of_two(first: Quantity, second: Quantity) -> Iterator[tuple[Decimal, str]]:
    one, other, unit = _value(first), _value(second), first.unit or second.unit
    is_scaled = first.scale == second.scale != 1
    is_bare = bool(first.unit) and not (second.unit or second.noun)  # `84 litres, 3 less than before`
    if first.unit == second.unit or (is_scaled and first.has_unit_of(second)) or is_bare:
        yield one + other, unit
        yield abs(one - other), "point" if unit == "percent" else unit
        if other:
            yield one / other, "times"
            yield one / other * 100, "percent"
            yield abs(one - other) / other * 100, "percent"
    if (first.unit, second.unit) == ("percent", "point"):
        yield from ((one + other, unit), (one - other, unit))
    if first.unit != second.unit == "percent":
        yield one * other / 100, unit
    elif first.unit != second.unit == "" and other:
        yield from ((one * other, unit), (one / other, unit))


def _value(quantity: Quantity) -> Decimal:
    """Return the value in the dimension's base unit; for `1,995`, the larger of its two possible values."""
    return max(value for value in quantity.values if isinstance(value, Decimal)) * quantity.size


@lru_cache(maxsize=1024)
def values_of(written: str) -> frozenset[Decimal | str]:
    """Return the possible values of a figure: `1,995` is 1995 or 1.995."""
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
    scale = Decimal(1)
    for word in filter(None, re.split(r"[ \u00a0\u202f.-]+|(?<=[万萬만亿億억])", match["scales"] or "")):
        scale *= next(
            (Decimal(factor) for code in (*codes, *languages()) for factor in _factors(code, word)), Decimal(1)
        )
    unit, size = unit_of(match["currency"] or match["unit"] or "")
    digits = values_of(match["figure"])
    if unit == "length" and re.search(r"\dm$", match[0]):  # 1.2m may be metres or millions
        unit, digits = "", digits | _times(digits, Decimal(1_000_000))
    return Quantity(
        match[0].strip(),
        digits,
        unit,
        size,
        "" if unit else _noun(text, match.end()),
        start=match.start(),
        scale=scale,
    )


def _times(values: frozenset[Decimal | str], factor: Decimal) -> frozenset[Decimal | str]:
    return frozenset(value * factor if isinstance(value, Decimal) else value for value in values)


def _word_quantity(text: str, match: re.Match[str], value: str, code: str) -> Quantity:
    number, _, own_unit = value.partition(" ")
    scale = None if own_unit else _scale_word(code).match(text, match.end())
    end = scale.end() if scale else match.end()
    following = (_part_pattern() if own_unit == "percent" else _unit_pattern()).match(text, end)
    if following and own_unit == "percent":  # half a point
        number, own_unit = str(Decimal(number) / 100), ""
    unit, size = unit_of(following["unit"]) if following else (own_unit, Decimal(1))
    return Quantity(
        text[match.start() : following.end() if following else end],
        frozenset({Decimal(number)}),
        unit,
        size,
        "" if unit else _noun(text, end),
        is_word=True,
        start=match.start(),
        scale=Decimal(_factors(code, scale[1])[0]) if scale else Decimal(1),
    )


def _noun(text: str, end: int) -> str:
    following = _NEXT_WORD.match(text, end)
    word = following[1].casefold() if following else ""
    return "" if sides_of("amount", word) else word


@lru_cache(maxsize=8192)
def roundings(exact: Decimal | str, least: int = _ROUNDED_DIGITS) -> frozenset[Decimal]:
    """Round a number to fewer digits, as long as enough are left and its length does not change."""
    if not isinstance(exact, Decimal):
        return frozenset()
    first, places = exact.adjusted(), range(_last_place(exact) + 1, exact.adjusted() - least + 2)
    with localcontext(prec=2 * _DIGITS):
        rounded = {exact.quantize(Decimal(1).scaleb(place), ROUND_HALF_UP): place for place in places}
    return frozenset(
        each
        for each, place in rounded.items()
        if each.adjusted() == first and (first - _last_place(each) + 1 >= least or not place)
    )


def _last_place(number: Decimal) -> int:
    """Return the exponent of the last non-zero digit."""
    return int(number.normalize().as_tuple().exponent)


@lru_cache(maxsize=8192)
def factors_of(word: str) -> tuple[Decimal, ...]:
    """List what a word for a scale may mean in any language, as in the title of a column."""
    return tuple(dict.fromkeys(Decimal(factor) for code in languages() for factor in _factors(code, word)))


def _factors(code: str, word: str) -> Sequence[str]:
    return meanings_of(word, "scales", code) or (["1000000"] if word in {"m", "M"} else [])


@cache
def _figure_pattern() -> re.Pattern[str]:
    every = (words for language in languages().values() for words in language.scales.values())
    scales = "|".join(dict.fromkeys(every))
    return re.compile(
        rf"(?P<currency>(?:{_CURRENCY}){_GAP})?(?P<figure>{FIGURE})"
        # An m next to a currency is a million, otherwise a metre.
        rf"(?P<scales>(?:{_GAP}(?:{scales}|m(?=[ \u00a0]?[€$£])|(?(currency)m|(?!)))(?:\b|(?<=[万萬만亿億억]))\.?)*)"
        rf"(?:{_GAP}(?:d’|d'|de |of |di |van )?(?P<unit>{all_units()})(?!\w))?",
        re.IGNORECASE,
    )


@cache
def _number_pattern(code: str) -> re.Pattern[str]:
    numbers = languages()[code].numbers.items()
    shares, plain = ([words for value, words in numbers if (" " in value) is is_share] for is_share in (True, False))
    return re.compile(
        rf"(?<![\w-])(?:{'|'.join(shares + plain)})(?!\w)", re.IGNORECASE
    )  # "three quarters" does not mean "three"


@cache
def all_units() -> str:
    every = (words for sizes in units().values() for words in sizes.values())
    parts = (part for words in every for part in re.split(r"\|(?![^(]*\))", words))  # not within brackets
    return "|".join(sorted(parts, key=len, reverse=True))


@cache
def _unit_pattern() -> re.Pattern[str]:
    return re.compile(rf"(?:{_GAP}|[’'])(?:d’|d'|de |di )?(?P<unit>{all_units()})(?!\w)", re.IGNORECASE)


@cache
def _part_pattern() -> re.Pattern[str]:
    units_of = "|".join(words for kind in ("point", "calendar", "time") for words in units()[kind].values())
    return re.compile(rf"[ -](?:(?:of|di|de|an?|una?|eines?) )*(?P<unit>{units_of})(?!\w)", re.IGNORECASE)


@cache
def _scale_word(code: str) -> re.Pattern[str]:
    return re.compile(rf"[ \u00a0-]({'|'.join(languages()[code].scales.values())})(?!\w)", re.IGNORECASE)


@lru_cache(maxsize=8192)
def unit_of(word: str) -> tuple[str, Decimal]:
    """Return the dimension and size of a unit; an empty dimension for any other word."""
    every, each = _lexicon("units", "")
    bare = word.strip().casefold()
    named = (value.split() for value, words in each if words.fullmatch(bare)) if bare and every.fullmatch(bare) else ()
    return next(((kind, Decimal(size)) for kind, size in named), ("", Decimal(1)))
