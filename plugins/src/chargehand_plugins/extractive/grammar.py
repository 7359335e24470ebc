"""The grammar of figures: every word of a question is accounted for, and one reading is nearer than any other."""

from collections.abc import Iterator, Sequence
from itertools import dropwhile, takewhile
from typing import Final, NamedTuple

from activities.documents.catalog import Catalog, Table
from activities.documents.words import language_of
from chargehand_plugins.extractive import lexicon
from chargehand_plugins.extractive.conditions import Condition
from chargehand_plugins.extractive.fields import Field, Fields, fields_of, names_of
from chargehand_plugins.extractive.lexicon import RANKS, Token
from chargehand_plugins.extractive.parts import read_parts
from chargehand_plugins.extractive.periods import Calendar
from chargehand_plugins.extractive.reading import LENGTHS, SUPPOSED, Group, Reading, is_cut

_MOST_TOKENS: Final = 40


class Figure(NamedTuple):
    """One query over one table."""

    fields: Fields
    operation: str
    """`count`, `sum`, `mean`, `max`, `min`, `share`, `value`, `list`, `per`, `most` or `least`."""
    function: str
    """The SQL function that makes one value of the rows; `any_value` where more than one row leaves doubt."""
    measure: Field | None
    group: Group | None
    conditions: tuple[Condition, ...]
    doubts: tuple[str, ...]
    """What makes a row of the result unsure, in SQL."""
    period_text: str
    currency: Field | None
    """The column of currencies that amounts are kept apart by."""
    language: str

    @property
    def table(self) -> Table:
        return self.fields.table

    @property
    def place(self) -> str:
        return " · ".join(filter(None, (self.table.document, self.table.sheet)))


def read_figure(question: str, catalog: Catalog) -> Figure | None:
    """Read a question as a figure over one table; None unless one reading is nearer to its words than any other."""
    nearest = _nearest(_readings(question, catalog))
    return nearest[0] if len(nearest) == 1 else None


def why_unread(question: str, catalog: Catalog) -> tuple[str, ...] | None:
    """Say why a question is no figure: the key of a sentence and what fills it; None if it asks for none."""
    readings = _readings(question, catalog)
    nearest = _nearest(readings)
    if len(nearest) > 1:
        named = dict.fromkeys(f"{each.measure.label}, {each.place}" for each in nearest if each.measure)
        places = named if len(named) > 1 else dict.fromkeys(each.place for each in nearest)
        return "ambiguous", "", " / ".join(places)
    known = {reading: reading.known for reading in readings if reading.asks}
    best = max(known, key=lambda each: known[each], default=None)
    if best is None or not known[best]:
        return None
    word, columns = best.unknown, ", ".join(field.label for field in best.fields.all)
    is_known = not word or lexicon.is_grammar(word, best.language)
    return (
        "no_reading" if not word else "unread" if is_known else "no_column",
        word,
        best.fields.table.document,
        columns,
    )


def keeps(figure: Figure, earlier: str) -> bool:
    """Whether a figure drops no condition that an earlier question may have meant for it too."""
    tokens = lexicon.read_tokens(earlier, figure.language)
    kept = {held.field.name for held in figure.conditions}
    parts = read_parts(figure.fields, tokens)
    return kept.issuperset(part.condition.field.name for part in parts if part.condition)


def _nearest(readings: "Sequence[_Figures]") -> list[Figure]:
    found: dict[Figure, int] = {}
    for reading in readings:
        for figure, cost in reading.figures():
            found[figure] = min(cost, found.get(figure, cost))
    return [figure for figure, cost in found.items() if cost == min(found.values())]


def _readings(question: str, catalog: Catalog) -> "list[_Figures]":
    language = language_of(question)
    tokens = lexicon.read_tokens(question, language)
    if language not in lexicon.languages() or not 2 <= len(tokens) <= _MOST_TOKENS:
        return []
    readable = [fields_of(table, language) for table in catalog.tables]  # pyright: ignore[reportArgumentType]  # frozen
    return [_Figures(fields, tokens) for fields in readable]


class _Figures(Reading):
    """The figures that one reading may make, each of a measure and a group."""

    def figures(self) -> Iterator[tuple[Figure, int]]:
        """Yield each figure with how far it is from the words of the question."""
        if not self._is_clear:
            return
        limits = self._limits()
        values = [part.condition for part in self._parts if part.condition]
        names = [held.field.name for held in values]
        if limits is None or len(set(names)) < len(names):
            return
        for group in (None, *self._groups()):
            if group is None or group.field.name not in names:
                for measure in (None, *self.fields.all):
                    if found := self._figure(measure, group, [*values, *limits]):
                        yield found

    def _figure(
        self, measure: Field | None, group: Group | None, held: Sequence[Condition]
    ) -> tuple[Figure, int] | None:
        """Make the figure of a measure by a group, if they account for every word of the question."""
        dated_by = self._dated_by(measure)
        periods = self._in_periods(dated_by)
        named = self._cost_of_measure(measure, group, held)
        if periods is None or named is None or (group and measure is group.field):
            return None
        conditions = (*held, *periods)
        spoken_of = [each.field for each in (*conditions, *filter(None, [group]))] + ([measure] if measure else [])
        cost = named
        for token in self.words:
            own = self._cost_of_word(token, spoken_of, group, is_bounded=bool(periods))
            if own is None:
                return None
            cost += own
        shape = self._shape(measure, group, conditions)
        if shape is None or (self._is_distinct and shape[1] != "distinct" and shape[0] != "list"):
            return None
        operation, function = shape
        if group is None and measure and self._aggregate in RANKS:
            beside = [each.word for each in self._groups()]
            words = [token for token in self.words if token.stem in beside]
            cost += "" in beside or any(measure.cost(token) is None for token in words)
        is_amount = measure is not None and measure.is_number and not measure.units
        figure = Figure(
            fields=self.fields,
            operation=operation,
            function=function,
            measure=measure,
            group=group._replace(word="") if group else None,
            conditions=conditions,
            doubts=self._doubts(operation, function, dated_by and dated_by.calendar, measure),
            period_text=" ".join(token.text for part in self._parts if part.period for token in part.tokens),
            currency=self.fields.currency if is_amount else None,
            language=self.language,
        )
        return figure, cost

    def _cost_of_word(
        self, token: Token, spoken_of: Sequence[Field], group: Group | None, *, is_bounded: bool
    ) -> int | None:
        """How far a word is from what a figure speaks of; None if it is not that, or the name of another column."""
        is_bounded = is_bounded or any(part.limit for part in self._parts)
        events = (field for field in self.fields.all if is_bounded and field.is_day and field.has("event"))
        costs = [*(field.cost(token) for field in spoken_of), self.fields.cost_of_rows(token)]
        costs += [0 for field in events if field.cost(token) == 0]
        costs += [0] if group and group.is_period and any(lexicon.matches(n, token.word) for n in LENGTHS) else []
        nearest = min((cost for cost in costs if cost is not None), default=None)
        return None if nearest and any(field.cost(token) == 0 for field in self.fields.all) else nearest

    def _in_periods(self, dated_by: Field | None) -> list[Condition] | None:
        """Write the period as a condition; None if the table cannot hold it."""
        found: list[Condition] = []
        for part in self._parts:
            if period := part.period:
                names = frozenset(token.stem for token in names_of(self.fields.table, self.language))
                sql = dated_by and dated_by.calendar and dated_by.calendar.condition(period, names)
                if not (dated_by and sql):
                    return None
                text = period.text if period.has_year else " ".join(token.text for token in part.tokens)
                found.append(Condition(dated_by, sql, " ".join(filter(None, (dated_by.label, period.side, text)))))
        return found

    def _cost_of_measure(self, measure: Field | None, group: Group | None, held: Sequence[Condition]) -> int | None:
        """How far the words are from naming a measure; None if they do not, or it is what is compared."""
        quantity = self.fields.quantity if self._counted_value() else None
        if quantity and quantity.has("event") and not any(quantity.cost(token) is not None for token in self.words):
            quantity = None  # how many novels there are is not how many were sold
        if measure is None:
            # A column that has what is asked for is nearer than the rows of a table of that name.
            is_counted = self._opener == "count" or self._aggregate in {"most", "least"}
            # How many kettles there are is not how many rows have one, unless each row is a thing.
            is_unsure = self._is_amount or quantity or (self._counted_value() and self.fields.key is None)
            return None if is_unsure else int(is_counted)
        if quantity:
            return 0 if measure is quantity else None
        return self._cost_of_named(measure, group, held)

    def _cost_of_named(self, measure: Field, group: Group | None, held: Sequence[Condition]) -> int | None:
        compared = [each for each in held if each.field is measure]
        if compared and (not self._aggregate or any(each.is_value for each in compared)):
            return None
        if self._opener == "count" and (measure.is_flag or not self._counts(measure)):
            return None
        taken = {group.word, *(token.stem for token in group.field.title)} if group else set[str]()
        tokens = [t for part in self._parts if part.is_word or part.mark for t in part.tokens if t.stem not in taken]
        costs = [cost for token in tokens if (cost := measure.cost(token)) is not None]
        unsaid = [word for word in measure.title if word.stem not in {token.stem for token in tokens}]
        if costs:
            # How many sailings there were is not how many were cancelled.
            is_other = self._opener == "count" and any(lexicon.matches("event", word.word) for word in unsaid[-1:])
            # The names of a column are as near as the rows of another table.
            far = (not measure.is_number) + is_cut(measure, tokens)
            return None if is_other else 2 * min(costs) + far
        return SUPPOSED if self._is_supposed(measure) else None

    def _is_supposed(self, measure: Field) -> bool:
        """Whether a measure is the amount of things that are amounts themselves, as in `the largest invoice`."""
        if measure is not self.fields.amount:
            return False
        is_amount = self._is_amount and self._opener == "count"
        asks_amount = is_amount or (
            self._aggregate in {"max", "min", "sum", "mean"} and self._opener not in {"count", "times"}
        )
        return asks_amount and any(
            (measure.has("amounts") or lexicon.matches("payments", token.word))
            and self.fields.cost_of_rows(token) is not None
            for token in self.words
        )

    def _counts(self, measure: Field) -> bool:
        """Whether what is counted, after `how many`, is what a column of numbers or names holds."""
        at = next((at for at, part in enumerate(self._parts) if part.mark == "count"), None)
        if at is None:
            return True
        telling = dropwhile(self._is_plain, self._parts[at + 1 :])
        run = takewhile(lambda each: each.is_word and not self._is_plain(each), telling)
        tokens = [token for part in run for token in part.tokens]
        return any(measure.cost(token) is not None for token in (tokens if measure.is_number else tokens[-1:]))

    def _counted_value(self) -> bool:
        """Whether a value is what is counted, as in `how many kettles`."""
        at = next((at for at, part in enumerate(self._parts) if lexicon.OPENERS.get(part.mark) == "count"), None)
        if at is None or self._opener != "count":
            return False
        following = self._after(at)
        return following is not None and following.condition is not None and following.condition.is_value

    def _shape(
        self, measure: Field | None, group: Group | None, conditions: Sequence[Condition]
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

    def _divided(self, measure: Field | None, group: Group | None) -> tuple[str, str] | None:
        if group is None or self._opener in {"who", "where"} or self._is_ratio(measure, group):
            return None
        if measure is None:
            return ("per", "count") if self._aggregate in {"", "sum"} and self._opener in {"count", "times"} else None
        if not measure.is_number:
            return None
        if self._aggregate == "mean" and group.field is self.fields.key:
            return "mean", "avg"
        functions = {"mean": "rate" if group.is_period else "avg", "max": "max", "min": "min"}
        if self._aggregate in functions and not (group.is_period and not self.fields.adds_up(measure)):
            return ("mean" if functions[self._aggregate] == "rate" else "per"), functions[self._aggregate]
        is_summed = self._aggregate in {"", "sum"} and self.fields.adds_up(measure)
        return ("per", "sum") if is_summed else None

    def _is_ratio(self, measure: Field | None, group: Group) -> bool:
        """Whether one amount is divided by another, as in `the price per hour`."""
        is_amount = bool(group.field.units) or (measure is not None and group.field.is_number)
        return is_amount and not group.is_period

    def _shared(
        self, measure: Field | None, group: Group | None, conditions: Sequence[Condition]
    ) -> tuple[str, str] | None:
        parts = [each for each in conditions if each.is_value]
        is_whole = measure is None or self.fields.adds_up(measure)
        return ("share", "sum") if is_whole and group is None and len(parts) == 1 else None

    def _ranked(self, measure: Field | None, group: Group | None) -> tuple[str, str] | None:
        """Choose how the most and least are found: of groups, or of all rows."""
        if measure is None:
            is_counted = group is not None and self._aggregate in {"most", "least"} and self._names_rows(group)
            return (self._aggregate, "count") if is_counted else None
        is_most = self._is_most(measure)
        if is_most is None:
            return None
        extreme = "max" if is_most else "min"
        if group is None:
            is_asked = self._opener in {"which", "count", "when", ""} and (
                measure.is_time or self._aggregate in {"max", "min"}
            )
            return (extreme, extreme) if is_asked and not (self._opener == "count" and measure.is_time) else None
        if group.field is self.fields.key:
            return "most" if is_most else "least", "any_value"
        of_each = self._is_total or not self._ranks_rows(measure)
        is_added = self.fields.adds_up(measure) and (of_each or self._aggregate in {"most", "least"})
        return "most" if is_most else "least", "sum" if is_added else extreme

    def _names_rows(self, group: Group) -> bool:
        """Whether rows are what there is most of: who paid the most has not the most payments."""
        others = [token for token in self.words if token.stem != group.word]
        is_frequency = any(lexicon.matches("often", token.word) for token in self._ranking)
        return is_frequency or any(self.fields.cost_of_rows(token) is not None for token in others)

    @property
    def _ranking(self) -> list[Token]:
        """The words that say what there is most or least of."""
        return [token for part in self._parts if part.mark == self._aggregate for token in part.tokens]

    def _is_most(self, measure: Field) -> bool | None:
        """Whether the greatest value is asked for; None if the words do not rank what the column holds."""
        is_most = self._aggregate in {"max", "most", "late"}
        if self._aggregate in {"early", "late"}:
            # The oldest has the earliest date, but the highest age.
            is_aged = any(measure.cost(token) is not None for token in self._ranking)
            return is_most if measure.is_time else not is_most if is_aged and measure.is_number else None
        if measure.is_time:
            # Who has been here longest came first.
            is_long = any(token.word.startswith(("long", "short", "lang", "kurz")) for token in self._ranking)
            return not is_most if is_long else None
        return is_most if measure.is_number else None

    def _ranks_rows(self, measure: Field) -> bool:
        """Whether single rows are ranked, as in `the largest overdue invoice`."""
        at = next(at for at, part in enumerate(self._parts) if part.mark == self._aggregate)
        following = (part.tokens[0] for part in self._parts[at + 1 :] if part.is_word and not self._is_plain(part))
        token = next(following, None)
        return token is not None and self.fields.cost_of_rows(token) is not None and measure.cost(token) is None

    def _plain(self, measure: Field | None, conditions: Sequence[Condition]) -> tuple[str, str] | None:
        if measure is None:
            # How often a bus runs is not how many rows it has.
            is_dated = any(field.is_day for field in self.fields.all)
            is_counted = self._opener == "count" or (self._opener == "times" and is_dated)
            return ("count", "count") if is_counted and self._aggregate in {"", "sum"} else None
        if not measure.is_number:
            is_name = self._opener == "count" and not self._aggregate and not measure.is_time
            return ("count", "distinct") if is_name and not (measure.has("event") or measure.is_unique) else None
        if self._opener not in {"count", "which", ""} or self._wants_names:
            return None
        if self._aggregate in {"mean", "sum"}:
            is_able = self._aggregate == "mean" or self.fields.adds_up(measure)
            return (self._aggregate, "avg" if self._aggregate == "mean" else "sum") if is_able else None
        return self._of_rows(measure, conditions)

    def _of_rows(self, measure: Field, conditions: Sequence[Condition]) -> tuple[str, str] | None:
        """Choose between the sum and the one value of the rows that are meant."""
        # What was spent month by month is no price.
        is_spent = self.fields.is_series and measure.has("spending")
        is_cost = not is_spent and (measure.has("priced") or measure.has("wages"))
        is_whole = not conditions and self.fields.key is not None and measure.is_money
        is_added = not (is_cost or measure.has("states")) or (self._opener == "count" and not is_cost)
        if self.fields.adds_up(measure) and (is_whole or is_added):
            return ("sum", "sum") if conditions or is_whole or self._opener == "count" else None
        return ("value", "any_value") if conditions else None

    def _doubts(
        self, operation: str, function: str, calendar: Calendar | None, measure: Field | None
    ) -> tuple[str, ...]:
        """List what makes figures over time unsure: several years in a period that names none."""
        is_yearless = any(part.period and not part.period.has_year for part in self._parts)
        found: list[str] = []
        if calendar and is_yearless and calendar.length > 4:
            found.append(f"count(DISTINCT {calendar.part(1, 4)}) > 1")
        is_added = measure is not None and self.fields.adds_up(measure) and not self.fields.key
        if measure and operation in {"most", "least"} and self._aggregate in {"max", "min"} and not self._is_total:
            is_either = measure.has("priced" if function == "sum" else "states")
            if is_either and not self._ranks_rows(measure):
                # The highest price may be of one row or of all rows of a group.
                found.append("count(*) > 1")
        if calendar and is_added and operation in {"mean", "max", "min"} and function != "rate":
            found.append(f"count(*) > count(DISTINCT {calendar.sql})")
        return tuple(found)
