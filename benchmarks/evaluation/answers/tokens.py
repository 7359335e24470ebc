"""An answer as tokens: words, numbers with their units, dates and punctuation."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import Final, Literal

_SCALES: Final = {
    **dict.fromkeys(("hundred",), 100),
    **dict.fromkeys(("thousand", "tausend", "k"), 10**3),
    **dict.fromkeys(("million", "millions", "mio", "mn", "millionen"), 10**6),
    **dict.fromkeys(("billion", "billions", "bn", "mrd", "milliarden", "milliarde"), 10**9),
    **dict.fromkeys(("trillion", "trillions", "tn"), 10**12),
}
_UNITS: Final[dict[str, tuple[str, str]]] = {
    # Unit: names, and the dimension with the factor to its base; money and temperatures are never converted.
    "mm": ("mm|millimet(?:er|re)s?", "length 0.001"),
    "cm": ("cm|centimet(?:er|re)s?", "length 0.01"),
    "m": ("m|met(?:er|re)s?", "length 1"),
    "km": ("km|kilomet(?:er|re)s?|kilometern?", "length 1000"),
    "in": ("inch(?:es)?", "length 0.0254"),
    "ft": ("ft|foot|feet", "length 0.3048"),
    "mi": ("mi|miles?", "length 1609.344"),
    "km2": ("(?:km|sq\\.? ?km|square kilomet(?:er|re)s?|quadratkilometer)(?:\\^?2)?", "area 1000000"),
    "m2": ("(?:m|sq\\.? ?m|square met(?:er|re)s?|quadratmeter)(?:\\^?2)?", "area 1"),
    "mi2": ("(?:mi|sq\\.? ?mi|square miles?)(?:\\^?2)?", "area 2589988.110336"),
    "ha": ("ha|hectares?", "area 10000"),
    "acre": ("acres?", "area 4046.8564224"),
    "g": ("g|grams?", "mass 0.001"),
    "kg": ("kg|kilos?|kilograms?|kilogramm", "mass 1"),
    "t": ("t|tons?|tonnes?|tonnen", "mass 1000"),
    "lb": ("lbs?|pounds?", "mass 0.45359237"),
    "knot": ("knots?|kn|kts?|knoten|n(?:oe|œ)uds?", "speed 1.852"),
    "km/h": ("km/h|kph|kmh", "speed 1"),
    "mph": ("mph", "speed 1.609344"),
    "s": ("secs?|seconds?|sekunden?", "time 1"),
    "min": ("mins?|minutes?|minuten?", "time 60"),
    "h": ("h|hrs?|hours?|stunden?", "time 3600"),
    "d": ("days?|tagen?|tage?", "time 86400"),
    "wk": ("weeks?|wochen?", "time 604800"),
    "mo": ("months?|monaten?|monate?", "months 1"),
    "yr": ("years?|yrs?|jahren?|jahre?", "months 12"),
    "%": ("%|percent|per cent|prozent", "share 1"),
    "usd": ("us ?\\$|\\$|usd|(?:us |u\\.s\\. )?dollars?", "usd 1"),
    "eur": ("€|eur|euros?", "eur 1"),
    "gbp": ("£|gbp|pounds sterling", "gbp 1"),
    "yen": ("¥|jpy|yen", "yen 1"),
    "celsius": ("° ?c|celsius", "celsius 1"),
    "fahrenheit": ("° ?f|fahrenheit", "fahrenheit 1"),
}
_SQUARE: Final = re.compile(r"2$|sq|quadrat")
_MONTHS: Final = (
    *(
        "jan(?:uary|uar|vier)?",
        "feb(?:ruary|ruar)?|fev(?:rier)?",
        "mar(?:ch|s)?|maerz|marz",
        "apr(?:il)?|avr(?:il)?",
        "may|mai",
        "june?|juni|juin",
        "july?|juli|juillet",
    ),
    *(
        "aug(?:ust)?|aout",
        "sept?(?:emb(?:er|re))?",
        "o[ck]t(?:ob(?:er|re))?",
        "nov(?:emb(?:er|re))?",
        "de[cz](?:emb(?:er|re))?",
    ),
)
_NUMBER_WORDS: Final = {
    word: number
    for number, words in enumerate(
        [
            "zero null",
            "one",
            "two zwei",
            "three drei",
            "four vier",
            "five fuenf",
            "six sechs",
            "seven sieben",
            "eight acht",
            "nine neun",
            "ten zehn",
            "eleven elf",
            "twelve zwoelf",
            "thirteen",
            "fourteen",
            "fifteen",
            "sixteen",
            "seventeen",
            "eighteen",
            "nineteen",
            "twenty",
        ]
    )
    for word in words.split()
}
_MONTH: Final = "|".join(f"(?P<m{{0}}{number}>{name})" for number, name in enumerate(_MONTHS, 1))
_DIGITS: Final = r"\d{1,3}(?:(?P<group>[,.' ])\d{3})(?:(?P=group)\d{3})*(?!\d)(?:[.,]\d+)?|\d+(?:[.,]\d+)?"
_SUFFIX: Final = "|".join(sorted((names for names, _ in _UNITS.values()), key=len, reverse=True))
_PREFIX: Final = r"us ?\$|\$|€|£|¥|usd|eur|gbp|jpy"
_TOKEN: Final = re.compile(
    rf"(?P<iso>\d{{4}}-\d\d-\d\d)(?!\d)"
    rf"|(?P<day>\d{{1,2}})(?:st|nd|rd|th|\.)?(?: of)? (?:{_MONTH.format('a')})\.?,? (?P<year>\d{{4}})\b"
    rf"|\b(?:{_MONTH.format('b')})\.? (?P<day2>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<year2>\d{{4}})\b"
    rf"|(?P<dots>\d{{1,2}}[./]\d{{1,2}}[./]\d{{4}})(?!\d)"
    rf"|(?:(?<![\w])(?P<prefix>{_PREFIX}) ?)?(?<![\w.])(?P<sign>(?<![\w)])[-−])?(?P<number>{_DIGITS})"
    rf"(?:[ -]?(?P<scale>{'|'.join(_SCALES)}|m(?=\b))(?![\w²2]))?(?: ?-?(?P<unit>{_SUFFIX})(?!\w|/\w))?(?!\w)"
    rf"|(?P<range>(?<=\d)[-–—](?=[$€£]?\d))"
    rf"|(?P<word>\w+)"
    rf"|(?P<mark>\n|[|;:!?,()]|(?<=\w\w\w)\.(?=\s|$)|(?:(?<=\d)|(?<=\bno))\.(?=\s|$)| [-–—]+ )"
)
_CITATION: Final = re.compile(r"\[(?:[SsPp]?\d+(?:\.\d+)*)\]")
_BULLET: Final = re.compile(r"([ \t]*)(?:[-*•–]|\(?(\d{1,2})[.)])[ \t]+(?=\S)")
_PAIR: Final = re.compile(r"[^|:\n]{1,100}(?: [-–—] |: )\S")
_INITIALS: Final = re.compile(r"(?<![\w.])(?:[^\W\d_]\. ?){1,}[^\W\d_]\b\.?|(?<!\w)[^\W\d_](?: [^\W\d_]){1,}(?= )")
_LETTERS: Final = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ı": "i", "æ": "ae", "œ": "oe"})
STOP_WORDS: Final = frozenset({"the", "a", "an", "and"})


@dataclass(frozen=True)
class Quantity:
    """A number as written."""

    number: Decimal
    """Without its scale."""
    scale: Decimal = Decimal(1)
    unit: str = ""
    digits: int = 1
    """Number of significant digits written."""
    decimals: int = 0
    grouped: Decimal | None = None
    """The number if its point separates thousands: `8.008` for 8008."""

    @property
    def value(self) -> Decimal:
        return self.number * self.scale

    @property
    def dimension(self) -> str:
        return _UNITS[self.unit][1].split()[0] if self.unit else ""

    @property
    def base(self) -> Decimal:
        """The value in the base unit of its dimension."""
        return self.value * Decimal(_UNITS[self.unit][1].split()[1]) if self.unit else self.value


@dataclass(frozen=True)
class Token:
    """A word, number, date or mark, and its position."""

    text: str
    """A folded word, a number, a mark, or a date as day-month-year."""
    kind: str
    line: int = 0
    quantity: Quantity | None = None
    item: Literal["", "bullet", "pair"] = ""
    """Whether its line is a list item: a bullet, a row, or a pair such as `name: value`."""


@lru_cache(maxsize=4_096)
def tokenise(text: str) -> tuple[Token, ...]:
    """Read a text."""
    plain = _fold(text)
    lines = plain.split("\n")
    items = _items(lines)
    plain = "\n".join(_without_bullet(line) if number in items else line for number, line in enumerate(lines))
    tokens: list[Token] = []
    line = 0
    for match in _TOKEN.finditer(plain):
        for token in _read(match):
            tokens.append(replace(token, line=line, item=items.get(line, "")))
            line += token.text == "\n"
    return tuple(tokens)


def _items(lines: Sequence[str]) -> dict[int, Literal["", "bullet", "pair"]]:
    """Find the list items; table heads and numbered lines without a neighbouring number are not items."""
    items: dict[int, Literal["", "bullet", "pair"]] = {}
    bullets = [_BULLET.match(line) for line in lines]
    counted = {int(bullet[2]) for bullet in bullets if bullet and bullet[2]}
    for number, (line, following) in enumerate(zip(lines, [*lines[1:], ""], strict=True)):
        bullet = bullets[number]
        is_row = line.startswith("|") and not following.startswith("|-") and re.search(r"\w", line)
        if is_row or (bullet and (not bullet[2] or {int(bullet[2]) - 1, int(bullet[2]) + 1} & counted)):
            items[number] = "" if bullet and len(bullet[1]) > 1 else "bullet"
        elif _PAIR.match(line):
            items[number] = "pair"
    return items


def _without_bullet(line: str) -> str:
    bullet = _BULLET.match(line)
    return line[bullet.end() :] if bullet else line


def names_unit(text: str, unit: str) -> bool:
    """Return whether a text mentions a unit, with or without a number."""
    return re.search(rf"(?<!\w)(?:{_UNITS[unit][0]})(?!\w)", _fold(text)) is not None


def unit_named(text: str, like: Quantity) -> str:
    """Return the unit of the same dimension that a text names; empty if it names none, or the quantity's own."""
    alike = [unit for unit, (_, measure) in _UNITS.items() if measure.split()[0] == like.dimension]
    named = [unit for unit in alike if names_unit(text, unit)]
    return named[0] if named and like.unit not in named else ""


def scale_named(text: str) -> frozenset[int]:
    """Return the scales that a text names: a table's head may say millions."""
    return frozenset(
        _SCALES[word.removesuffix("s")] for word in re.findall(r"(?:m|b|tr)illions?|thousands?", _fold(text))
    )


def _fold(text: str) -> str:
    text = unicodedata.normalize("NFKC", _CITATION.sub("", text)).replace("\u2011", "-").replace('", "', "\n")
    text = re.sub(r"[*_`#~\"“”]+", "", text)
    text = "".join(each for each in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(each))
    text = re.sub(r"n['’]t\b", " not", text.translate(_LETTERS)).replace("cannot", "can not")
    text = re.sub(r"['’ʼ‘ʻ](?!\d{3})", "", text)
    text = _INITIALS.sub(lambda match: re.sub(r"\W", "", match[0]) + " ", text)
    text = re.sub(r"[ \t\u202f\u00a0]+", " ", text.replace("\\", " "))
    return re.sub(r" (?=[.,;:?!](?:\s|$))", "", text)


def _read(match: re.Match[str]) -> Iterator[Token]:
    groups = match.groupdict()
    if (date := _date(groups)) is not None:
        yield Token(date, "date")
    elif groups["number"]:
        quantity = _quantity(groups)
        yield Token(str(quantity.value), "number", quantity=quantity)
    elif word := groups["word"]:
        if word in _NUMBER_WORDS:
            yield Token(word, "number", quantity=Quantity(Decimal(_NUMBER_WORDS[word])))
        else:
            yield Token(_stem(word), "word")
    else:
        yield Token("–" if groups["range"] else (groups["mark"] or "").strip(" "), "mark")


def _stem(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _date(groups: dict[str, str | None]) -> str | None:
    """Write a date as day-month-year; numeric dates can be day or month first."""
    if iso := groups["iso"]:
        year, month, day = iso.split("-")
        return f"{int(day)}-{int(month)}-{year}"
    if dots := groups["dots"]:
        first, second, year = re.split("[./]", dots)
        is_american = "/" in dots and int(first) <= 12
        day, month = (second, first) if is_american else (first, second)
        return f"{int(day)}-{int(month)}-{year}"
    for letter, day, year in (("a", groups["day"], groups["year"]), ("b", groups["day2"], groups["year2"])):
        if day:
            month = next(number for number in range(1, 13) if groups[f"m{letter}{number}"])
            return f"{int(day)}-{month}-{year}"
    return None


def _quantity(groups: dict[str, str | None]) -> Quantity:
    written = groups["number"] or ""
    number, grouped = _numbers(written)
    if groups["sign"]:
        number = -number
    scale, unit = groups["scale"] or "", groups["unit"] or groups["prefix"] or ""
    if scale == "m":
        scale, unit = ("million", unit) if groups["prefix"] else ("", "m")
    digits = re.sub(r"\D", "", written).lstrip("0")
    return Quantity(
        number,
        Decimal(_SCALES.get(scale, 1)),
        _unit(unit),
        digits=max(1, len(digits) if "." in str(number) else len(digits.rstrip("0"))),
        decimals=len(str(number).partition(".")[2]),
        grouped=grouped,
    )


def _numbers(written: str) -> tuple[Decimal, Decimal | None]:
    """Parse digits; `1.234` can also be 1234, and `3,5` is 3.5."""
    plain = re.sub(r"[' ](?=\d{3})", "", written)
    if re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", plain):
        return Decimal(plain.replace(",", "")), None
    if re.fullmatch(r"\d{1,3}(?:\.\d{3}){2,}(?:,\d+)?|\d{1,3}\.\d{3},\d+", plain):
        return Decimal(plain.replace(".", "").replace(",", ".")), None
    if re.fullmatch(r"[1-9]\d{0,2}\.\d{3}", plain):
        return Decimal(plain), Decimal(plain.replace(".", ""))
    return Decimal(plain.replace(",", ".")), None


def _unit(written: str) -> str:
    if not written:
        return ""
    for unit, (names, measure) in _UNITS.items():
        if re.fullmatch(names, written) and measure.startswith("area") == bool(
            _SQUARE.search(written) or unit in {"ha", "acre"}
        ):
            return unit
    return ""
