"""Questions read into queries: every word of one is accounted for, and one reading is nearer than any other."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import product
from typing import Final

from activities.documents.catalog import Catalog
from chargehand_plugins.extractive import lexicon
from chargehand_plugins.extractive.fields import Field, Fields, fields_of, only
from chargehand_plugins.extractive.lexicon import RANKS, Token
from chargehand_plugins.extractive.parts import UNREAD, Condition, Part, read_parts, without_joints
from chargehand_plugins.extractive.periods import YEARLY, Calendar
from chargehand_plugins.extractive.query import Group, Query

_SUPPOSED: Final = 4
"""What it costs to take a column for what no word names."""
_LENGTHS: Final = {"days": 10, "months_of": 7, "years": YEARLY}
"""How long moments are by which rows are put together."""
_FUNCTIONS: Final = {"mean": "avg", "median": "median", "max": "max", "min": "min"}
_MOST_TOKENS: Final = 40

_Sense = tuple[str, str] | None
"""Shape and function; None if a question makes no sense."""


def read_query(question: str, catalog: Catalog) -> Query | None:
    """Read a question as a query of one table; None unless one reading is nearer to its words than any other."""
    return only(_nearest(_readings(question, catalog)))


def why_unread(question: str, catalog: Catalog, *, is_figure: bool = False) -> tuple[str, ...] | None:
    """Say why a question is no query: the key of a sentence and what fills it; None if it asks for no figure.

    `is_figure` is set where no text has anything of it either.
    """
    readings = _readings(question, catalog)
    if nearest := _nearest(readings):
        fields = [((each.group and each.group.field, each.measure), each.place) for each in nearest]
        ways = [", ".join([" + ".join(each.label for each in named if each), place]) for named, place in fields]
        if len(set(ways)) > 1:
            return "ambiguous", "", " / ".join(dict.fromkeys(ways))
    able = [each for each in readings if (nearest or each.asks or is_figure) and each.known]
    best = max(able, key=lambda each: each.known, default=None)
    if best is None:
        return None
    word, columns = "" if nearest else best.unknown, ", ".join(field.label for field in best.fields.all)
    key = "no_reading" if not word else "unread" if lexicon.is_grammar(word, best.fields.language) else "no_column"
    return key, word, best.fields.table.document, columns


def keeps(query: Query, earlier: str) -> bool:
    """Whether a query drops no condition that an earlier question may have meant for it too."""
    parts = read_parts(query.fields, lexicon.read_tokens(earlier, query.fields.language))
    kept = {held.field.name for held in query.conditions}
    return kept.issuperset(part.condition.field.name for part in parts if part.condition and part.condition.is_value)


def _nearest(readings: "Sequence[_Reading]") -> list[Query]:
    found = [each for reading in readings for each in reading.queries()]
    least = min((cost for _, cost in found), default=0)
    return list(dict.fromkeys(query for query, cost in found if cost == least))


def _readings(question: str, catalog: Catalog) -> "list[_Reading]":
    language = lexicon.language_of(question)
    tokens = lexicon.read_tokens(question, language)
    if language not in lexicon.data()["languages"] or not 2 <= len(tokens) <= _MOST_TOKENS:
        return []
    return [_Reading(fields_of(table, language), tokens) for table in catalog.tables]  # pyright: ignore[reportArgumentType]  # frozen


class _Reading:
    """The parts of a question over one table, what they ask for, and the queries that they may mean."""

    def __init__(self, fields: Fields, tokens: tuple[Token, ...]) -> None:
        self.fields = fields
        parts = read_parts(fields, tokens)
        # The `number of` a phone asks for no count.
        counts = [at for at, part in enumerate(parts) if part.mark == "count" and at and self._is_title(parts[at - 1])]
        marks = [part.mark for at, part in enumerate(parts) if part.mark and at not in counts]
        self.parts = [part for part in without_joints(parts) if part.mark != "distinct"]
        periods = [part for part in self.parts if part.period]
        self._period = next((part.period for part in periods), None)
        self._period_text = " ".join(token.text for part in periods for token in part.tokens)
        placed = [(lexicon.OPENERS.get(part.mark, part.mark), at) for at, part in enumerate(self.parts)]
        self._at = dict(placed[::-1])
        self.asks = not {"count", "times", "list", "which", *lexicon.AGGREGATES}.isdisjoint(marks)
        """Whether a question is one of tables by its form: `what` and `how much` may well ask a text."""
        self._is_distinct, self._is_amount = "distinct" in marks, "amount" in marks
        self._asks_names = "which" in marks and fields.language in {"en", "de"}
        aggregates = [mark for mark in marks if mark in lexicon.AGGREGATES]
        ranked = [mark for mark in aggregates if mark != "sum"] or aggregates
        self._is_total = "sum" in aggregates
        self._aggregate = next(iter(ranked), "")
        openers = list(dict.fromkeys(lexicon.OPENERS[mark] for mark in marks if mark in lexicon.OPENERS))
        if {"which", "count"} <= set(openers):
            # `what is the average number of …` asks for the average, and `what is the number of …` counts.
            openers.remove("count" if aggregates else "which")
        if "list" in openers or self._aggregate == "share":
            openers = ["list"] * ("list" in openers)
        self._opener = next(iter(openers), "")
        self._is_count = self._opener == "count"
        self._per = next((at for at, part in enumerate(self.parts) if part.mark == "per" and self._divides(at)), None)
        is_limited = len(periods) > 1 or any(self._limits(at, part) for at, part in enumerate(self.parts))
        self._is_clear = max(len(openers), len(ranked)) == 1 and not is_limited
        said = [token for part in self.parts if part.is_word and not self._is_plain(part) for token in part.tokens]
        self.words = [token for token in said if not lexicon.matches("pointers", token.word)]

    @property
    def known(self) -> int:
        """How many words name something of the table."""
        named = sum(len(part.tokens) for part in self.parts if part.condition or part.field)
        return named + sum(map(self.fields.is_known, self.words))

    @property
    def unknown(self) -> str:
        """The first word that names nothing of the table; empty if all of them do."""
        marks = [part.tokens[0].text for part in self.parts if part.mark in {"and", "or"}]
        return next(iter([*(token.text for token in self.words if not self.fields.is_known(token)), *marks]), "")

    def _is_title(self, part: Part) -> bool:
        return part.is_word and any(field.cost(token) == 0 for token in part.tokens for field in self.fields.all)

    def _is_plain(self, part: Part) -> bool:
        return part.is_word and not part.field and all(map(self.fields.is_empty, part.tokens))

    def _after(self, at: int | None) -> list[Part]:
        return [] if at is None else [part for part in self.parts[at + 1 :] if not self._is_plain(part)]

    def _limits(self, at: int, part: Part) -> bool:
        """Whether a part limits a question in a way that is not read, as `from` before what is no origin."""
        if part.is_word and not part.field:  # a `no` that turns nothing round, unless it is that of an `order_no`
            return "not" in dict(lexicon.marks_at(part.tokens, 0, self.fields.language))
        said = {token.word for each in self.parts[max(0, at - 2) : at] if self._is_plain(each) for token in each.tokens}
        held = part.condition.field if part.condition and part.condition.is_value else None
        is_misplaced = held and (("from" in said and not held.has("from")) or ("to" in said and held.has("origins")))
        return part.mark in {"and", "or", UNREAD} or bool(is_misplaced)

    def _divides(self, at: int) -> bool:
        """Whether `per` asks for groups, rather than being part of the name of a price."""
        following = next(iter(self._after(at)), None)
        if following is None or not following.is_word:
            return False
        rates = [field for field in self.fields.all if field.is_number and field.has("priced", "wages")]
        return not any(field.cost(following.tokens[0]) in {0, 1} for field in rates)

    def queries(self) -> Iterator[tuple[Query, float]]:
        """Yield each query with how far it is from the words of the question."""
        held = tuple(part.condition for part in self.parts if part.condition)
        names = [each.field.name for each in held if each.is_value]
        periods = self._in_periods()
        # When an order was delivered is not known from its own date.
        own = self._dated_by.words if self._dated_by else ()
        is_misdated = any(each.is_value and not each.field.events(each.text).issubset(own) for each in held)
        is_misdated &= bool(periods) or self._aggregate in {"early", "late"}
        if not self._is_clear or periods is None or len(set(names)) < len(names) or is_misdated:
            return
        for group, measure in product((None, *self._groups()), (None, *self.fields.all)):
            if not (group and (group.field.name in names or measure is group.field)):
                yield from self._query(measure, group, (*held, *periods))

    def _query(
        self, measure: Field | None, group: Group | None, held: tuple[Condition, ...]
    ) -> Iterator[tuple[Query, float]]:
        """Make the query of a measure by a group, if they account for every word of the question."""
        fields = [each.field for each in (*held, *filter(None, [group]))] + ([measure] if measure else [])
        sense, costs = self._sense(measure, group, held), [self._cost(token, fields, group) for token in self.words]
        costs.append(self._cost_of_measure(measure, group, held) if sense else None)
        is_other = self._is_distinct and sense and {"distinct", "list"}.isdisjoint(sense)
        if sense is None or None in costs or is_other or (self._titled and measure not in self._titled):
            return
        # Another table may have rows of the period.
        is_outside = self._period and self._calendar and self._calendar.is_outside(self._period)
        cost = sum(filter(None, costs)) + bool(is_outside)
        if group:
            cost += any(group.field.cost(t) == 0 for t in self.words) and group.field.is_cut(self.words)
        elif self._aggregate in RANKS:
            beside = [each.word for each in self._groups()]
            words = [token for token in self.words if token.stem in beside]
            cost += "" in beside or (
                bool(words) and (measure is None or any(measure.cost(word) is None for word in words))
            )
        other, doubts = self._other(*sense, measure, group), self._doubts(*sense, measure)
        group = group and group._replace(word="")
        yield Query(self.fields, *sense, measure, group, held, other, doubts, self._period_text), cost

    def _cost(self, token: Token, spoken_of: Sequence[Field], group: Group | None) -> float | None:
        """How far a word is from what a query speaks of; None if it is not that."""
        costs = [*(field.cost(token) for field in spoken_of), self.fields.cost_of_rows(token)]
        is_bounded = any(part.bounds and not (part.condition and part.condition.is_value) for part in self.parts)
        events = (field for field in self.fields.all if is_bounded and field.is_day and field.has("event"))
        is_time = group and group.is_period and any(lexicon.matches(name, token.word) for name in _LENGTHS)
        costs += [0] if is_time or any(field.cost(token) == 0 for field in events) else []
        if any(each.is_number and len(each.title) == 1 and each.has("event") for each in spoken_of):  # seats, sold
            costs += [1 for each in self.fields.all if each.is_number and each.stems == (token.stem,)]
        return min((cost for cost in costs if cost is not None), default=None)

    def _in_periods(self) -> list[Condition] | None:
        """Write the period as a condition, unless titles of columns name it; None if the table cannot hold it."""
        period, calendar = self._period, self._calendar
        if period is None or self._titled:
            return []
        sql = calendar and calendar.condition(period, frozenset(name.stem for name in self.fields.names))
        if not (self._dated_by and calendar and sql):
            return None
        moment = "" if period.side else calendar.part(1, len(period.first))
        text = (self._dated_by.label, period.side, period.text if period.has_year else self._period_text)
        return [Condition(self._dated_by, sql, " ".join(filter(None, text)), moment=(moment, period.first))]

    @cached_property
    def _titled(self) -> list[Field]:
        """List the columns of numbers whose titles have the year of the question."""
        year = self._period.text if self._period and not self._period.side else ""
        return [each for each in self.fields.all if each.is_number and year in each.words]

    @property
    def _calendar(self) -> Calendar | None:
        return self._dated_by and self._dated_by.calendar

    @cached_property
    def _dated_by(self) -> Field | None:
        """Find the column that dates the rows: the one that the question names, or the only one of what happened."""
        said = {token.stem for part in self.parts for token in part.tokens if part.is_word or part.mark}
        named = (each for each in self.fields.all if each.is_time and each.cost_of_all(self.words) is not None)
        said.update(*(field.stems for field in named))
        days = [field for field in self.fields.all if field.is_day]
        begun = only([field for field in days if field.has("begun")])
        dated_by = self.fields.dated_by(frozenset(said))
        if dated_by and dated_by.calendar and self._period and len(self._period.first) != YEARLY:
            dated_by = dated_by if dated_by.is_day or dated_by.calendar.months else None
        return dated_by or begun or only(days)

    def _cost_of_measure(self, measure: Field | None, group: Group | None, held: Sequence[Condition]) -> float | None:
        """How far the words are from naming a measure; None if they do not, or it is what is compared."""
        counted = [
            part.condition for part in self._after(self._at.get("count"))[:1] if part.condition and self._is_count
        ]
        thing = next((each.field for each in counted if each.is_value), None)
        quantity = self.fields.quantity if thing and not self._is_amount else None
        if quantity and quantity.has("event") and quantity.cost_of_all(self.words) is None:
            quantity = None  # how many novels there are is not how many were sold
        if measure is None:
            # How many kettles there are is not how many rows have one, unless each row is a thing, nor how many pupils
            # there are how many marks they have.
            named = {each.stems for each in self.fields.texts if self._is_count and not self.fields.key}
            is_row = thing and any(self.fields.cost_of_rows(word) in {0, 1} for word in thing.title)
            is_unsure = self._is_amount or quantity or (thing and self.fields.key is None and not is_row)
            is_unsure = is_unsure or any((token.stem,) in named for token in self.words)
            return None if is_unsure else 1  # a column that has what is asked for is nearer than rows of that name
        own = [each for each in held if each.field is measure]
        is_compared = any(each.is_value or not self._aggregate or each.text.endswith(" = 0") for each in own)
        if quantity or is_compared:
            return 0 if measure is quantity else None
        return self._cost_of_named(measure, group)

    def _cost_of_named(self, measure: Field, group: Group | None) -> float | None:
        tokens = [t for part in self.parts if part.is_word or part.mark for t in part.tokens]
        tokens = [token for token in tokens if not (group and token.stem == group.word)]
        costs = [cost for token in tokens if (cost := measure.cost(token)) is not None]
        if costs:
            # How many sailings there were is not how many were cancelled.
            unsaid = [word for word in measure.title if word.stem not in {token.stem for token in tokens}]
            is_other = self._is_count and any(lexicon.matches("event", word.word) for word in unsaid[-1:])
            if self._is_count and min(costs) > 1:  # `how many` is no money, and `how much` not how many pieces
                is_much = measure.is_money or bool(measure.units) or measure.has("revenues")
                is_many = measure is self.fields.quantity and not self._is_amount
                is_other |= not (is_many or (is_much and (self._is_amount or self.fields.language == "fr")))
            # The names of a column are as near as the rows of another table.
            return None if is_other else min(costs) + (not measure.is_number) + measure.is_cut(tokens)
        # What things cost that are amounts themselves, as in `the largest invoice`.
        is_of_value = self._aggregate in {"sum", "max", "min"} and any(part.bounds for part in self.parts)
        rows = [token.word for token in self.words if self.fields.cost_of_rows(token) is not None]
        is_paid = is_of_value or any(measure.has("amounts") or lexicon.matches("payments", word) for word in rows)
        return _SUPPOSED if is_paid and measure is (self.fields.amount or self.fields.quantity) else None

    def _sense(self, measure: Field | None, group: Group | None, held: Sequence[Condition]) -> _Sense:
        """Choose the shape and the function."""
        if self._per is not None:
            return self._divided(measure, group) if group else None
        if self._aggregate == "share":
            is_whole = group is None and (measure is None or self.fields.adds_up(measure))
            return ("one", "share") if is_whole and sum(each.is_value for each in held) == 1 else None
        if self._aggregate in RANKS:
            return self._ranked(measure, group)
        if group is not None:
            is_list = measure is None and not self._aggregate and self._opener not in {"count", "times"}
            return ("list", "count") if is_list else None
        return self._one(measure, is_held=bool(held))

    def _divided(self, measure: Field | None, group: Group) -> _Sense:
        if self._opener in {"who", "where"} or self._aggregate in RANKS - _FUNCTIONS.keys():
            return None  # a name for each group, which is no amount
        if measure is None:
            return ("per", "count") if self._aggregate in {"", "sum"} and self._opener in {"count", "times"} else None
        adds_up, by = self.fields.adds_up(measure), group.field
        if not measure.is_number or by.units or (by.is_number and not by.is_repeated):
            return None  # one amount divided by another, as in `the price per hour`
        if self._aggregate == "mean" and (group.is_period or by is self.fields.key):
            return ("one", "rate") if adds_up else None
        function = _FUNCTIONS.get(self._aggregate, "sum")
        return ("per", function) if adds_up or not (group.is_period or function == "sum") else None

    def _ranked(self, measure: Field | None, group: Group | None) -> _Sense:
        """Choose how the most and least are found: of groups, or of all rows."""
        ranking = [token for part in self.parts if part.mark == self._aggregate for token in part.tokens]
        if measure is None:
            # Who paid the most has not the most payments.
            is_often = self._ranks_rows or any(lexicon.matches("often", token.word) for token in ranking)
            return (self._aggregate, "count") if group and is_often and self._aggregate in {"most", "least"} else None
        is_other = self._ranks_rows and self._is_other(measure)
        if (is_other and self._aggregate in {"most", "least"}) or (self._is_total and not self.fields.adds_up(measure)):
            return None  # who has the most invoices has not the largest
        is_most = self._aggregate in {"max", "most", "late"}
        is_long = any(token.word.startswith(("long", "short", "lang", "kurz")) for token in ranking)
        is_dated = self._aggregate in {"early", "late"}
        is_aged = measure.is_number and any(measure.cost(token) is not None for token in ranking)
        if not (measure.is_time and (is_dated or is_long)) and not (measure.is_number and (is_aged or not is_dated)):
            return None
        if is_dated != measure.is_time:
            is_most = not is_most  # who has been here longest came first, and the oldest has the highest age
        extreme, shape = ("max", "most") if is_most else ("min", "least")
        if group is None:
            is_moment = self._ranked_token and any(lexicon.matches(n, self._ranked_token.word) for n in _LENGTHS)
            is_asked = not self._is_count if measure.is_time else self._aggregate in _FUNCTIONS and not is_moment
            is_asked = is_asked and not (self._asks_names and self.fields.key)
            return ("one", extreme) if is_asked and self._opener in {"which", "count", "when", ""} else None
        if group.field is self.fields.key:
            return shape, "any_value"
        is_flow = not self._ranks_rows and (measure.is_money or group.is_period)
        is_flow = (is_flow or self._aggregate in {"most", "least"}) and not measure.has("priced")
        return shape, "sum" if self.fields.adds_up(measure) and (is_flow or self._is_total) else extreme

    @property
    def _ranked_token(self) -> Token | None:
        """The telling word after what says that there is most or least of it; before it in `le don le plus grand`."""
        at, is_before = self._at.get(self._aggregate, 0), self.fields.language in {"fr", "es"}
        is_before = is_before and self._aggregate not in {"most", "least"}
        beside = [part for part in self.parts[:at][::-1] if not self._is_plain(part)] if is_before else self._after(at)
        return next((part.tokens[0] for part in beside if part.is_word), None)

    def _is_other(self, measure: Field) -> bool:
        return self._ranked_token is not None and measure.cost(self._ranked_token) is None

    @property
    def _ranks_rows(self) -> bool:
        """Whether single rows are ranked, as in `the largest overdue invoice`."""
        return self._ranked_token is not None and self.fields.cost_of_rows(self._ranked_token) in {0, 1}

    def _one(self, measure: Field | None, *, is_held: bool) -> _Sense:
        """Choose what makes one value of all rows, or of those that conditions hold for."""
        if measure is None:
            is_often = self._opener == "times" and self.fields.is_dated  # how often a bus runs is no number of rows
            return ("one", "count") if (self._is_count or is_often) and self._aggregate in {"", "sum"} else None
        if not measure.is_number:
            is_name = not (self._aggregate or measure.is_time or measure.has("event") or measure.is_unique)
            is_name = is_name and not measure.is_unread
            return ("one", "distinct") if self._is_count and is_name else None
        adds_up = self.fields.adds_up(measure)
        if self._opener not in {"count", "which", ""} or self._asks_names:
            return None
        if self._aggregate:
            function = _FUNCTIONS.get(self._aggregate, "sum")
            return ("one", function) if adds_up or function != "sum" else None
        is_spent = self.fields.is_series and measure.has("spending")  # month by month, which is no price
        is_cost = not (is_spent or measure.has("amounts")) and measure.has("priced", "wages")
        is_sum = adds_up and not is_cost and (self._is_count or not measure.is_state)
        return ("one", "sum" if is_sum else "any_value") if is_held or (is_sum and self._is_count) else None

    def _other(self, shape: str, function: str, measure: Field | None, group: Group | None) -> str:
        """Choose by what else a group may lead: its highest row, or all of its rows together."""
        is_ranked = shape in {"most", "least"} and function in {"sum", "max", "min"}
        is_open = self._aggregate in {"max", "min"} and not (self._is_total or self._ranks_rows)
        if not (is_ranked and is_open and measure and group) or group.is_period:
            return ""
        adds_up = self.fields.adds_up(measure)
        return ("sum" if adds_up else "avg") if function != "sum" else "max" if shape == "most" else "min"

    def _doubts(self, shape: str, function: str, measure: Field | None) -> tuple[str, ...]:
        """List what makes figures unsure: several years in a period that names none, or rows that are no whole."""
        calendar, found = self._calendar, list[str]()
        if calendar and calendar.length > YEARLY and self._period and not self._period.has_year:
            found.append(f"count(DISTINCT {calendar.part(1, 4)}) > 1")
        if measure and measure.is_number and shape in {"most", "least"} and self._aggregate in {"most", "least"}:
            # The most customers of one month are not the most of all months.
            found += ["count(*) > 1"] if function in {"max", "min"} else []
        is_each = self._opener == "which" and not self._aggregate and function == "sum"
        if measure and shape == "one" and is_each and not measure.is_money:
            found.append(f'(count(*) > 1 AND count(DISTINCT "{measure.name}") = 1)')  # how long each of them is
        is_summed = measure and self.fields.adds_up(measure) and not self.fields.key
        is_of_rows = function in {"max", "min"} and self._ranks_rows
        if calendar and shape == "one" and function in _FUNCTIONS.values() and is_summed and not is_of_rows:
            found.append(f"count(*) > count(DISTINCT {calendar.sql})")
        return tuple(found)

    def _groups(self) -> list[Group]:
        """List what the words after `which`, `list` or `per` may name: columns, the rows, or a unit of time."""
        if self._per is None and self._opener in {"who", "where"}:
            name = "persons" if self._opener == "who" else "places"
            return [self._group_of(field) for field in self.fields.all if field.has(name) and not field.is_number]
        if self._per is None and self._opener not in {"which", "list", "when"}:
            return []
        start = self._at.get(self._opener, 0) if self._per is None else self._per
        following = [part for part in self._after(start) if not part.mark]
        is_held = bool(following and following[0].condition and self.fields.key)
        found = [self._group_of(self.fields.key)] if is_held and self.fields.key else []
        following = following[is_held : None if self._opener == "when" else 1 + is_held]
        found += [group for part in following if part.is_word for group in self._named_by(part)]
        return list({group.sql: group for group in found}.values())

    def _group_of(self, field: Field, word: str = "") -> Group:
        label, sql = self.fields.label if field is self.fields.key else None, f'CAST("{field.name}" AS VARCHAR)'
        sql = f'concat_ws(\' \', "{field.name}", "{label.name}")' if label else sql
        return Group(field, sql, field.calendar is not None, word)

    def _named_by(self, part: Part) -> Iterator[Group]:
        token, is_divided = part.tokens[0], self._per is not None
        named = [part.field] if part.field else [each for each in self.fields.all if each.cost(token) is not None]
        rows = self.fields.cost_of_rows(token)
        if rows is not None and self.fields.key and self._opener != "when" and not part.field:
            named = [each for each in named if not each.is_day]  # orders are their numbers, not the days `ordered_on`
        is_title = any(each.cost(token) == 0 for each in named)
        for field in named if rows != 0 or is_title or part.field else ():
            if is_divided or not field.is_number or field.is_repeated:
                yield self._group_of(field, "" if part.field else token.stem)
        if self.fields.key and rows is not None and not is_title:
            yield self._group_of(self.fields.key, token.stem)
        length = next((long for name, long in _LENGTHS.items() if lexicon.matches(name, token.word)), 0)
        calendar = self._calendar
        if length and not is_title and self._dated_by and calendar and length < calendar.length:
            yield Group(self._dated_by, calendar.part(1, length), is_period=True, word=token.stem)
