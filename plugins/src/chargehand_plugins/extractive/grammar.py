"""The grammar of figures: a question is one only if every word of it is accounted for, in exactly one way."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from activities.documents.catalog import Catalog, Column, Table
from activities.documents.sql_names import quoted_text
from activities.documents.words import language_of
from chargehand_plugins.extractive import lexicon
from chargehand_plugins.extractive.periods import Calendar, is_day, read_calendar
from chargehand_plugins.extractive.vocabulary import Part, Vocabulary, title_of

_T = TypeVar("_T")
_MOST_TOKENS: Final = 40
_MOST_CUTS: Final = 2_000
_FUNCTIONS: Final = {"mean": "avg", "max": "max", "min": "min", "sum": "sum", "share": "sum"}
_EXTREMES: Final = {"max": "max", "dearest": "max", "late": "max", "min": "min", "cheapest": "min", "early": "min"}
_NEAR: Final = 3
"""How many words may stand between a number and the column that it compares."""


class Condition(NamedTuple):
    column: Column
    sql: str
    text: str
    is_value: bool = False


class Figure(NamedTuple):
    """One query over one table."""

    table: Table
    operation: str
    """As `[lexicon.shapes]` in `words.toml` name it."""
    measure: Column | None
    group: Column | None
    conditions: tuple[Condition, ...]
    doubts: tuple[str, ...]
    """What makes a row of the result unsure, in SQL."""
    period_text: str
    currency: Column | None
    """The column of currencies that amounts are kept apart by."""
    function: str
    """The SQL function that makes one value of the rows; `any_value` where more than one row leaves doubt."""
    is_loose: bool
    """Whether a column was named by some of its words only."""
    language: str


def read_figure(question: str, catalog: Catalog) -> Figure | None:
    """Read a question as a figure over one table; None unless there is exactly one way to."""
    found: set[Figure] = set()
    for vocabulary in _vocabularies(question, catalog):
        cuts = list(islice(vocabulary.cuts(), _MOST_CUTS))
        if len(cuts) == _MOST_CUTS:
            return None
        found.update(figure for cut in cuts for figure in _Reading(vocabulary, cut).figures())
    return _only([figure for figure in found if not figure.is_loose] or [*found])


def why_unread(question: str, catalog: Catalog) -> tuple[Table, str] | None:
    """Find the table that knows most of a question, and a word that it does not know; None if it asks for no figure.

    The word is empty if all of them are known, but do not make one figure.
    """
    best, most = None, 0
    for vocabulary in _vocabularies(question, catalog):
        tokens = vocabulary.tokens
        marks = {mark for at in range(len(tokens)) for mark, _ in lexicon.marks_at(tokens, at, vocabulary.language)}
        asks = marks & (lexicon.AGGREGATES | {"count", "list"}) or ("which" in marks and "what" not in marks)
        if asks and vocabulary.known > most:
            most = vocabulary.known
            best = vocabulary.table, tokens[vocabulary.unknown[0]].text if vocabulary.unknown else ""
    return best


def keeps(figure: Figure, earlier: str) -> bool:
    """Whether a figure drops no condition that an earlier question may have meant for it too."""
    tokens = lexicon.read_tokens(earlier, figure.language)
    kept = {held.column.name for held in figure.conditions}
    return kept.issuperset(Vocabulary(figure.table, figure.language, tokens).valued)


def _vocabularies(question: str, catalog: Catalog) -> list[Vocabulary]:
    language = language_of(question)
    tokens = lexicon.read_tokens(question, language)
    if language not in lexicon.languages() or not 2 <= len(tokens) <= _MOST_TOKENS:
        return []
    return [Vocabulary(table, language, tokens) for table in catalog.tables]


def _only(found: Sequence[_T]) -> _T | None:
    return found[0] if len(found) == 1 else None


class _Reading:
    """One way to read the parts of a question."""

    def __init__(self, vocabulary: Vocabulary, cut: Sequence[Part]) -> None:
        self._vocabulary = vocabulary
        self._columns = vocabulary.table.columns
        self._parts = [part for at, part in enumerate(cut) if not self._is_relation(cut, at)]
        self._marks = [part.mark for part in self._parts if part.mark]
        if "what" in self._marks and "count" in self._marks[1:]:
            self._marks.remove("count")  # `what is the average number of …` asks for the average.
        self._opener = _only([mark for mark in self._marks if mark in lexicon.OPENERS]) or ""
        aggregates = [mark for mark in self._marks if mark in lexicon.AGGREGATES]
        # `which … in total` asks for the sums of the groups.
        ranks = [mark for mark in aggregates if mark != "sum"]
        self._is_total = "sum" in aggregates
        self._aggregate = _only(ranks if self._opener in {"which", "who"} and ranks else aggregates) or ""
        self._values = [part for part in self._parts if part.column]
        self._periods = [part for part in self._parts if part.period]
        if self._aggregate == "mean" and "per" in self._marks and self._group() == vocabulary.key:
            # Each row is of one already.
            self._marks.remove("per")
            self._parts = [part for part in self._parts if part.mark != "per"]
        self._words = [part.tokens[0] for part in self._parts if part.is_word]
        plain = lexicon.empty_words(vocabulary.language)
        self._said = frozenset(token.stem for token in self._words if token.word not in plain)

    def _is_relation(self, parts: Sequence[Part], at: int) -> bool:
        """Whether a part is the `from` or `to` before the value of a column that is where something comes or goes."""
        following = (part for part in parts[at + 1 :] if not self._is_plain(part))
        column = getattr(next(following, None), "column", None)
        return column is not None and parts[at].mark in {"from", "to"} and lexicon.matches(parts[at].mark, column.name)

    def _is_plain(self, part: Part) -> bool:
        return part.is_word and part.tokens[0].word in lexicon.empty_words(self._vocabulary.language)

    def figures(self) -> Iterator[Figure]:
        limits, group = self._limits(), self._group()
        valued = [part.column.name for part in self._values if part.column]
        is_apart = len(set(valued)) == len(valued) and (group is None or group.name not in valued)
        if limits is not None and is_apart and len(self._periods) <= 1 and self._has_one_shape(group):
            for measure in (None, *self._columns):
                if measure is None or measure != group:
                    yield from self._with_measure(measure, group, limits)

    def _has_one_shape(self, group: Column | None) -> bool:
        """Whether there is one opener, one aggregate at most, and no other mark."""
        is_total = self._is_total and self._aggregate != "sum"
        read = [self._opener, self._aggregate, is_total, "per" in self._marks]
        is_grouped = bool({"which", "who", "list", "per"}.intersection(self._marks))
        return any(read[:2]) and len(self._marks) == sum(map(bool, read)) and is_grouped == (group is not None)

    def _limits(self) -> list[Condition] | None:
        """Write the comparisons with numbers; None if it is not clear what is compared."""
        found: list[Condition] = []
        for at, part in enumerate(self._parts):
            if part.limits:
                column = self._compared(at)
                if column is None:
                    return None
                against, language = part.against, self._vocabulary.language
                sides = [(sign, f'"{against.name}"' if against else end) for sign, end in part.limits]
                sql = " AND ".join(f'"{column.name}" {sign} {end}' for sign, end in sides)
                ends = [title_of(against) if against else lexicon.number(end, language) for _, end in part.limits]
                shown = [f"{sign} {end}" for (sign, _), end in zip(part.limits, ends, strict=True)]
                found.append(Condition(column, sql, f"{title_of(column)} {', '.join(shown)}"))
        return found

    def _compared(self, at: int) -> Column | None:
        """Find the column of numbers that the words after a comparison name, or else those before it."""
        vocabulary = self._vocabulary
        against = self._parts[at].against
        numbers = [column for column in self._columns if vocabulary.is_number(column) and column != against]
        for places in (self._parts[at + 1 : at + 1 + _NEAR], self._parts[max(0, at - _NEAR) : at]):
            tokens = [*self._parts[at].tokens, *(part.tokens[0] for part in places if part.is_word)]
            stems = {token.stem for token in tokens}
            whole = [column for column in numbers if vocabulary.words(column) <= stems]
            partly = [column for column in numbers if vocabulary.words(column) & stems]
            measured = [c for c in numbers if any(vocabulary.names_column(c, token) for token in tokens)]
            if column := _only(whole) or _only(partly) or _only(measured):
                return column
        if against:
            units = vocabulary.units(against)
            alike = [column for column in numbers if vocabulary.units(column) == units]
            return _only([column for column in alike if not vocabulary.has(column, "priced")])
        has_currency = any(part.column == vocabulary.currency is not None for part in self._parts[at + 1 : at + 2])
        return _only(list(filter(vocabulary.is_money, numbers)) or numbers) if has_currency else None

    def _group(self) -> Column | None:
        """Find the column after `which`, `list` or `per`: the longest that fits, or the name of what the rows are."""
        vocabulary = self._vocabulary
        at = next((at for at, part in enumerate(self._parts) if part.mark in {"which", "who", "list", "per"}), None)
        if at is None:
            return None
        if self._parts[at].mark == "who":
            return _only([each for each in self._columns if lexicon.matches("persons", each.name)])
        following = (part for part in self._parts[at + 1 :] if not part.mark and not self._is_plain(part))
        if self._opener == "which" and getattr(next(following, None), "column", None):
            return vocabulary.key
        words = [part.tokens[0] for part in self._parts[at + 1 :] if part.is_word]
        plain = lexicon.empty_words(vocabulary.language) if self._opener == "list" else frozenset[str]()
        words = words[next((at for at, token in enumerate(words) if token.word not in plain), len(words)) :]
        for column in sorted(self._columns, key=lambda column: -len(vocabulary.words(column))):
            if vocabulary.words(column) == frozenset(token.stem for token in words[: len(vocabulary.words(column))]):
                return column
        is_thing = words and self._opener != "" and any(words[0].stem in name for name in vocabulary.names)
        return vocabulary.key if is_thing and "per" not in self._marks else None

    def _with_measure(self, measure: Column | None, group: Column | None, limits: list[Condition]) -> Iterator[Figure]:
        """Yield the figure of a measure, if the question names it and nothing else."""
        vocabulary = self._vocabulary
        calendar = vocabulary.calendar_for(measure)
        conditions = self._conditions(calendar, limits)
        labels = [each for part in self._values if (each := part.column) and vocabulary.words(each) <= self._said]
        others = [*labels, *([group] if group else []), *(limit.column for limit in limits)]
        named = self._named(measure, others)
        if conditions is None or (measure is not None and not named):
            return
        left = self._left(measure, others)
        operation = self._operation(measure, group, left, conditions)
        if not operation or not left.issubset(word for name in vocabulary.names for word in name):
            return
        is_amount = measure is not None and vocabulary.is_number(measure) and not vocabulary.units(measure)
        is_loose = measure is not None and not named >= vocabulary.words(measure) and operation != "count"
        if operation == "list":
            measure, group = None, group or measure
        yield Figure(
            table=vocabulary.table,
            operation=operation,
            measure=None if operation == "count" else measure,
            group=group,
            conditions=conditions,
            doubts=self._doubts(operation, calendar, measure),
            period_text=" ".join(token.text for part in self._periods for token in part.tokens),
            currency=vocabulary.currency if is_amount else None,
            function=self._function(operation, measure),
            is_loose=is_loose,
            language=vocabulary.language,
        )

    def _function(self, operation: str, measure: Column | None) -> str:
        """Choose what makes one value of several rows; `any_value` if nothing does."""
        if measure is None or operation in {"count", "list"}:
            return "count"
        if operation in _FUNCTIONS:
            return _FUNCTIONS[operation]
        is_extreme = self._aggregate in _EXTREMES and not self._is_total
        if is_extreme and not self._vocabulary.adds_up(measure):
            return _EXTREMES[self._aggregate]
        is_added = not is_extreme and self._vocabulary.adds_up(measure, unasked=not self._is_total)
        return "sum" if is_added else "any_value"

    def _doubts(self, operation: str, calendar: Calendar | None, measure: Column | None) -> tuple[str, ...]:
        """List what makes figures over time unsure: several years, or rows that nothing tells apart."""
        is_yearless = any(part.period and not part.period.has_year for part in self._periods)
        found = (
            [f"count(DISTINCT {calendar.part(1, 4)}) > 1"] if calendar and is_yearless and calendar.length > 4 else []
        )
        is_added = measure is not None and self._vocabulary.adds_up(measure)
        if calendar and operation in {"mean", "max", "min"} and is_added and not self._vocabulary.key:
            found.append(f"count(*) > count(DISTINCT {calendar.sql})")
        return tuple(found)

    def _conditions(self, calendar: Calendar | None, limits: Sequence[Condition]) -> tuple[Condition, ...] | None:
        """List what rows must have; None if the table cannot hold the period."""
        found = [
            Condition(
                part.column,
                f'lower(CAST("{part.column.name}" AS VARCHAR)) {"<>" if part.is_not else "="} '
                f"{quoted_text(part.value.lower())}",
                f"{title_of(part.column)} {'≠' if part.is_not else '='} {part.value}",
                is_value=True,
            )
            for part in self._values
            if part.column
        ]
        found += limits
        for part in self._periods:
            names = frozenset(word for name in self._vocabulary.names for word in name)
            sql = calendar.condition(part.period, names) if calendar and part.period else None
            if not (sql and calendar and part.period):
                return None
            text = part.period.text if part.period.has_year else " ".join(token.text for token in part.tokens)
            shown = (title_of(calendar.column), part.period.side, text)
            found.append(Condition(calendar.column, sql, " ".join(filter(None, shown))))
        return tuple(found)

    def _named(self, measure: Column | None, others: Sequence[Column]) -> frozenset[str]:
        """List the stems that name a measure and none of the other columns."""
        vocabulary = self._vocabulary
        tokens = [token for part in self._parts if part.is_word or part.mark for token in part.tokens]
        taken = frozenset[str]().union(*map(vocabulary.words, others))
        named = {t.stem for t in tokens if measure and vocabulary.names_column(measure, t)}
        if self._aggregate in _FUNCTIONS and self._opener != "count" and measure and vocabulary.is_the_amount(measure):
            named |= {t.stem for t in tokens if any(t.stem in name for name in vocabulary.names)}
        return frozenset(named) - taken

    def _left(self, measure: Column | None, others: Sequence[Column]) -> frozenset[str]:
        """List the stems that no column accounts for."""
        vocabulary = self._vocabulary
        taken = frozenset[str]().union(*map(vocabulary.words, others))
        columns = [measure, *(column for column in others if vocabulary.is_number(column))]
        columns += [vocabulary.calendar.column] if vocabulary.calendar and self._periods else []
        taken |= {
            t.stem for t in self._words if any(column and vocabulary.names_column(column, t) for column in columns)
        }
        events = frozenset[str]().union(*map(vocabulary.words, vocabulary.days))
        if self._periods or any(part.limits for part in self._parts):
            taken |= {
                token.stem for token in self._words if token.stem in events and lexicon.matches("event", token.word)
            }
        is_of_each = measure is not None and self._aggregate in {"sum", "mean", "share"}
        if vocabulary.key and (is_of_each or vocabulary.key in others):
            taken |= vocabulary.words(vocabulary.key)
        if vocabulary.key in others:
            taken |= {token.stem for token in self._words if any(token.stem in name for name in vocabulary.names)}
        return self._said - taken - self._labels()

    def _labels(self) -> frozenset[str]:
        """List the stems beside a value that are part of the name of its column, as in `a double room`."""
        found: set[str] = set()
        for at, part in enumerate(self._parts):
            beside = [*self._parts[max(0, at - 1) : at], *self._parts[at + 1 : at + 2]]
            named = lexicon.stems(title_of(part.column), self._vocabulary.language) if part.column else ()
            own = {word for word in named if not lexicon.matches("kinds", word)}
            if len(own) != 1:
                continue
            found |= {near.tokens[0].stem for near in beside if near.is_word} & own
        return frozenset(found)

    def _operation(
        self, measure: Column | None, group: Column | None, left: frozenset[str], conditions: tuple[Condition, ...]
    ) -> str:
        """Find the shape that fits; empty if the question makes no sense."""
        vocabulary = self._vocabulary
        is_number = measure is not None and vocabulary.is_number(measure)
        is_row = vocabulary.counts_rows(left) if measure is None else not is_number and vocabulary.is_unique(measure)
        true = {
            "": True,
            "number": is_number,
            "text": measure is not None and not is_number,
            "rows": measure is None,
            "row": is_row,
            "time": measure is not None and read_calendar(measure) is not None,
            "day": measure is not None and is_day(measure),
            "adds": measure is not None and vocabulary.adds_up(measure),
            "wise": bool(vocabulary.key or vocabulary.calendar)
            or (measure is not None and not vocabulary.adds_up(measure)),
            "part": len(self._values) == 1,
            "limited": bool(conditions),
            "named": not any(part.limits or (part.period and part.period.side) for part in self._parts),
            "group": group is not None and "per" not in self._marks,
            "per": "per" in self._marks,
        }
        facts = {name for name, is_true in true.items() if is_true}
        marked = facts & {"group", "per"}
        fitting = (
            shape.operation
            for shape in lexicon.shapes()
            if self._opener in shape.openers
            and self._aggregate in shape.aggregates
            and shape.facts <= facts
            and marked <= shape.facts
        )
        return next(fitting, "")
