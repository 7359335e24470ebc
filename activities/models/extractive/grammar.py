"""The grammar of figures: a question is one only if every word of it is accounted for, in exactly one way."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from activities.documents.catalog import Catalog, Column, Table
from activities.documents.words import language_of
from activities.models.extractive import lexicon
from activities.models.extractive.lexicon import Mark
from activities.models.extractive.periods import Period, time_unit
from activities.models.extractive.vocabulary import Part, Vocabulary, title_of
from activities.models.extractive.wording import read_tokens, stems

_T = TypeVar("_T")
_MOST_TOKENS: Final = 40
_MOST_CUTS: Final = 2_000
_CAUSES: Final = frozenset({"lost", "due"})
"""Words whose `to` names a cause; any other `to` may be a direction that no column has."""


class Figure(NamedTuple):
    table: Table
    operation: str
    """`sum`, `mean`, `max`, `min`, `value`, `count`, `per` or `top`."""
    measure: Column | None
    group: Column | None
    conditions: tuple[tuple[Column, tuple[str, ...]], ...]
    """Columns, and the spellings of the value that a row must have there."""
    period: Period | None
    period_text: str
    period_sql: str
    year_sql: str
    """The year of a row, where the period may be in several; empty if not."""
    is_single: bool
    """Whether the figure holds only for one row, or one row a group, since more of them make no sum."""
    language: str


def read_figure(question: str, catalog: Catalog) -> Figure | None:
    """Read a question as a figure over one table; None unless there is exactly one way to."""
    language = language_of(question)
    tokens = read_tokens(question, language)
    if language not in lexicon.LANGUAGES or not 2 <= len(tokens) <= _MOST_TOKENS:
        return None
    found: set[Figure] = set()
    for table in catalog.tables:
        vocabulary = Vocabulary(table, language, tokens)
        cuts = list(islice(vocabulary.cuts(), _MOST_CUTS))
        if len(cuts) == _MOST_CUTS:
            return None
        found.update(figure for cut in cuts for figure in _Reading(vocabulary, _joined(cut, language)).figures())
    return found.pop() if len(found) == 1 else None


def _joined(cut: Sequence[Part], language: str) -> list[Part]:
    """Join `from A to B` into one period, and leave out a `von` or `to` that only says `of`."""
    parts: list[Part] = []
    rest = list(cut)
    while rest:
        part, width = _range(rest) or (rest[0], 1)
        del rest[:width]
        is_of = part.mark is Mark.FROM and language == "de"
        is_cause = part.mark is Mark.TO and any(token.word in _CAUSES for done in parts for token in done.tokens)
        if not (is_of or is_cause) or (rest and rest[0].period):
            parts.append(part)
    return parts


def _range(parts: Sequence[Part]) -> tuple[Part, int] | None:
    opener = parts[0].mark if parts[0].mark in {Mark.FROM, Mark.BETWEEN} else None
    width = 4 if opener else 3
    if len(parts) < width:
        return None
    first, middle, last = parts[width - 3 : width]
    if middle.mark is not (Mark.AND if opener is Mark.BETWEEN else Mark.TO) or not first.period or not last.period:
        return None
    joined = first.period.through(last.period)
    return (Part((*first.tokens, *middle.tokens, *last.tokens), period=joined), width) if joined else None


def _only(found: Sequence[_T]) -> _T | None:
    return found[0] if len(found) == 1 else None


class _Reading:
    """One way to read the parts of a question."""

    def __init__(self, vocabulary: Vocabulary, parts: list[Part]) -> None:
        self._vocabulary = vocabulary
        self._columns = vocabulary.table.columns
        self._parts = parts
        self._used: set[int] = set()
        self._group: Column | None = None
        marks = [part.mark for part in parts if part.mark]
        self._opener = _only([mark for mark in marks if mark in lexicon.OPENERS])
        self._is_total = Mark.SUM in marks
        others = {Mark.SUM} if self._opener is Mark.WHICH else set[Mark]()
        self._aggregate = _only([mark for mark in marks if mark in lexicon.AGGREGATES and mark not in others])
        self._period = _only([part for part in parts if part.period])

    def figures(self) -> Iterator[Figure]:
        marks = [part.mark for part in self._parts if part.mark]
        groupers = [at for at, part in enumerate(self._parts) if part.mark in {Mark.WHICH, Mark.PER}]
        read = [self._opener, self._aggregate, self._is_total and self._aggregate is not Mark.SUM, Mark.PER in marks]
        is_one_period = sum(part.period is not None for part in self._parts) == (self._period is not None)
        if not any(read[:2]) or len(marks) != sum(map(bool, read)) or not is_one_period or len(groupers) > 1:
            return
        if all(map(self._take_group, groupers)) and self._take_labels():
            for measure in (None, *self._columns):
                if measure is None or measure != self._group:
                    yield from self._with_measure(measure)

    def _places(self, at: int, wanted: Sequence[str]) -> range | None:
        """Find some words at a place, none of them used yet."""
        places = range(at, at + len(wanted))
        is_there = at >= 0 and places.stop <= len(self._parts) and not self._used.intersection(places)
        return places if is_there and [self._parts[place].word for place in places] == list(wanted) else None

    def _take_group(self, at: int) -> bool:
        """Take the column after `which` or `per`, the longest that fits."""
        for column in sorted(self._columns, key=lambda column: -len(self._vocabulary.words(column))):
            if self._group is None and (places := self._places(at + 1, self._vocabulary.words(column))):
                self._used.update(places)
                self._group = column
        return self._group is not None

    def _take_labels(self) -> bool:
        """Take the names of columns beside their values: `Island route`; False for two conditions on one column."""
        conditioned = [part.column.name for part in self._parts if part.column]
        for at, part in enumerate(self._parts):
            if part.column is not None:
                wanted = self._vocabulary.words(part.column)
                self._used.update(self._places(at - len(wanted), wanted) or self._places(at + 1, wanted) or ())
        return len(set(conditioned)) == len(conditioned) and (not self._group or self._group.name not in conditioned)

    def _with_measure(self, measure: Column | None) -> Iterator[Figure]:
        """Yield the figure of a measure, if the question names it and nothing else."""
        left = self._left(measure)
        operation = None if left is None else self._operation(measure, left)
        calendar = self._vocabulary.calendar
        period = self._period.period if self._period else None
        conditions = tuple((part.column, part.values) for part in self._parts if part.column is not None)
        names = frozenset(word for name in self._vocabulary.names for word in name)
        period_sql = "" if not period else calendar.condition(period, names) if calendar else None
        if operation is None or period_sql is None or (operation == "value" and not (conditions or period)):
            return
        is_highest = self._aggregate is Mark.MAX and not self._is_total
        is_sum = measure and not is_highest and self._vocabulary.adds_up(measure, unasked=not self._is_total)
        is_yearless = period and not period.first.year and calendar and calendar.unit == "day"
        yield Figure(
            table=self._vocabulary.table,
            operation=operation,
            measure=measure or (self._group if operation == "value" else None),
            group=self._group if operation in {"per", "top"} else None,
            conditions=conditions,
            period=period,
            period_text=" ".join(token.text for token in self._period.tokens) if self._period else "",
            period_sql=period_sql,
            year_sql=f'year("{calendar.column.name}")' if is_yearless and calendar else "",
            is_single=operation in {"value", "per", "top"} and not is_sum,
            language=self._vocabulary.language,
        )

    def _left(self, measure: Column | None) -> frozenset[str] | None:
        """List the stems that only the table's own name accounts for; None if a word is not accounted for."""
        skipped = lexicon.empty_words(self._vocabulary.language)
        pool = [part.tokens[0] for at, part in enumerate(self._parts) if part.word and at not in self._used]
        said = {token.stem for token in pool if token.word not in skipped}
        taken: set[str] = set()
        if measure is not None:
            taken.update(self._vocabulary.words(measure))
            units = stems(title_of(measure), self._vocabulary.language)
            if not taken <= said:
                return None
            taken.update(token.stem for token in pool if lexicon.unit_forms(token.word).intersection(units))
        if self._vocabulary.calendar and self._period:
            taken.update(self._vocabulary.words(self._vocabulary.calendar.column))
        left = frozenset(said - taken)
        return left if left.issubset(word for name in self._vocabulary.names for word in name) else None

    def _operation(self, measure: Column | None, left: frozenset[str]) -> str | None:
        """Find what is to be done with the measure; None for what makes no sense."""
        opener, aggregate = self._opener, self._aggregate
        if measure is None or not self._vocabulary.is_number(measure):
            return self._of_rows(measure, left)
        if self._group is not None:
            wanted, operation = ({Mark.MOST, Mark.MAX}, "top") if opener is Mark.WHICH else ({None, Mark.SUM}, "per")
            return operation if aggregate in wanted else None
        is_unique = any(map(self._vocabulary.is_unique, self._columns))
        is_sum = aggregate is Mark.SUM and self._vocabulary.adds_up(measure)
        is_wise = aggregate is None or is_sum or (is_unique and aggregate in {Mark.MEAN, Mark.MAX, Mark.MIN})
        if opener is Mark.WHEN or not is_wise:
            return None
        return aggregate.name.lower() if aggregate else "value"

    def _of_rows(self, measure: Column | None, left: frozenset[str]) -> str | None:
        """Read `which vessel has …` as the row with a value, count rows, or look up what is no number."""
        if self._opener is Mark.WHICH or self._group is not None:
            return "value" if self._opener is Mark.WHICH and measure is None and self._aggregate is None else None
        if self._opener is Mark.COUNT and self._aggregate in {None, Mark.SUM}:
            is_row = self._vocabulary.counts_rows(left) if measure is None else self._vocabulary.is_unique(measure)
            return "count" if is_row else None
        is_asked = self._opener is Mark.WHAT or (self._opener is Mark.WHEN and measure and time_unit(measure) == "day")
        return "value" if measure is not None and is_asked and self._aggregate is None else None
