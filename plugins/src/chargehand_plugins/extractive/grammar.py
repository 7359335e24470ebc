"""The grammar of figures: every word of a question is accounted for, and one reading is nearer than any other."""

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Final, NamedTuple

from activities.documents.catalog import Catalog, Column, Table
from activities.documents.words import language_of
from chargehand_plugins.extractive import lexicon
from chargehand_plugins.extractive.conditions import Condition, title_of
from chargehand_plugins.extractive.lexicon import RANKS
from chargehand_plugins.extractive.periods import Calendar, is_day
from chargehand_plugins.extractive.reading import LENGTHS, SUPPOSED, Group, Reading
from chargehand_plugins.extractive.vocabulary import Vocabulary

_MOST_TOKENS: Final = 40


class Figure(NamedTuple):
    """One query over one table."""

    table: Table
    operation: str
    """`count`, `sum`, `mean`, `max`, `min`, `share`, `value`, `list`, `per`, `most` or `least`."""
    function: str
    """The SQL function that makes one value of the rows; `any_value` where more than one row leaves doubt."""
    measure: Column | None
    group: Group | None
    conditions: tuple[Condition, ...]
    doubts: tuple[str, ...]
    """What makes a row of the result unsure, in SQL."""
    period_text: str
    currency: Column | None
    """The column of currencies that amounts are kept apart by."""
    language: str


def read_figure(question: str, catalog: Catalog) -> Figure | None:
    """Read a question as a figure over one table; None unless one reading is nearer to its words than any other."""
    nearest = _nearest(question, catalog)
    return nearest[0] if len(nearest) == 1 else None


def _nearest(question: str, catalog: Catalog) -> list[Figure]:
    found: dict[Figure, int] = {}
    for vocabulary in _vocabularies(question, catalog):
        for figure, cost in _Figures(vocabulary).figures():
            found[figure] = min(cost, found.get(figure, cost))
    return [figure for figure, cost in found.items() if cost == min(found.values())]


def why_unread(question: str, catalog: Catalog) -> tuple[str, ...] | None:
    """Say why a question is no figure: the key of a sentence and what fills it; None if it asks for none."""
    nearest = _nearest(question, catalog)
    if len(nearest) > 1:
        named = dict.fromkeys(f"{title_of(each.measure)}, {_place(each)}" for each in nearest if each.measure)
        places = named if len(named) > 1 else dict.fromkeys(map(_place, nearest))
        return "ambiguous", "", " / ".join(places)
    best, most = None, 0
    for vocabulary in _vocabularies(question, catalog):
        reading = _Figures(vocabulary)
        known = sum(map(len, (part.tokens for part in vocabulary.parts if part.condition or part.column)))
        known += sum(vocabulary.is_known(token) for token in reading.words)
        if reading.asks and known > most:
            most, best = known, (vocabulary.table, reading.unknown)
    if best is None:
        return None
    table, word = best
    columns = ", ".join(map(title_of, table.columns))
    is_known = not word or lexicon.is_grammar(word, language_of(question))
    return "no_reading" if not word else "unread" if is_known else "no_column", word, table.document, columns


def _place(figure: Figure) -> str:
    return " · ".join(filter(None, (figure.table.document, figure.table.sheet)))


def keeps(figure: Figure, earlier: str) -> bool:
    """Whether a figure drops no condition that an earlier question may have meant for it too."""
    tokens = lexicon.read_tokens(earlier, figure.language)
    kept = {held.column.name for held in figure.conditions}
    parts = Vocabulary(figure.table, figure.language, tokens).parts
    return kept.issuperset(part.condition.column.name for part in parts if part.condition)


def _vocabularies(question: str, catalog: Catalog) -> list[Vocabulary]:
    language = language_of(question)
    tokens = lexicon.read_tokens(question, language)
    if language not in lexicon.languages() or not 2 <= len(tokens) <= _MOST_TOKENS:
        return []
    return [Vocabulary(table, language, tokens) for table in catalog.tables]


class _Figures(Reading):
    """The figures that one reading may make, each of a measure and a group."""

    def figures(self) -> Iterator[tuple[Figure, int]]:
        """Yield each figure with how far it is from the words of the question."""
        if not self._is_clear:
            return
        limits = self._limits()
        values = [part.condition for part in self._parts if part.condition]
        names = [held.column.name for held in values]
        if limits is None or len(set(names)) < len(names):
            return
        for group in (None, *self._groups()):
            if group is None or group.column.name not in names:
                for measure in (None, *self._columns):
                    if found := self._figure(measure, group, [*values, *limits]):
                        yield found

    def _figure(
        self, measure: Column | None, group: Group | None, held: Sequence[Condition]
    ) -> tuple[Figure, int] | None:
        """Make the figure of a measure by a group, if they account for every word of the question."""
        vocabulary = self._vocabulary
        calendar = self._calendar(measure)
        periods = self._in_periods(calendar)
        named = self._cost_of_measure(measure, group, held)
        if periods is None or named is None or (group and measure == group.column):
            return None
        conditions = (*held, *periods)
        columns = [(each.column, 3) for each in (*conditions, *filter(None, [group]))]
        columns += [(measure, 3)] if measure else []
        cost = named
        is_bounded = bool(periods) or any(part.limit for part in self._parts)
        columns += [
            (each, 0) for each in self._columns if is_bounded and is_day(each) and vocabulary.has(each, "event")
        ]
        for token in self.words:
            costs = [
                own for column, most in columns if (own := vocabulary.cost(column, token)) is not None and own <= most
            ]
            costs += [own for own in [vocabulary.cost_of_rows(token)] if own is not None]
            costs += [0] if group and group.is_period and any(lexicon.matches(n, token.word) for n in LENGTHS) else []
            if not costs or (min(costs) and any(vocabulary.cost(each, token) == 0 for each in self._columns)):
                # A word is not taken for another column than the one that it names.
                return None
            cost += min(costs)
        shape = self._shape(measure, group, conditions)
        if shape is None or (self._is_distinct and shape[1] != "distinct" and shape[0] != "list"):
            return None
        operation, function = shape
        if group is None and measure and self._aggregate in RANKS:
            beside = [each.word for each in self._groups()]
            words = [token for token in self.words if token.stem in beside]
            cost += "" in beside or any(vocabulary.cost(measure, token) is None for token in words)
        is_amount = measure is not None and vocabulary.is_number(measure) and not vocabulary.units(measure)
        figure = Figure(
            table=vocabulary.table,
            operation=operation,
            function=function,
            measure=measure,
            group=group._replace(word="") if group else None,
            conditions=conditions,
            doubts=self._doubts(operation, function, calendar, measure),
            period_text=" ".join(token.text for part in self._parts if part.period for token in part.tokens),
            currency=vocabulary.currency if is_amount else None,
            language=vocabulary.language,
        )
        return figure, cost

    def _in_periods(self, calendar: Calendar | None) -> list[Condition] | None:
        """Write the period as a condition; None if the table cannot hold it."""
        found: list[Condition] = []
        for part in self._parts:
            if period := part.period:
                names = frozenset(token.stem for token in self._vocabulary.names)
                sql = calendar.condition(period, names) if calendar else None
                if not (sql and calendar):
                    return None
                text = period.text if period.has_year else " ".join(token.text for token in part.tokens)
                shown = (title_of(calendar.column), period.side, text)
                found.append(Condition(calendar.column, sql, " ".join(filter(None, shown))))
        return found

    def _cost_of_measure(self, measure: Column | None, group: Group | None, held: Sequence[Condition]) -> int | None:
        """How far the words are from naming a measure; None if they do not, or it is what is compared."""
        vocabulary = self._vocabulary
        quantity = vocabulary.quantity if self._counted_value() else None
        if measure is None:
            # A column that has what is asked for is nearer than the rows of a table of that name.
            is_counted = self._opener == "count" or self._aggregate in {"most", "least"}
            return None if self._is_amount or quantity else int(is_counted)
        if quantity:
            return 0 if measure == quantity else None
        return self._cost_of_named(measure, group, held)

    def _cost_of_named(self, measure: Column, group: Group | None, held: Sequence[Condition]) -> int | None:
        vocabulary = self._vocabulary
        compared = [each.column for each in held]
        if measure in compared and (
            not self._aggregate or any(each.is_value for each in held if each.column == measure)
        ):
            return None
        taken = {group.word, *(t.stem for t in vocabulary.title(group.column))} if group else set[str]()
        if self._opener == "count" and (vocabulary.is_flag(measure) or not self._counts(measure)):
            return None
        tokens = [t for part in self._parts if part.is_word or part.mark for t in part.tokens if t.stem not in taken]
        costs = [cost for token in tokens if (cost := vocabulary.cost(measure, token)) is not None]
        unsaid = [word for word in vocabulary.title(measure) if word.stem not in {token.stem for token in tokens}]
        if costs:
            # How many sailings there were is not how many were cancelled.
            is_other = self._opener == "count" and any(lexicon.matches("event", word.word) for word in unsaid[-1:])
            # The names of a column are as near as the rows of another table.
            far = (not vocabulary.is_number(measure)) + (self._unsaid(measure, tokens) > 0)
            return None if is_other else 2 * min(costs) + far
        return SUPPOSED if self._is_supposed(measure) else None

    def _is_supposed(self, measure: Column) -> bool:
        """Whether a measure is the amount of things that are amounts themselves, as in `the largest invoice`."""
        vocabulary = self._vocabulary
        is_named = vocabulary.amount is not None and vocabulary.has(vocabulary.amount, "amounts")
        is_amount = self._is_amount and self._opener == "count"
        things = any(
            (is_named or lexicon.matches("payments", t.word)) and vocabulary.cost_of_rows(t) is not None
            for t in self.words
        )
        asks_amount = is_amount or (
            self._aggregate in {"max", "min", "sum", "mean"} and self._opener not in {"count", "times"}
        )
        return measure == vocabulary.amount and things and asks_amount

    def _counts(self, measure: Column) -> bool:
        """Whether what is counted, after `how many`, is what a column of numbers or names holds."""
        at = next((at for at, part in enumerate(self._parts) if part.mark == "count"), None)
        if at is None:
            return True
        following = [part for part in self._parts[at + 1 :] if not self._is_plain(part)][:1]
        after = self._parts.index(following[0]) if following else at
        run = [
            t
            for part in takewhile(lambda each: each.is_word and not self._is_plain(each), self._parts[after:])
            for t in part.tokens
        ]
        if not self._vocabulary.is_number(measure):
            run = run[-1:]
        return any(self._vocabulary.cost(measure, token) is not None for token in run)

    def _counted_value(self) -> bool:
        """Whether a value is what is counted, as in `how many kettles`."""
        at = next((at for at, part in enumerate(self._parts) if lexicon.OPENERS.get(part.mark) == "count"), None)
        if at is None or self._opener != "count":
            return False
        following = next((part for part in self._parts[at + 1 :] if not self._is_plain(part)), None)
        return following is not None and following.condition is not None and following.condition.is_value

    def _shape(
        self, measure: Column | None, group: Group | None, conditions: Sequence[Condition]
    ) -> tuple[str, str] | None:
        """Choose the operation and the SQL function; None if the question makes no sense."""
        if self._per is not None:
            return self._divided(measure, group)
        if self._aggregate == "share":
            return self._shared(measure, group, conditions)
        if self._aggregate in RANKS:
            return self._ranked(measure, group)
        if group is not None:
            is_list = self._opener in {"which", "who", "list", "where", "when"} and not self._aggregate
            return ("list", "count") if is_list and measure is None and (conditions or self._opener == "list") else None
        return self._plain(measure, conditions)

    def _divided(self, measure: Column | None, group: Group | None) -> tuple[str, str] | None:
        if group is None or self._opener in {"who", "where"} or self._is_ratio(measure, group):
            return None
        if measure is None:
            return ("per", "count") if self._aggregate in {"", "sum"} and self._opener in {"count", "times"} else None
        if not self._vocabulary.is_number(measure):
            return None
        if self._aggregate == "mean" and group.column == self._vocabulary.key:
            return "mean", "avg"
        functions = {"mean": "rate" if group.is_period else "avg", "max": "max", "min": "min"}
        if self._aggregate in functions and not (group.is_period and not self._vocabulary.adds_up(measure)):
            return ("mean" if functions[self._aggregate] == "rate" else "per"), functions[self._aggregate]
        is_summed = self._aggregate in {"", "sum"} and self._vocabulary.adds_up(measure)
        return ("per", "sum") if is_summed else None

    def _is_ratio(self, measure: Column | None, group: Group) -> bool:
        """Whether one amount is divided by another, as in `the price per hour`."""
        vocabulary = self._vocabulary
        is_amount = bool(vocabulary.units(group.column)) or (measure is not None and vocabulary.is_number(group.column))
        return is_amount and not group.is_period

    def _shared(
        self, measure: Column | None, group: Group | None, conditions: Sequence[Condition]
    ) -> tuple[str, str] | None:
        parts = [each for each in conditions if each.is_value]
        is_whole = measure is None or self._vocabulary.adds_up(measure)
        return ("share", "sum") if is_whole and group is None and len(parts) == 1 else None

    def _ranked(self, measure: Column | None, group: Group | None) -> tuple[str, str] | None:
        """Choose how the most and least are found: of groups, or of all rows."""
        vocabulary = self._vocabulary
        if measure is None:
            is_counted = group is not None and self._aggregate in {"most", "least"} and self._names_rows(group)
            return (self._aggregate, "count") if is_counted else None
        is_time = vocabulary.is_time(measure)
        is_most = self._is_most(measure, is_time=is_time)
        if is_most is None:
            return None
        extreme = "max" if is_most else "min"
        if group is None:
            is_asked = self._opener in {"which", "count", "when", ""} and (is_time or self._aggregate in {"max", "min"})
            return (extreme, extreme) if is_asked and not (self._opener == "count" and is_time) else None
        if group.column == vocabulary.key:
            return "most" if is_most else "least", "any_value"
        of_each = self._is_total or not self._ranks_rows(measure)
        is_added = vocabulary.adds_up(measure) and (of_each or self._aggregate in {"most", "least"})
        return "most" if is_most else "least", "sum" if is_added else extreme

    def _names_rows(self, group: Group) -> bool:
        """Whether rows are what there is most of: who paid the most has not the most payments."""
        said = [token for part in self._parts if part.mark == self._aggregate for token in part.tokens]
        others = [token for token in self.words if token.stem != group.word]
        is_frequency = any(lexicon.matches("often", token.word) for token in said)
        return is_frequency or any(self._vocabulary.cost_of_rows(token) is not None for token in others)

    def _is_most(self, measure: Column, *, is_time: bool) -> bool | None:
        """Whether the greatest value is asked for; None if the words do not rank what the column holds."""
        is_most = self._aggregate in {"max", "most", "late"}
        said = [token for part in self._parts if part.mark == self._aggregate for token in part.tokens]
        if self._aggregate in {"early", "late"}:
            # The oldest has the earliest date, but the highest age.
            is_aged = any(self._vocabulary.cost(measure, token) is not None for token in said)
            return is_most if is_time else not is_most if is_aged and self._vocabulary.is_number(measure) else None
        if is_time:
            # Who has been here longest came first.
            is_long = any(token.word.startswith(("long", "short", "lang", "kurz")) for token in said)
            return not is_most if is_long else None
        return is_most if self._vocabulary.is_number(measure) else None

    def _ranks_rows(self, measure: Column) -> bool:
        """Whether single rows are ranked, as in `the largest overdue invoice`."""
        at = next(at for at, part in enumerate(self._parts) if part.mark == self._aggregate)
        following = [part.tokens[0] for part in self._parts[at + 1 :] if part.is_word and not self._is_plain(part)][:1]
        vocabulary = self._vocabulary
        return any(
            vocabulary.cost_of_rows(token) is not None and vocabulary.cost(measure, token) is None
            for token in following
        )

    def _plain(self, measure: Column | None, conditions: Sequence[Condition]) -> tuple[str, str] | None:
        vocabulary = self._vocabulary
        if measure is None:
            # How often a bus runs is not how many rows it has.
            is_counted = self._opener == "count" or (self._opener == "times" and any(map(is_day, self._columns)))
            return ("count", "count") if is_counted and self._aggregate in {"", "sum"} else None
        if not vocabulary.is_number(measure):
            is_name = self._opener == "count" and not self._aggregate and not vocabulary.is_time(measure)
            is_name = is_name and not vocabulary.has(measure, "event")
            return ("count", "distinct") if is_name and not vocabulary.is_unique(measure) else None
        if self._opener not in {"count", "which", ""} or self._wants_names:
            return None
        if self._aggregate in {"mean", "sum"}:
            is_able = self._aggregate == "mean" or vocabulary.adds_up(measure)
            return (self._aggregate, "avg" if self._aggregate == "mean" else "sum") if is_able else None
        return self._of_rows(measure, conditions)

    def _of_rows(self, measure: Column, conditions: Sequence[Condition]) -> tuple[str, str] | None:
        """Choose between the sum and the one value of the rows that are meant."""
        vocabulary = self._vocabulary
        # What was spent month by month is no price.
        is_spent = vocabulary.is_series and vocabulary.has(measure, "spending")
        is_cost = not is_spent and any(vocabulary.has(measure, name) for name in ("priced", "wages"))
        is_whole = not conditions and vocabulary.key is not None and vocabulary.is_money(measure)
        is_added = not (is_cost or vocabulary.has(measure, "states")) or (self._opener == "count" and not is_cost)
        if vocabulary.adds_up(measure) and (is_whole or is_added):
            return ("sum", "sum") if conditions or is_whole or self._opener == "count" else None
        return ("value", "any_value") if conditions else None

    def _doubts(
        self, operation: str, function: str, calendar: Calendar | None, measure: Column | None
    ) -> tuple[str, ...]:
        """List what makes figures over time unsure: several years in a period that names none."""
        is_yearless = any(part.period and not part.period.has_year for part in self._parts)
        found: list[str] = []
        if calendar and is_yearless and calendar.length > 4:
            found.append(f"count(DISTINCT {calendar.part(1, 4)}) > 1")
        is_added = measure is not None and self._vocabulary.adds_up(measure) and not self._vocabulary.key
        if measure and operation in {"most", "least"} and self._aggregate in {"max", "min"} and not self._is_total:
            is_either = self._vocabulary.has(measure, "priced" if function == "sum" else "states")
            if is_either and not self._ranks_rows(measure):
                # The highest price may be of one row or of all rows of a group.
                found.append("count(*) > 1")
        if calendar and is_added and operation in {"mean", "max", "min"} and function != "rate":
            found.append(f"count(*) > count(DISTINCT {calendar.sql})")
        return tuple(found)
