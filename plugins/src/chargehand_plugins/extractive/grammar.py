"""The grammar of figures: every word of a question is accounted for, and one reading is nearer than any other."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final, NamedTuple

from activities.documents.catalog import Catalog, Table
from chargehand_plugins.extractive import lexicon
from chargehand_plugins.extractive.fields import Field, Fields, fields_of, names_of
from chargehand_plugins.extractive.lexicon import RANKS, Token
from chargehand_plugins.extractive.parts import Condition, read_parts
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
    language: str

    @property
    def table(self) -> Table:
        return self.fields.table

    @property
    def place(self) -> str:
        return " · ".join(filter(None, (self.table.document, self.table.sheet)))

    @property
    def currency(self) -> Field | None:
        """The column of currencies that amounts are kept apart by."""
        is_amount = self.measure is not None and self.measure.is_number and not self.measure.units
        return self.fields.currency if is_amount else None


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
        return "ambiguous", "", " / ".join(named if len(named) > 1 else dict.fromkeys(each.place for each in nearest))
    best = max((reading for reading in readings if reading.asks), key=lambda each: each.known, default=None)
    if best is None or not best.known:
        return None
    word, columns = best.unknown, ", ".join(field.label for field in best.fields.all)
    key = "no_reading" if not word else "unread" if lexicon.is_grammar(word, best.language) else "no_column"
    return key, word, best.fields.table.document, columns


def keeps(figure: Figure, earlier: str) -> bool:
    """Whether a figure drops no condition that an earlier question may have meant for it too."""
    parts = read_parts(figure.fields, lexicon.read_tokens(earlier, figure.language))
    kept = {held.field.name for held in figure.conditions}
    return kept.issuperset(part.condition.field.name for part in parts if part.condition)


def _nearest(readings: "Sequence[_Figures]") -> list[Figure]:
    found: dict[Figure, int] = {}
    for figure, cost in (each for reading in readings for each in reading.figures()):
        found[figure] = min(cost, found.get(figure, cost))
    return [figure for figure, cost in found.items() if cost == min(found.values())]


def _readings(question: str, catalog: Catalog) -> "list[_Figures]":
    language = lexicon.language_of(question)
    tokens = lexicon.read_tokens(question, language)
    if language not in lexicon.languages() or not 2 <= len(tokens) <= _MOST_TOKENS:
        return []
    readable = [fields_of(table, language) for table in catalog.tables]  # pyright: ignore[reportArgumentType]  # frozen
    return [_Figures(fields, tokens) for fields in readable]


class _Figures(Reading):
    """The figures that one reading may make, each of a measure and a group."""

    def figures(self) -> Iterator[tuple[Figure, int]]:
        """Yield each figure with how far it is from the words of the question."""
        values, limits = [part.condition for part in self.parts if part.condition], self.limits()
        names = [held.field.name for held in values]
        if not self.is_clear or limits is None or len(set(names)) < len(names):
            return
        for group, measure in product((None, *self.groups()), (None, *self.fields.all)):
            if not (group and (group.field.name in names or measure is group.field)):
                yield from self._figure(measure, group, [*values, *limits])

    def _figure(
        self, measure: Field | None, group: Group | None, held: Sequence[Condition]
    ) -> Iterator[tuple[Figure, int]]:
        """Make the figure of a measure by a group, if they account for every word of the question."""
        dated_by = self.dated_by(measure)
        periods = self._in_periods(dated_by)
        named = self._cost_of_measure(measure, group, held)
        if periods is None or named is None:
            return
        conditions = (*held, *periods)
        spoken_of = [each.field for each in (*conditions, *filter(None, [group]))] + ([measure] if measure else [])
        costs = [self._cost_of_word(token, spoken_of, group, is_bounded=bool(periods)) for token in self.words]
        shape = self._shape(measure, group, conditions)
        if None in costs or shape is None or (self.is_distinct and shape[1] != "distinct" and shape[0] != "list"):
            return
        is_named = group is not None and any(group.field.cost(token) == 0 for token in self.words)
        is_half = group is not None and is_named and not group.is_period and is_cut(group.field, self.words)
        cost = named + sum(filter(None, costs)) + is_half
        if group is None and measure and self.aggregate in RANKS:
            beside = [each.word for each in self.groups()]
            words = [token for token in self.words if token.stem in beside]
            cost += "" in beside or any(measure.cost(token) is None for token in words)
        yield (
            Figure(
                self.fields,
                *shape,
                measure,
                group and group._replace(word=""),
                conditions,
                self._doubts(*shape, dated_by, measure),
                " ".join(token.text for part in self.parts if part.period for token in part.tokens),
                self.language,
            ),
            cost,
        )

    def _cost_of_word(
        self, token: Token, spoken_of: Sequence[Field], group: Group | None, *, is_bounded: bool
    ) -> int | None:
        """How far a word is from what a figure speaks of; None if it is not that, or the name of another column."""
        is_bounded = is_bounded or any(part.limit for part in self.parts)
        events = (field for field in self.fields.all if is_bounded and field.is_day and field.has("event"))
        costs = [*(field.cost(token) for field in spoken_of), self.fields.cost_of_rows(token)]
        costs += [0 for field in events if field.cost(token) == 0]
        costs += [0] if group and group.is_period and any(lexicon.matches(n, token.word) for n in LENGTHS) else []
        nearest = min((cost for cost in costs if cost is not None), default=None)
        return None if nearest and any(field.cost(token) == 0 for field in self.fields.all) else nearest

    def _in_periods(self, dated_by: Field | None) -> list[Condition] | None:
        """Write the period as a condition; None if the table cannot hold it."""
        found: list[Condition] = []
        for part in self.parts:
            if period := part.period:
                names = frozenset(token.stem for token in names_of(self.fields.table, self.language))
                sql = dated_by and dated_by.calendar and dated_by.calendar.condition(period, names)
                if not (dated_by and sql):
                    return None
                text = period.text if period.has_year else " ".join(token.text for token in part.tokens)
                text = " ".join(filter(None, (dated_by.label, period.side, text)))
                moment = dated_by.calendar.part(1, len(period.first)) if dated_by.calendar and not period.side else ""
                found.append(Condition(dated_by, sql, text, moment=(moment, period.first)))
        return found

    def _cost_of_measure(self, measure: Field | None, group: Group | None, held: Sequence[Condition]) -> int | None:
        """How far the words are from naming a measure; None if they do not, or it is what is compared."""
        at = self.place("count")
        counted = self.after(at) if at is not None and self.opener == "count" else None
        thing = counted.condition.field if counted and counted.condition and counted.condition.is_value else None
        is_value = thing is not None
        is_thing = is_value and not (self.is_amount and thing not in {self.fields.key, self.fields.texts[0]})
        quantity = self.fields.quantity if is_thing else None
        if quantity and quantity.has("event") and not any(quantity.cost(token) is not None for token in self.words):
            quantity = None  # how many novels there are is not how many were sold
        if measure is None:
            # How many kettles there are is not how many rows have one, unless each row is a thing.
            is_unsure = self.is_amount or quantity or (is_value and self.fields.key is None)
            # How many pupils there are is not how many marks they have.
            named = {each.stems for each in self.fields.texts if self.opener == "count" and not self.fields.key}
            is_unsure = is_unsure or any((token.stem,) in named for token in self.words)
            # A column that has what is asked for is nearer than the rows of a table of that name.
            return None if is_unsure else int(self.opener == "count" or self.aggregate in {"most", "least"})
        if quantity:
            return 0 if measure is quantity else None
        return self._cost_of_named(measure, group, held)

    def _cost_of_named(self, measure: Field, group: Group | None, held: Sequence[Condition]) -> int | None:
        compared = [each for each in held if each.field is measure]
        if compared and (not self.aggregate or any(each.is_value for each in compared)):
            return None
        if self.opener == "count" and measure.is_flag:
            return None
        taken = {group.word, *(token.stem for token in group.field.title)} if group else set[str]()
        tokens = [t for part in self.parts if part.is_word or part.mark for t in part.tokens if t.stem not in taken]
        costs = [cost for token in tokens if (cost := measure.cost(token)) is not None]
        unsaid = [word for word in measure.title if word.stem not in {token.stem for token in tokens}]
        if costs:
            # How many sailings there were is not how many were cancelled.
            is_other = self.opener == "count" and any(lexicon.matches("event", word.word) for word in unsaid[-1:])
            if self.opener == "count" and min(costs) > 1:  # `how many` is no money, and `how much` not how many pieces
                is_much = measure.is_money or bool(measure.units) or measure.has("revenues")
                is_many = measure is self.fields.quantity
                is_other |= not (
                    (is_much and (self.is_amount or self.language == "fr")) or (is_many and not self.is_amount)
                )
            # The names of a column are as near as the rows of another table.
            far = (not measure.is_number) + is_cut(measure, tokens)
            return None if is_other else 2 * min(costs) + far
        # What things cost that are amounts themselves, as in `the largest invoice`.
        is_asked = self.is_amount or (
            self.aggregate in {"max", "min", "sum", "mean"} and self.opener not in {"count", "times"}
        )
        is_paid = any(
            (measure.has("amounts") or lexicon.matches("payments", token.word))
            and self.fields.cost_of_rows(token) is not None
            for token in self.words
        )
        return SUPPOSED if measure is self.fields.amount and is_asked and is_paid else None

    def _shape(
        self, measure: Field | None, group: Group | None, conditions: Sequence[Condition]
    ) -> tuple[str, str] | None:
        """Choose the operation and the SQL function; None if the question makes no sense."""
        if self.per is not None:
            return self._divided(measure, group) if group and self.opener not in {"who", "where"} else None
        if self.aggregate == "share":
            is_whole = measure is None or self.fields.adds_up(measure)
            is_one = sum(each.is_value for each in conditions) == 1
            return ("share", "sum") if is_whole and group is None and is_one else None
        if self.aggregate in RANKS:
            return self._ranked(measure, group)
        if group is not None:
            is_list = measure is None and not self.aggregate and self.opener not in {"count", "times"}
            return ("list", "count") if is_list and (conditions or self.opener == "list") else None
        return self._plain(measure, conditions)

    def _divided(self, measure: Field | None, group: Group) -> tuple[str, str] | None:
        if not group.is_period and (group.field.units or (measure and group.field.is_number)):
            return None  # one amount divided by another, as in `the price per hour`
        if measure is None:
            return ("per", "count") if self.aggregate in {"", "sum"} and self.opener in {"count", "times"} else None
        adds_up = self.fields.adds_up(measure)
        if self.aggregate == "mean" and (group.is_period or group.field is self.fields.key):
            return ("mean", "rate") if adds_up or not group.is_period else None
        function = {"mean": "avg", "max": "max", "min": "min"}.get(self.aggregate)
        if not measure.is_number or (not adds_up and (group.is_period or not function)):
            return None
        return "per", function or "sum"

    def _ranked(self, measure: Field | None, group: Group | None) -> tuple[str, str] | None:
        """Choose how the most and least are found: of groups, or of all rows."""
        if measure is None:
            # Who paid the most has not the most payments.
            is_frequency = self._ranks_rows or any(lexicon.matches("often", token.word) for token in self._ranking)
            is_counted = group is not None and self.aggregate in {"most", "least"} and is_frequency
            return (self.aggregate, "count") if is_counted else None
        is_most = self._is_most(measure)
        if is_most is None:
            return None
        extreme, operation = ("max", "most") if is_most else ("min", "least")
        if group is None:
            is_moment = self._ranked_token and any(lexicon.matches(name, self._ranked_token.word) for name in LENGTHS)
            is_asked = self.opener in {"which", "count", "when", ""} and (
                measure.is_time or (self.aggregate in {"max", "min"} and not is_moment)
            )
            return (extreme, extreme) if is_asked and not (self.opener == "count" and measure.is_time) else None
        if group.field is self.fields.key:
            return operation, "any_value"
        of_each = (
            self.is_total or self.aggregate in {"most", "least"} or not (self._ranks_rows or measure.has("priced"))
        )
        return operation, "sum" if self.fields.adds_up(measure) and of_each else extreme

    @property
    def _ranking(self) -> list[Token]:
        """The words that say what there is most or least of."""
        return [token for part in self.parts if part.mark == self.aggregate for token in part.tokens]

    def _is_most(self, measure: Field) -> bool | None:
        """Whether the greatest value is asked for; None if the words do not rank what the column holds."""
        is_most = self.aggregate in {"max", "most", "late"}
        if self.aggregate in {"early", "late"}:
            # The oldest has the earliest date, but the highest age.
            is_aged = measure.is_number and any(measure.cost(token) is not None for token in self._ranking)
            return is_most if measure.is_time else not is_most if is_aged else None
        if measure.is_time:
            # Who has been here longest came first.
            is_long = any(token.word.startswith(("long", "short", "lang", "kurz")) for token in self._ranking)
            return not is_most if is_long else None
        return is_most if measure.is_number else None

    @property
    def _ranked_token(self) -> Token | None:
        """The first telling word after what says that there is most or least of it."""
        at = self.place(self.aggregate) or 0
        parts = (part for part in self.parts[at + 1 :] if part.is_word and not self.is_plain(part))
        return next((part.tokens[0] for part in parts), None)

    @property
    def _ranks_rows(self) -> bool:
        """Whether single rows are ranked, as in `the largest overdue invoice`."""
        return self._ranked_token is not None and self.fields.cost_of_rows(self._ranked_token) is not None

    def _plain(self, measure: Field | None, conditions: Sequence[Condition]) -> tuple[str, str] | None:
        is_count = self.opener == "count"
        if measure is None:
            # How often a bus runs is not how many rows it has.
            is_counted = is_count or (self.opener == "times" and any(field.is_day for field in self.fields.all))
            return ("count", "count") if is_counted and self.aggregate in {"", "sum"} else None
        if not measure.is_number:
            is_name = is_count and not (self.aggregate or measure.is_time or measure.has("event") or measure.is_unique)
            return ("count", "distinct") if is_name else None
        adds_up = self.fields.adds_up(measure)
        if self.opener not in {"count", "which", ""} or self._asks_names:
            return None
        if self.aggregate:
            function = "avg" if self.aggregate == "mean" else "sum"
            return (self.aggregate, function) if adds_up or function == "avg" else None
        # What was spent month by month is no price.
        is_spent = self.fields.is_series and measure.has("spending")
        is_cost = not (is_spent or measure.has("amounts")) and (measure.has("priced") or measure.has("wages"))
        is_whole = not conditions and self.fields.key is not None and measure.is_money
        if adds_up and (is_whole or is_count != (is_cost and is_count) or not (is_cost or measure.has("states"))):
            return ("sum", "sum") if conditions or is_whole or is_count else None
        return ("value", "any_value") if conditions else None

    def _doubts(self, operation: str, function: str, dated_by: Field | None, measure: Field | None) -> tuple[str, ...]:
        """List what makes figures unsure: several years in a period that names none, or rows that lead otherwise."""
        calendar, found = dated_by and dated_by.calendar, list[str]()
        if calendar and calendar.length > 4 and any(part.period and not part.period.has_year for part in self.parts):
            found.append(f"count(DISTINCT {calendar.part(1, 4)}) > 1")
        if measure is None or not measure.is_number or function in {"rate", "any_value"}:
            return tuple(found)
        is_ranked = operation in {"most", "least"} and self.aggregate in {"max", "min"} and not self.is_total
        if is_ranked and measure.has("priced" if self.fields.adds_up(measure) else "states") and not self._ranks_rows:
            # The highest may be of one row or of all rows of a group: both have to lead to the same.
            order, other = "DESC" if operation == "most" else "ASC", "sum" if self.fields.adds_up(measure) else "avg"
            leads = (f'rank() OVER (ORDER BY {name}("{measure.name}") {order}) = 1' for name in (function, other))
            found.append(f"({') <> ('.join(leads)})")
        if operation in {"most", "least"} and self.aggregate in {"most", "least"} and function != "sum":
            found.append("count(*) > 1")  # the most customers of one month are not the most of all months
        if calendar and operation in {"mean", "max", "min"} and self.fields.adds_up(measure) and not self.fields.key:
            found.append(f"count(*) > count(DISTINCT {calendar.sql})")
        return tuple(found)
