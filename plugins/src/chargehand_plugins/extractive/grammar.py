"""The grammar of figures: a question is one only if every word of it is accounted for, in exactly one way."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from activities.documents.catalog import Catalog, Column, Table
from activities.documents.sql_names import quoted_text
from activities.documents.words import language_of
from chargehand_plugins.extractive import lexicon
from chargehand_plugins.extractive.lexicon import BOUNDS, COMPARISONS, RANKS
from chargehand_plugins.extractive.periods import Calendar, time_unit
from chargehand_plugins.extractive.tokens import Token, number, read_tokens
from chargehand_plugins.extractive.vocabulary import Part, Vocabulary, title_of

_T = TypeVar("_T")
_MOST_TOKENS: Final = 40
_MOST_CUTS: Final = 2_000
_CAUSES: Final = frozenset({"lost", "due"})
"""Words whose `to` names a cause; any other `to` may be a direction that no column has."""
_SOURCED: Final = frozenset({"income", "revenue", "earnings", "takings", "sales"})
"""Words whose `from` names a source."""
_ALL_WORDS, _A_WORD, _ITS_UNIT = 3, 2, 1
"""How closely words name a column."""
_NEAR: Final = 3
"""How many words may stand between a number and the column that it compares."""


class Condition(NamedTuple):
    """What a row must have."""

    column: Column
    sql: str
    text: str
    is_value: bool = False


class Figure(NamedTuple):
    table: Table
    operation: str
    """`sum`, `mean`, `max`, `min`, `value`, `count`, `different`, `share`, `list`, `per`, `most` or `least`."""
    measure: Column | None
    group: Column | None
    conditions: tuple[Condition, ...]
    period_text: str
    year_sql: str
    """The year of a row, where the period may be in several; empty if not."""
    calendar_sql: str
    """The time of a row, if it is what tells rows apart; empty if they have a name."""
    currency: Column | None
    """The column of currencies that amounts are kept apart by."""
    is_single: bool
    """Whether the figure holds only for one row, or one row a group, since more of them make no sum."""
    is_loose: bool
    """Whether a column was named by some of its words only."""
    is_known: bool
    """Whether every value that rows must have is known to occur, so that no rows are none."""
    language: str


def read_figure(question: str, catalog: Catalog) -> Figure | None:
    """Read a question as a figure over one table; None unless there is exactly one way to."""
    found: set[Figure] = set()
    for vocabulary in _vocabularies(question, catalog):
        cuts = list(islice(vocabulary.cuts(), _MOST_CUTS))
        if len(cuts) == _MOST_CUTS:
            return None
        found.update(figure for cut in cuts for figure in _Reading(vocabulary, _joined(cut)).figures())
    exact = {figure for figure in found if not figure.is_loose} or found
    return exact.pop() if len(exact) == 1 else None


def why_unread(question: str, catalog: Catalog) -> tuple[Table, str] | None:
    """Find the table that knows most of a question, and a word that it does not know; None if it asks for no figure.

    The word is empty if all of them are known, but do not make one figure.
    """
    best, most = None, 0
    for vocabulary in _vocabularies(question, catalog):
        tokens, known = vocabulary.tokens, vocabulary.known
        places = range(len(tokens))
        marks = {mark for at in places for mark, _ in lexicon.marks_at(tokens, at, vocabulary.language)}
        asks = marks & (lexicon.AGGREGATES | {"count", "list"}) or ("which" in marks and "what" not in marks)
        if asks and known > most:
            best, most = (vocabulary.table, tokens[vocabulary.unknown[0]].text if vocabulary.unknown else ""), known
    return best


def _vocabularies(question: str, catalog: Catalog) -> list[Vocabulary]:
    language = language_of(question)
    tokens = read_tokens(question, language)
    if language not in lexicon.languages() or not 2 <= len(tokens) <= _MOST_TOKENS:
        return []
    return [Vocabulary(table, language, tokens) for table in catalog.tables]


def _joined(cut: Sequence[Part]) -> list[Part]:
    """Join `from A to B` into one period; leave out a `to` that names a cause, and a `from` before a value."""
    parts: list[Part] = []
    rest = list(cut)
    while rest:
        part, width = _range(rest) or (rest[0], 1)
        del rest[:width]
        is_cause = part.mark == "to" and any(token.word in _CAUSES for done in parts for token in done.tokens)
        is_of = part.mark == "from" and any(token.word in _SOURCED for done in parts for token in done.tokens)
        if not (is_cause or is_of) or (rest and rest[0].period):
            parts.append(part)
    return parts


def _range(parts: Sequence[Part]) -> tuple[Part, int] | None:
    opener = parts[0].mark if parts[0].mark in {"from", "since", "between"} else ""
    width = 4 if opener else 3
    if len(parts) < width:
        return None
    first, middle, last = parts[width - 3 : width]
    ends = {"and"} if opener == "between" else {"to", "until"}
    if middle.mark not in ends or not first.period or not last.period:
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
        self._limits: list[Condition] = []
        self._is_loose = False
        marks = [part.mark for part in parts if part.mark]
        self._opener = _only([mark for mark in marks if mark in lexicon.OPENERS]) or ""
        self._is_total = "sum" in marks
        others = {"sum"} if self._opener == "which" else set[str]()
        self._aggregate = _only([mark for mark in marks if mark in lexicon.AGGREGATES - others]) or ""
        self._is_different = "different" in marks
        self._period = _only([part for part in parts if part.period])

    def figures(self) -> Iterator[Figure]:
        if self._take_comparisons() and self._has_one_shape() and self._take_groups() and self._take_labels():
            for measure in (None, *self._columns):
                if measure is None or measure != self._group:
                    yield from self._with_measure(measure)

    def _has_one_shape(self) -> bool:
        """Whether there is one opener, one aggregate and one period at most, and no other mark."""
        marks = [part.mark for at, part in enumerate(self._parts) if part.mark and at not in self._used]
        read = [self._opener, self._aggregate, self._is_total and self._aggregate != "sum", "per" in marks]
        is_one_period = sum(part.period is not None for part in self._parts) == (self._period is not None)
        are_numbers_read = all(part.number is None or at in self._used for at, part in enumerate(self._parts))
        is_all = len(marks) == sum(map(bool, [*read, self._is_different]))
        return any(read[:2]) and is_all and is_one_period and are_numbers_read

    def _take_comparisons(self) -> bool:
        """Take `more than 5 places`, `between 2 and 4 days` and `after March`; False if a column is not clear."""
        for at, part in enumerate(self._parts):
            if part.mark in BOUNDS and at + 1 < len(self._parts) and self._parts[at + 1].period:
                self._used.add(at)
            if ends := self._ends(at):
                column = self._compared(at, at + 2 * len(ends))
                if column is None:
                    return False
                self._used.update(range(at, at + 2 * len(ends)))
                sql = " AND ".join(f'"{column.name}" {sign} {end}' for sign, end in ends)
                shown = [f"{sign} {number(end, self._vocabulary.language)}" for sign, end in ends]
                self._limits.append(Condition(column, sql, f"{title_of(column)} {', '.join(shown)}"))
        return True

    def _ends(self, at: int) -> list[tuple[str, float]]:
        """Read what numbers are compared with, as signs and numbers; nothing if there is no comparison at a place."""
        mark, *following = self._parts[at : at + 4]
        numbers = [part.number for part in following]
        if mark.mark in COMPARISONS and numbers and numbers[0] is not None:
            return [(COMPARISONS[mark.mark], numbers[0])]
        if mark.mark == "between" and len(numbers) == 3 and following[1].mark == "and":
            low, _, high = numbers
            return [(">=", low), ("<=", high)] if low is not None and high is not None else []
        return []

    def _compared(self, start: int, stop: int) -> Column | None:
        """Find the column of numbers that is named nearest to a comparison, or has its unit; its words are used up."""
        near = [*range(stop, min(stop + _NEAR, len(self._parts))), *reversed(range(max(0, start - _NEAR), start))]
        said = {at: self._parts[at].tokens[0] for at in near if self._parts[at].word}
        numbers = [column for column in self._columns if self._vocabulary.is_number(column)]
        for likeness in (_ALL_WORDS, _A_WORD, _ITS_UNIT):
            for places in ([at for at in said if at >= stop], [at for at in said if at < start]):
                tokens = [said[at] for at in places]
                if column := _only([column for column in numbers if self._likeness(column, tokens) == likeness]):
                    self._used.update(at for at in places if self._is_part(column, said[at]))
                    return column
        priced = [column for column in numbers if self._vocabulary.is_money(column) or self._vocabulary.currency]
        has_currency = stop < len(self._parts) and self._parts[stop].column is self._vocabulary.currency is not None
        return _only(priced) if has_currency else None

    def _likeness(self, column: Column, said: Sequence[Token]) -> int:
        """How closely words name a column of numbers; 0 if they do not."""
        wanted, stems = set(self._vocabulary.words(column)), {token.stem for token in said}
        if wanted <= stems:
            return _ALL_WORDS
        has_unit = not self._vocabulary.units(column).isdisjoint(token.word for token in said)
        return _A_WORD if wanted & stems else _ITS_UNIT * has_unit

    def _is_part(self, column: Column, token: Token) -> bool:
        is_price = self._vocabulary.is_money(column) and lexicon.matches("costs", token.word)
        return is_price or self._likeness(column, [token]) > 0

    def _places(self, at: int, wanted: Sequence[str]) -> range | None:
        """Find some words at a place, none of them used yet."""
        places = range(at, at + len(wanted))
        is_there = at >= 0 and places.stop <= len(self._parts) and not self._used.intersection(places)
        return places if is_there and [self._parts[place].word for place in places] == list(wanted) else None

    def _take_groups(self) -> bool:
        """Take the column after `which`, `list` or `per`: the longest that fits, or the name of what the rows are."""
        groupers = [at for at, part in enumerate(self._parts) if part.mark in {"which", "list", "per"}]
        if not groupers:
            return True
        at = groupers[0] + 1
        while at < len(self._parts) and (self._parts[at].column or (self._opener == "list" and self._is_empty(at))):
            at += 1
        for column in sorted(self._columns, key=lambda column: -len(self._vocabulary.words(column))):
            if places := self._places(at, self._vocabulary.words(column)):
                self._used.update(places)
                self._group = column
                break
        if self._group is None and at < len(self._parts) and self._parts[at].word:
            is_thing = any(self._parts[at].word in name for name in self._vocabulary.names)
            self._group = self._vocabulary.key if is_thing and self._opener in {"which", "list"} else None
            self._used.add(at)
        return self._group is not None and len(groupers) == 1

    def _is_empty(self, at: int) -> bool:
        part = self._parts[at]
        return bool(part.word) and part.tokens[0].word in lexicon.empty_words(self._vocabulary.language)

    def _take_labels(self) -> bool:
        """Take the names of columns beside their values: `Island route`; False for two conditions on one column."""
        conditioned = [part.column.name for part in self._parts if part.column]
        for at, part in enumerate(self._parts):
            if part.column is not None:
                wanted = self._vocabulary.words(part.column)
                before = at - len(wanted)
                places = self._places(before, wanted) or self._places(at + 1, wanted)
                self._used.update(places or ())
        return len(set(conditioned)) == len(conditioned) and (not self._group or self._group.name not in conditioned)

    def _with_measure(self, measure: Column | None) -> Iterator[Figure]:
        """Yield the figure of a measure, if the question names it and nothing else."""
        self._is_loose = False
        left = self._left(measure)
        operation = "" if left is None else self._operation(measure, left)
        calendar = self._vocabulary.calendar or self._vocabulary.lone_calendar(measure)
        conditions = self._conditions(calendar)
        has_limits = bool(conditions) or self._opener == "list"
        if not operation or conditions is None or (operation in {"value", "list"} and not has_limits):
            return
        vocabulary = self._vocabulary
        period = self._period.period if self._period else None
        is_ranked = operation in {"most", "least"}
        unasked = not self._is_total
        is_sum = measure and not (self._aggregate in RANKS and self._aggregate not in {"most", "least"} and unasked)
        is_added = is_sum and measure and vocabulary.adds_up(measure, unasked=unasked)
        is_yearless = period and not period.first.year and calendar and calendar.unit == "day"
        is_amount = measure is not None and vocabulary.is_number(measure) and not vocabulary.units(measure)
        yield Figure(
            table=vocabulary.table,
            operation=operation,
            measure=None if operation == "count" else measure,
            group=self._group if is_ranked or operation in {"per", "list"} else None,
            conditions=conditions,
            period_text=" ".join(token.text for token in self._period.tokens) if self._period else "",
            year_sql=f"year({calendar.sql})" if is_yearless and calendar else "",
            calendar_sql=calendar.sql
            if calendar and operation in {"mean", "max", "min"} and not vocabulary.key
            else "",
            currency=vocabulary.currency if is_amount else None,
            is_single=not is_added and (is_ranked or operation in {"value", "per"}),
            is_loose=self._is_loose and operation != "count",
            is_known=all(part.column is None or part.values[0] in part.column.examples for part in self._parts),
            language=vocabulary.language,
        )

    def _conditions(self, calendar: Calendar | None) -> tuple[Condition, ...] | None:
        """List what rows must have; None if the table cannot hold the period."""
        named = [
            Condition(
                part.column,
                f'lower("{part.column.name}") IN ({", ".join(quoted_text(text.lower()) for text in part.values)})',
                f"{title_of(part.column)} = {part.values[0]}",
                is_value=True,
            )
            for part in self._parts
            if part.column is not None
        ]
        if self._period is None or self._period.period is None:
            return (*named, *self._limits)
        period = self._period.period
        names = frozenset(word for name in self._vocabulary.names for word in name)
        sql = calendar and calendar.condition(period, names, self._bound)
        days = period.days if calendar and calendar.unit == "day" else None
        if days and self._bound:
            days = days[self._bound in {">", "<="} :][:1]
        text = " – ".join(dict.fromkeys(days)) if days else " ".join(token.text for token in self._period.tokens)
        if not sql or not calendar:
            return None
        shown = " ".join(filter(None, (title_of(calendar.column), self._bound, text)))
        return (*named, *self._limits, Condition(calendar.column, sql, shown))

    @property
    def _bound(self) -> str:
        """The side of the period that is meant, as a sign; empty for the period itself."""
        at = self._parts.index(self._period) if self._period else 0
        return BOUNDS.get(self._parts[at - 1].mark, "") if at else ""

    def _left(self, measure: Column | None) -> frozenset[str] | None:
        """List the stems that only the table's own name accounts for; None if a word is not accounted for."""
        vocabulary = self._vocabulary
        skipped = lexicon.empty_words(vocabulary.language)
        pool = [part.tokens[0] for at, part in enumerate(self._parts) if part.word and at not in self._used]
        said = {token.stem for token in pool if token.word not in skipped}
        taken: set[str] = set()
        if measure is not None:
            wanted = set(vocabulary.words(measure))
            is_ranked = self._aggregate in {"dearest", "cheapest"} and vocabulary.is_money(measure)
            taken = wanted & said
            self._is_loose = taken != wanted and not is_ranked
            if not taken and not is_ranked:
                return None
            taken |= {token.stem for token in pool if self._is_part(measure, token)}
        if any(map(vocabulary.is_money, [limit.column for limit in self._limits])):
            taken |= {token.stem for token in pool if lexicon.matches("costs", token.word)}
        if vocabulary.calendar and self._period:
            taken.update(vocabulary.words(vocabulary.calendar.column))
        events = {stem for column in self._columns if time_unit(column) == "day" for stem in vocabulary.words(column)}
        if self._limits or self._period:
            taken |= {token.stem for token in pool if token.stem in events and lexicon.matches("event", token.word)}
        if vocabulary.key and measure is not None and self._aggregate in {"sum", "mean", "share"}:
            taken.update(vocabulary.words(vocabulary.key))
        left = frozenset(said - taken)
        return left if left.issubset(word for name in vocabulary.names for word in name) else None

    def _operation(self, measure: Column | None, left: frozenset[str]) -> str:
        """Find what is to be done with the measure; empty for what makes no sense."""
        vocabulary, aggregate = self._vocabulary, self._aggregate
        if measure is None or not vocabulary.is_number(measure):
            return self._of_rows(measure, left)
        if self._is_different or self._opener in {"when", "list", "which"}:
            is_ranked = self._opener == "which" and not self._is_different
            return {"DESC": "most", "ASC": "least"}.get(RANKS.get(aggregate, ""), "") if is_ranked else ""
        if self._group is not None:
            return "per" if aggregate in {"", "sum"} else ""
        if aggregate == "share":
            values = [part for part in self._parts if part.column]
            return "share" if len(values) == 1 and vocabulary.adds_up(measure) else ""
        is_wise = aggregate in {"mean", "max", "min"} and bool(vocabulary.key or vocabulary.calendar)
        if aggregate and not is_wise and not (aggregate == "sum" and vocabulary.adds_up(measure)):
            return ""
        return aggregate or "value"

    def _of_rows(self, measure: Column | None, left: frozenset[str]) -> str:
        """List what `which vessel has …` asks for, count rows, or look up what is no number."""
        vocabulary, aggregate = self._vocabulary, self._aggregate
        if self._group is not None:
            return "list" if self._opener in {"which", "list"} and measure is None and not aggregate else ""
        if self._is_different:
            return "different" if self._opener == "count" and measure and not aggregate else ""
        is_row = vocabulary.counts_rows(left) if measure is None else vocabulary.is_unique(measure)
        if aggregate == "share":
            is_part = sum(part.column is not None for part in self._parts) == 1
            return "share" if is_row and measure is None and is_part else ""
        if self._opener == "count":
            return "count" if is_row and aggregate in {"", "sum"} else ""
        is_asked = self._opener == "what" or (self._opener == "when" and measure and time_unit(measure) == "day")
        return "value" if measure is not None and is_asked and not (aggregate or self._limits or self._bound) else ""
