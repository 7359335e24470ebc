"""The grammar of figures: a question is one only if every word of it is accounted for, in exactly one way."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal

from activities.documents.catalog import Catalog, Column, Table
from activities.documents.words import language_of
from activities.models.extractive import lexicon
from activities.models.extractive.lexicon import AGGREGATES, OPENERS, Mark
from activities.models.extractive.periods import Period
from activities.models.extractive.vocabulary import Part, Vocabulary
from activities.models.extractive.wording import Token, read_tokens, stems

Operation = Literal["sum", "mean", "max", "min", "value", "count", "per", "top", "bottom"]

_MOST_TOKENS: Final = 40
_MOST_CUTS: Final = 2_000
_CAUSES: Final = frozenset({"lost", "due"})
"""Words whose `to` names a cause; any other `to` may be a direction that no column has."""
_OPERATIONS: Final[dict[Mark, Operation]] = {Mark.MEAN: "mean", Mark.MAX: "max", Mark.MIN: "min", Mark.SUM: "sum"}
_TIME_UNITS: Final = {"month": "month", "monat": "month", "year": "year", "jahr": "year"}


@dataclass(frozen=True)
class Condition:
    """What a row must have in one column."""

    column: Column
    values: tuple[str, ...]
    is_open: bool


@dataclass(frozen=True)
class Figure:
    """A figure that a question asks for."""

    table: Table
    operation: Operation
    measure: Column | None
    group: Column | str | None
    """A column, or `month` or `year` of the calendar."""
    conditions: tuple[Condition, ...]
    group_sql: str
    """The unit of the calendar in SQL; empty for a column."""
    period: Period | None
    period_text: str
    """As the question has it."""
    period_sql: str
    year_sql: str
    is_single: bool
    """Whether the figure holds only for one row, or one row a group, since more of them make no sum."""
    language: str


def read_figure(question: str, catalog: Catalog) -> Figure | None:
    """Read a question as a figure over one table; None unless there is exactly one way to."""
    language = language_of(question)
    tokens = read_tokens(question, language)
    if not lexicon.is_known(language) or not 2 <= len(tokens) <= _MOST_TOKENS:
        return None
    found = {figure for table in catalog.tables for figure in islice(_figures(tokens, table, language), _MOST_CUTS)}
    return found.pop() if len(found) == 1 else None


def _figures(tokens: Sequence[Token], table: Table, language: str) -> Iterator[Figure]:
    vocabulary = Vocabulary(table, language, frozenset(token.stem for token in tokens))
    unknown = vocabulary.unknown(tokens)
    for cut in islice(vocabulary.segment(tokens, unknown), _MOST_CUTS):
        parts = _joined(cut, language)
        if parts is not None:
            yield from _Reading(vocabulary, parts).figures()


def _joined(cut: Sequence[Part], language: str) -> list[Part] | None:
    """Join ranges and lists; None if a word such as `from` or `and` does neither."""
    parts: list[Part] = []
    rest = list(cut)
    while rest:
        part, width = _range(rest) or _list(rest) or (rest[0], 1)
        del rest[:width]
        if part.mark in {Mark.FROM, Mark.BETWEEN, Mark.TO, Mark.AND}:
            is_of = part.mark is Mark.FROM and language == "de"
            is_cause = part.mark is Mark.TO and any(token.word in _CAUSES for done in parts for token in done.tokens)
            if not (is_of or is_cause) or (rest and rest[0].period):
                return None
            continue
        parts.append(part)
    return parts


def _range(parts: Sequence[Part]) -> tuple[Part, int] | None:
    """Read `from A to B`, `between A and B` or `A to B`."""
    opener = parts[0].mark if parts[0].mark in {Mark.FROM, Mark.BETWEEN} else None
    start = 1 if opener else 0
    if len(parts) < start + 3:
        return None
    first, middle, last = parts[start : start + 3]
    if middle.mark is not (Mark.AND if opener is Mark.BETWEEN else Mark.TO):
        return None
    tokens = tuple(token for part in parts[: start + 3] for token in part.tokens)
    if first.period and last.period and (joined := first.period.through(last.period)):
        return Part(tokens, period=joined), start + 3
    if first.column and first.column == last.column and (values := _between(first, last)):
        return Part(tokens, column=first.column, values=values), start + 3
    return None


def _between(first: Part, last: Part) -> tuple[str, ...]:
    """List the values of a column from one to another, if all of them are one word with a number: `Q1`, `Week 12`."""
    if first.column is None or first.column.distinct > len(first.column.examples):
        return ()
    numbered: dict[int, str] = {}
    for value in first.column.examples:
        digits = "".join(character for character in value if character.isdigit())
        if not digits or digits not in value or int(digits) in numbered:
            return ()
        numbered[int(digits)] = value
    if len({value.replace(str(number), "") for number, value in numbered.items()}) != 1:
        return ()
    ends = [number for number, value in numbered.items() if value in (*first.values, *last.values)]
    return tuple(value for number, value in sorted(numbered.items()) if min(ends) <= number <= max(ends))


def _list(parts: Sequence[Part]) -> tuple[Part, int] | None:
    """Read `A and B` of one column."""
    if len(parts) < 3 or parts[0].column is None or parts[1].mark is not Mark.AND:
        return None
    first, _, last = parts[:3]
    if first.column != last.column or first.is_open or last.is_open:
        return None
    return Part((*first.tokens, *last.tokens), column=first.column, values=(*first.values, *last.values)), 3


class _Reading:
    """One way to read the parts of a question, on its way to be a figure."""

    def __init__(self, vocabulary: Vocabulary, parts: list[Part]) -> None:
        self._vocabulary = vocabulary
        self._parts = parts
        self._marks = [part.mark for part in parts if part.mark]
        self._used: set[int] = set()
        self._group: Column | str | None = None

    def figures(self) -> Iterator[Figure]:
        """Yield the figures that account for every word."""
        openers = [mark for mark in self._marks if mark in OPENERS]
        aggregates = [mark for mark in self._marks if mark in AGGREGATES]
        groupers = [at for at, part in enumerate(self._parts) if part.mark in {Mark.WHICH, Mark.PER}]
        periods = [part.period for part in self._parts if part.period]
        if max(len(openers), len(aggregates), len(groupers), len(periods)) > 1 or not (openers or aggregates):
            return
        if groupers and not self._take_group(groupers[0]):
            return
        if not self._take_labels():
            return
        period = periods[0] if periods else None
        for measure in (None, *self._vocabulary.table.columns):
            left = self._left(measure)
            if left is None or measure == self._group is not None:
                continue
            opener = openers[0] if openers else Mark.WHAT
            aggregate = aggregates[0] if aggregates else None
            figure = self._figure(opener, aggregate, measure, left, period)
            if figure is not None:
                yield figure

    def _words_from(self, at: int, step: int, wanted: Sequence[str]) -> list[int] | None:
        """List the parts before or after another that are exactly some words; None if they do not stand there."""
        places = [at + step * (number + 1) for number in range(len(wanted))][::step]
        if not wanted or places[0] < 0 or places[-1] >= len(self._parts):
            return None
        said = [self._parts[place].tokens[0].stem if self._parts[place].is_word else "" for place in places]
        return places if said == list(wanted) else None

    def _take_group(self, at: int) -> bool:
        """Take the column after `which` or `per`, the longest that fits."""
        columns = sorted(self._vocabulary.table.columns, key=lambda column: -len(self._vocabulary.words(column)))
        for column in columns:
            if places := self._words_from(at, 1, self._vocabulary.words(column)):
                self._used.update(places)
                self._group = column
                return True
        unit = _TIME_UNITS.get(self._parts[at + 1].tokens[0].word) if at + 1 < len(self._parts) else None
        if unit and self._vocabulary.calendar and self._vocabulary.calendar.days:
            self._used.add(at + 1)
            self._group = unit
            return True
        return False

    def _take_labels(self) -> bool:
        """Take the names of columns beside their values: `Island route`; two conditions on one column are none."""
        conditioned = [part.column for part in self._parts if part.column]
        for at, part in enumerate(self._parts):
            if part.column is not None:
                wanted = self._vocabulary.words(part.column)
                places = self._words_from(at, -1, wanted) or self._words_from(at, 1, wanted) or []
                if not self._used.intersection(places):
                    self._used.update(places)
        names = [column.name for column in conditioned]
        return len(set(names)) == len(names) and self._group not in conditioned

    def _left(self, measure: Column | None) -> frozenset[str] | None:
        """List the stems that only the table's own name accounts for; None if a word is not accounted for."""
        pool = [part.tokens[0] for at, part in enumerate(self._parts) if part.is_word and at not in self._used]
        pool = [token for token in pool if not lexicon.is_empty(token.word, self._vocabulary.language)]
        said = {token.stem for token in pool}
        taken: set[str] = set()
        if measure is not None:
            taken.update(self._vocabulary.words(measure))
            if not taken <= said:
                return None
            units = stems(measure.title or measure.name, self._vocabulary.language)
            taken.update(token.stem for token in pool if lexicon.unit_group(token.word).intersection(units))
        calendar = self._vocabulary.calendar
        if calendar and any(part.period for part in self._parts):
            taken.update(word for column in calendar.columns for word in self._vocabulary.words(column))
        left = frozenset(said - taken)
        return left if left <= self._vocabulary.name else None

    def _figure(
        self, opener: Mark, aggregate: Mark | None, measure: Column | None, left: frozenset[str], period: Period | None
    ) -> Figure | None:
        operation = self._operation(opener, aggregate, measure, left)
        calendar = self._vocabulary.calendar
        if operation is None or (period and not calendar):
            return None
        names = [word for name in (self._vocabulary.table.document, self._vocabulary.table.sheet) for word in stems(name, "en")]
        period_sql = calendar.condition(period, names) if period and calendar else ""
        if period_sql is None:
            return None
        conditions = tuple(
            Condition(part.column, part.values, part.is_open) for part in self._parts if part.column is not None
        )
        looks_up = opener is Mark.WHICH and operation == "value"
        if operation == "value" and not (conditions or period):
            return None
        is_single = self._is_single(aggregate, measure) and operation in {"value", "per", "top", "bottom"}
        if operation == "bottom" and not is_single and (conditions or period):
            return None
        return Figure(
            table=self._vocabulary.table,
            operation=operation,
            measure=self._group if looks_up and isinstance(self._group, Column) else measure,
            group=None if looks_up else self._group,
            conditions=conditions,
            group_sql="" if not isinstance(self._group, str) or not calendar else calendar.unit_sql(self._group),
            period=period,
            period_text=" ".join(token.text for part in self._parts if part.period for token in part.tokens),
            period_sql=period_sql,
            year_sql=calendar.year_sql() if calendar else "NULL",
            is_single=is_single,
            language=self._vocabulary.language,
        )

    def _is_single(self, aggregate: Mark | None, measure: Column | None) -> bool:
        if measure is None or not self._adds_up(measure) or aggregate in {Mark.MAX, Mark.MIN}:
            return True
        return aggregate is not Mark.SUM and not self._vocabulary.has_time

    def _adds_up(self, measure: Column) -> bool:
        named = read_tokens((measure.title or measure.name).replace("_", " "), self._vocabulary.language)
        return self._vocabulary.is_number(measure) and lexicon.is_added([token.word for token in named])

    def _operation(
        self, opener: Mark, aggregate: Mark | None, measure: Column | None, left: frozenset[str]
    ) -> Operation | None:
        """Find what is to be done with the measure; None for what makes no sense."""
        if opener is Mark.WHICH:
            return self._choice(aggregate, measure)
        if measure is None:
            counts = opener is Mark.COUNT and aggregate in {None, Mark.SUM} and self._group is None
            return "count" if counts and self._vocabulary.counts_rows(left) else None
        if not self._vocabulary.is_number(measure):
            return self._of_text(opener, aggregate, measure)
        if opener is Mark.WHEN or aggregate in {Mark.MOST, Mark.LEAST}:
            return None
        if aggregate is Mark.SUM and not self._adds_up(measure):
            return None
        if self._group is not None:
            return "per" if aggregate in {None, Mark.SUM} else None
        if aggregate in {Mark.MEAN, Mark.MAX, Mark.MIN} and not self._vocabulary.has_unique:
            return None
        return _OPERATIONS[aggregate] if aggregate else "value"

    def _choice(self, aggregate: Mark | None, measure: Column | None) -> Operation | None:
        """Read `which vessel has …`: the row with a value, or the group with the most or least of a measure."""
        if measure is None:
            return "value" if aggregate is None and isinstance(self._group, Column) else None
        if not self._vocabulary.is_number(measure):
            return None
        if aggregate in {Mark.MOST, Mark.MAX}:
            return "top"
        return "bottom" if aggregate in {Mark.LEAST, Mark.MIN} else None

    def _of_text(self, opener: Mark, aggregate: Mark | None, measure: Column) -> Operation | None:
        if self._group is not None or aggregate is not None:
            return None
        if opener is Mark.COUNT:
            return "count" if self._vocabulary.is_unique(measure) else None
        is_when = measure.type.startswith(("DATE", "TIMESTAMP", "TIME"))
        if opener is Mark.AMOUNT or (opener is Mark.WHEN and not is_when):
            return None
        return "value"
