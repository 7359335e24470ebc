"""What a data question wants done: which figure, in which order, how many, grouped by what."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from activities.models.extractive.reading import Reading
from activities.models.extractive.tables import WHERE, WHO, Field
from activities.models.extractive.wording import phrases, stem, word_set

Aggregate = Literal["sum", "avg", "median", "min", "max", "stddev", "count", "distinct", ""]
Order = Literal["highest", "lowest", "latest", "earliest", ""]

_AGGREGATES: Final[tuple[tuple[Aggregate, tuple[str, ...]], ...]] = (
    ("stddev", ("standard deviation",)),
    ("median", ("median",)),
    ("avg", phrases("on average | average | mean | avg | typical | typically")),
    (
        "distinct",
        phrases(
            "how many different | how many distinct | how many unique | number of different | number of distinct "
            "| number of unique | count of distinct | count distinct"
        ),
    ),
    ("count", phrases("how many | number of | count of | how often | how frequently | count")),
    ("sum", phrases("in total | sum up | add up | total | totals | sum | altogether | combined | overall")),
)
_ORDERS: Final[tuple[tuple[Order, tuple[str, ...]], ...]] = (
    ("latest", phrases("most recently | most recent | latest | newest | youngest")),
    ("earliest", phrases("earliest | oldest")),
    (
        "lowest",
        phrases(
            "least expensive | lowest | smallest | least | fewest | minimum | min | shortest | cheapest | lightest "
            "| slowest | bottom | rarest"
        ),
    ),
    (
        "highest",
        phrases(
            "most expensive | most common | most frequent | most frequently | most often | most popular | highest "
            "| largest | biggest | maximum | max | greatest | longest | costliest | heaviest | priciest | busiest "
            "| fastest | most | top | peak"
        ),
    ),
)
_HINTS: Final = {
    **dict.fromkeys(("longest", "shortest"), "duration"),
    **dict.fromkeys(("most expensive", "costliest"), "cost"),
    **dict.fromkeys(("least expensive", "cheapest", "priciest"), "price"),
    **dict.fromkeys(("heaviest", "lightest"), "weight"),
    **dict.fromkeys(("fastest", "slowest"), "speed"),
}
_SINGLE: Final = frozenset(
    phrases(
        "longest | shortest | largest | biggest | smallest | greatest | heaviest | lightest | costliest | cheapest "
        "| most expensive | least expensive"
    )
)
_COUNTED: Final = frozenset(
    phrases("most common | most frequent | most frequently | most often | most popular | busiest | rarest")
)
_NUMBERS: Final = {
    word: number
    for number, word in enumerate(phrases("one | two | three | four | five | six | seven | eight | nine | ten"), 1)
}
_GROUPERS: Final = word_set("by per each every which what across whose")
_SKIPPED: Final = word_set("the each every a an different our my all individual given is are was were had has have")
_ADVERBS: Final = word_set("monthly quarterly yearly annual annually weekly daily")
_TRENDS: Final = phrases(
    "over time | over the year | over the years | over the months | trend | develop | developed | evolve | evolved"
)
_TIME_UNITS: Final = {
    word: unit
    for unit, words in {
        "month": "month months monthly",
        "quarter": "quarter quarters quarterly",
        "year": "year years yearly annual annually",
        "week": "week weeks weekly",
        "weekday": "weekday weekdays",
        "day": "day days daily date",
    }.items()
    for word in words.split()
}


@dataclass(frozen=True)
class Dimension:
    """What a figure is broken down by."""

    sql: str
    alias: str
    label: str
    is_time: bool = False


@dataclass(frozen=True)
class Intent:
    """What is to be done with the rows."""

    aggregate: Aggregate = ""
    order: Order = ""
    limit: int = 0
    """How many were asked for; 0 if it was not said."""
    is_share: bool = False
    is_counted: bool = False
    """Whether the order is one of how often something occurs."""
    is_many: bool = False
    """Whether the order is one of numbers: `most outages`, rather than one of size: `largest outage`."""
    is_single: bool = False
    """Whether it orders single rows: `which vessel had the longest outage`."""
    hint: str = ""
    """What a superlative says about the measure: `longest` is about a duration."""
    counted_at: int = -1
    """Where the noun that is counted is expected."""
    ordered_at: int = -1
    """Where the noun that is ordered is expected."""
    word: str = ""
    """The superlative itself."""


def read_intent(reading: Reading) -> Intent:
    """Find the words that say what is to be computed."""
    share_at = reading.find("share", "percentage", "percent", "proportion", "fraction")
    order, word, ordered_at = _find_order(reading)
    aggregate: Aggregate = ""
    counted_at = -1 if share_at is None else share_at + 1
    for name, said in _AGGREGATES:
        for phrase in said:
            at = reading.find(phrase)
            if at is None:
                continue
            if name in {"count", "distinct"} and counted_at < 0:
                counted_at = at + len(phrase.split())
            aggregate = aggregate or name
            break
    limit = _find_limit(reading, ordered_at, word)
    return Intent(
        aggregate,
        order,
        limit,
        share_at is not None,
        is_counted=word in _COUNTED,
        is_many=word in {"most", "fewest", "least"},
        is_single=word in _SINGLE and reading.is_subject(ordered_at) and not _measures_there(reading, ordered_at),
        hint=_HINTS.get(word, ""),
        counted_at=counted_at,
        ordered_at=ordered_at,
        word=word,
    )


def _find_order(reading: Reading) -> tuple[Order, str, int]:
    for name, said in _ORDERS:
        for phrase in said:
            at = reading.find(phrase)
            if at is None:
                continue
            if phrase in {"most", "least"} and at and reading.lower[at - 1] == "at":
                continue
            return name, phrase, at + len(phrase.split())
    if reading.find("rank", "ranked", "ranking") is not None:
        return "highest", "rank", len(reading.words)
    at = reading.find("last", "first") if reading.view.date_field else None
    if at is not None:
        return ("latest" if reading.lower[at] == "last" else "earliest"), reading.lower[at], at + 1
    return "", "", -1


def _find_limit(reading: Reading, ordered_at: int, word: str) -> int:
    if ordered_at < 0:
        return 0
    for i in (ordered_at, ordered_at - len(word.split()) - 1):
        if reading.is_free(i):
            said = reading.lower[i]
            number = int(said) if said.isdigit() and len(said) < 4 else _NUMBERS.get(said, 0)
            if number and not (said == "one" and i != ordered_at):
                reading.use([i])
                return number
    return 0


def find_dimensions(reading: Reading, intent: Intent) -> tuple[Dimension, ...]:
    """Find what the figures are broken down by: after `by`, `per`, `each`, `which`, or where a superlative wants it."""
    found: dict[str, Dimension] = {}
    for i, word in enumerate(reading.lower):
        if word in _GROUPERS:
            _take_dimension(reading, i + 1, found, is_asked=word in {"which", "what", "whose"}, intent=intent)
        elif word == "who":
            _take_field(reading, i, found, lambda field: bool({stem(name) for name in WHO} & set(field.tokens)))
        elif word == "where":
            _take_field(reading, i, found, lambda field: bool({stem(name) for name in WHERE} & set(field.tokens)))
        elif word in _ADVERBS and reading.is_free(i):
            _take_time(reading, i, found)
    trends = [at for phrase in _TRENDS if (at := reading.find(phrase)) is not None]
    if trends and not any(dimension.is_time for dimension in found.values()):
        _add_time(reading, "month", found)
    if intent.order in {"highest", "lowest"} and not found:
        _take_named(reading, intent, found)
    return tuple(found.values())


def _take_dimension(
    reading: Reading, position: int, found: dict[str, Dimension], *, is_asked: bool, intent: Intent
) -> None:
    while position < len(reading.words) and (reading.lower[position] in _SKIPPED or position == intent.ordered_at - 1):
        position += 1
    if not reading.is_free(position):
        # "which three vessels", "by July": a number or a time may stand before the noun
        if not (is_asked and position + 1 < len(reading.words) and reading.lower[position] in {*_NUMBERS, "top"}):
            return
        position += 1
    if not _take_one(reading, position, found, is_asked=is_asked):
        return
    following = position + 1
    while following < len(reading.words) and following in reading.used:
        following += 1
    if not is_asked and following < len(reading.words) and reading.lower[following] in {"and", "by", "per"}:
        _take_one(reading, following + 1, found, is_asked=False)


def _take_one(reading: Reading, position: int, found: dict[str, Dimension], *, is_asked: bool) -> bool:
    def may_group(field: Field) -> bool:
        return field.is_groupable and (not field.is_measure or (field.is_rate and not is_asked))

    named = reading.field_at(position, may_group)
    is_exact = named is not None and named[0].likeness(reading.words[position].stem) == 1.0
    if not (is_exact and named and named[0].kind != "date") and _take_time(reading, position, found):
        return True
    if named is None or (reading.is_subject(position) and not is_exact):
        return False
    if named[0].kind == "date":
        return is_exact and _add_time(reading, "day", found) and not reading.use(named[1])
    reading.use(named[1])
    _add_field(found, named[0])
    return True


def _take_field(reading: Reading, position: int, found: dict[str, Dimension], accept: Callable[[Field], bool]) -> None:
    field = next((field for field in reading.view.fields if field.kind == "text" and accept(field)), None)
    if field:
        reading.use([position])
        _add_field(found, field)


def _take_time(reading: Reading, position: int, found: dict[str, Dimension]) -> bool:
    if not reading.is_free(position):
        return False
    said = reading.lower[position]
    unit = _TIME_UNITS.get(said, "")
    if said == "day" and reading.lower[position : position + 4] == ("day", "of", "the", "week"):
        unit = "weekday"
        reading.use([position + 3])
    field = next((field for field in reading.view.fields if unit and field.tokens == (stem(unit),)), None)
    if field is not None and field.kind != "date":
        reading.use([position])
        _add_field(found, field)
        return True
    if unit and _add_time(reading, unit, found):
        reading.use([position])
        return True
    return False


def _add_time(reading: Reading, unit: str, found: dict[str, Dimension]) -> bool:
    dates = [field for field in reading.view.fields if field.kind == "date"]
    said = frozenset(word.stem for word in reading.words)
    field = max(dates, key=lambda field: field.score(said), default=None)
    if field is None:
        return False
    sql = {
        "day": f"CAST({field.sql} AS DATE)",
        "week": f"strftime({field.sql}, '%G-W%V')",
        "weekday": f"dayname({field.sql})",
        "month": f"strftime({field.sql}, '%Y-%m')",
        "quarter": f"strftime({field.sql}, '%Y') || '-Q' || quarter({field.sql})",
        "year": f"year({field.sql})",
    }[unit]
    found.setdefault(unit, Dimension(sql, unit, unit, is_time=True))
    return True


def _add_field(found: dict[str, Dimension], field: Field) -> None:
    found.setdefault(field.sql, Dimension(field.sql, field.column.name, field.label))


def _take_named(reading: Reading, intent: Intent, found: dict[str, Dimension]) -> None:
    """Take the noun of `the most expensive vessel` or `top 3 sites`."""
    starts = [
        i for i in (*range(intent.ordered_at, len(reading.words)), *range(intent.ordered_at)) if reading.is_free(i)
    ]
    for i in starts:
        named = reading.field_at(i, lambda field: field.kind == "text" and field.is_groupable)
        if named and named[0].likeness(reading.words[i].stem) == 1.0 and not _measures_there(reading, i):
            reading.use(named[1])
            _add_field(found, named[0])
            return


def _measures_there(reading: Reading, position: int) -> bool:
    measure = reading.field_at(position, lambda field: field.is_measure)
    return measure is not None and measure[0].likeness(reading.words[position].stem) == 1.0
