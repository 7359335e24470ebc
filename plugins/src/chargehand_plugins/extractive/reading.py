"""Questions as queries: every word is accounted for, and the closest reading is unique."""

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import product
from typing import Final

from activities.documents.catalog import Catalog
from chargehand_plugins.extractive import lexicon
from chargehand_plugins.extractive.fields import Field, Fields, fields_of, only
from chargehand_plugins.extractive.lexicon import RANKS, Token
from chargehand_plugins.extractive.parts import UNREAD, Condition, Part, read_parts
from chargehand_plugins.extractive.periods import YEARLY
from chargehand_plugins.extractive.query import Group, Query

_NAMING: Final = frozenset({0, 1, 2})
"""Distance of words from the column that they name."""
_SUPPOSED: Final = 4
"""Distance of a column that no word names."""
_LENGTHS: Final = {"days": 10, "months_of": 7, "years": YEARLY}
"""Lengths of the moments by which rows can be grouped."""
_FUNCTIONS: Final = frozenset({"avg", "median", "max", "min"})
_DATED: Final = {"early": "min", "late": "max"}
_TURNED: Final = {"early": "max", "late": "min", "max": "min", "min": "max"}
_ASKING: Final = frozenset({"count", "times", "list", "which", *lexicon.AGGREGATES})
"""Marks of questions about tables; `what` and `how much` may also be about a text."""
_MOST_TOKENS: Final = 40


def read_query(question: str, catalog: Catalog) -> Query | None:
    """Read a question as a query on one table; None unless one reading is closer than all others."""
    return only(_nearest(_readings(question, catalog)))


def why_unread(question: str, catalog: Catalog, *, is_figure: bool = False) -> tuple[str, ...] | None:
    """Return why a question is not a query, as a sentence's key and values; None if it does not ask for a figure.

    `is_figure` is set if the texts do not answer it either.
    """
    readings = _readings(question, catalog)
    if nearest := _nearest(readings):
        fields = [((each.group and each.group.field, each.measure), each.place) for each in nearest]
        rows = lexicon.sentence("rows", lexicon.language_of(question))
        ways = [", ".join([" + ".join(each.label for each in named if each) or rows, place]) for named, place in fields]
        if len(set(ways)) > 1:
            return "ambiguous", "", " / ".join(dict.fromkeys(ways))
    able = [each for each in readings if (nearest or is_figure or _ASKING & {*each.marks}) and each.known]
    best = max(able, key=lambda each: each.known, default=None)
    if best is None:
        return None
    word, columns = "" if nearest else best.unknown, ", ".join(field.label for field in best.fields.all)
    key = "no_reading" if not word else "unread" if lexicon.is_grammar(word, best.fields.language) else "no_column"
    return key, word, best.fields.table.document, columns


def keeps(query: Query, earlier: str) -> bool:
    """Whether a query keeps all conditions that an earlier question may have set for it too."""
    parts = read_parts(query.fields, lexicon.read_tokens(earlier, query.fields.language))
    names = {held.field.name for held in query.conditions}
    return names.issuperset(part.condition.field.name for part in parts if part.condition and part.condition.is_value)


def _nearest(readings: "Sequence[_Reading]") -> list[Query]:
    pairs = [each for reading in readings for each in reading.queries()]
    least = min((cost for _, cost in pairs), default=0)
    return list(dict.fromkeys(query for query, cost in pairs if cost == least))


def _readings(question: str, catalog: Catalog) -> "list[_Reading]":
    language = lexicon.language_of(question)
    tokens = lexicon.read_tokens(question, language)
    if language not in lexicon.data()["languages"] or not 2 <= len(tokens) <= _MOST_TOKENS:
        return []
    return [_Reading(fields_of(table, language), tokens) for table in catalog.tables]  # pyright: ignore[reportArgumentType]  # frozen


class _Reading:
    """The parts of a question on one table, what they ask for, and the possible queries."""

    def __init__(self, fields: Fields, tokens: tuple[Token, ...]) -> None:
        self.fields = fields
        parts = read_parts(fields, tokens)
        self.marks = [part.mark for part in parts if part.mark]
        self.parts = [part for part in parts if part.mark != "distinct"]
        self._held = tuple(part.condition for part in parts if part.condition)
        periods = [part for part in parts if part.period]
        self._period = next((part.period for part in periods), None)
        self._period_text = " ".join(token.text for part in periods for token in part.tokens)
        self._at = dict([(lexicon.OPENERS.get(part.mark, part.mark), at) for at, part in enumerate(self.parts)][::-1])
        aggregates = [mark for mark in self.marks if mark in lexicon.AGGREGATES]
        ranked = [mark for mark in aggregates if mark != "sum"] or aggregates
        # `the highest average` is the largest of means.
        means = [mark for mark in ranked if mark in {"avg", "median"} and not RANKS.isdisjoint(ranked)]
        ranked, self._mean = [mark for mark in ranked if mark not in means], "".join({*means})
        self._is_total, self._aggregate = "sum" in aggregates, next(iter(ranked), "")
        openers = {lexicon.OPENERS[mark] for mark in self.marks if mark in lexicon.OPENERS}
        if {"which", "count"} <= openers:
            # `what is the average number of …` asks for the average, but `what is the number of …` asks for a count.
            openers.remove("count" if aggregates else "which")
        if "list" in openers or self._aggregate == "share":
            openers &= {"list"}
        self._opener = next(iter(openers), "")
        self._is_count, self._is_amount = self._opener == "count", "amount" in self.marks
        self._per = next((at for at, part in enumerate(self.parts) if part.mark == "per" and self._divides(at)), None)
        is_limited = len(periods) > 1 or any(self._limits(at, part) for at, part in enumerate(self.parts))
        self._is_clear = max(len(openers), len({*ranked})) == 1 and not is_limited
        self.words = [
            token for part in self.parts if part.is_word and not self._is_plain(part) for token in part.tokens
        ]
        self._counted = self._word_after(self._at.get("count"))
        self._ranking = next((part.tokens for part in self.parts if part.mark == self._aggregate), ())
        self._ranked_token = ranked_token = self._word_after(self._at.get(self._aggregate, 0))
        self._ranks_rows = ranked_token is not None and fields.cost_of_rows(ranked_token) in {0, 1}
        """Whether single rows are ranked, as in `the largest overdue invoice`."""

    @property
    def known(self) -> int:
        """Number of words that name a part of the table."""
        named = sum(map(self.fields.is_known, self.words)) + (self._period is not None and self.fields.is_dated)
        return named + sum(len(part.tokens) for part in self.parts if part.condition or part.field)

    @property
    def unknown(self) -> str:
        """The first word that does not name a part of the table; empty if all do."""
        marks = [part.tokens[0].text for part in self.parts if part.mark in {"and", "or"}]
        return next(iter([*(token.text for token in self.words if not self.fields.is_known(token)), *marks]), "")

    def _is_plain(self, part: Part) -> bool:
        return part.is_word and not part.field and all(map(self.fields.is_empty, part.tokens))

    def _after(self, at: int | None) -> list[Part]:
        return [] if at is None else [part for part in self.parts[at + 1 :] if not self._is_plain(part)]

    def _limits(self, at: int, part: Part) -> bool:
        """Whether a part restricts a question in an unknown way, as `from` before what is not an origin."""
        if part.is_word and not part.field:  # a `no` that negates nothing, unless it belongs to an `order_no`
            is_pronoun = lexicon.matches("pronouns", part.tokens[0].word)
            return is_pronoun or "not" in dict(lexicon.marks_at(part.tokens, 0, self.fields.language))
        lead = {token.word for each in self.parts[max(0, at - 2) : at] if self._is_plain(each) for token in each.tokens}
        held = part.condition.field if part.condition and part.condition.is_value else None
        is_misplaced = held and (("from" in lead and not held.has("from")) or ("to" in lead and held.has("origins")))
        return part.mark in {"and", "or", UNREAD} or bool(is_misplaced)

    def _divides(self, at: int) -> bool:
        """Whether `per` asks for groups, and is not part of a price's name."""
        following = next(iter(self._after(at)), None)
        if following is None or not following.is_word:
            return False
        rates = [field for field in self.fields.all if field.is_number and field.has("priced", "wages")]
        return not any(field.cost(following.tokens[0]) in {0, 1} for field in rates)

    def queries(self) -> Iterator[tuple[Query, float]]:
        """Yield each query with its distance from the question."""
        names = [each.field.name for each in self._held if each.is_value]
        periods = self._in_periods()
        # An order's own date does not say when it was delivered.
        own = self._date_column.words if self._date_column else ()
        is_misdated = any(each.is_value and not each.field.events(each.text).issubset(own) for each in self._held)
        is_misdated &= bool(periods) or self._aggregate in {"early", "late"}
        if not self._is_clear or periods is None or len(set(names)) < len(names) or is_misdated:
            return
        groups = self._groups()
        for group, measure in product((None, *groups) if self._per is None else groups, (None, *self.fields.all)):
            cost = self._distance(measure, group, groups)
            if not (cost is None or (group and (group.field.name in names or measure is group.field))):
                yield from ((query, cost) for query in self._queries_of(measure, group, periods))

    def _queries_of(self, measure: Field | None, group: Group | None, periods: Sequence[Condition]) -> Iterator[Query]:
        shape, function = self._sense(measure, group) or ("", "")
        is_dropped = "distinct" in self.marks and {"distinct", "list"}.isdisjoint((shape, function))
        if shape and not is_dropped:
            other, doubts = self._other(shape, function, measure, group), self._doubts(shape, function, measure)
            apart = (measure, group and group.field, self._period and self._date_column)
            days = [each for each in self._events if each not in apart]
            happened = [Condition(each, f'"{each.name}" IS NOT NULL', f"{each.label} ≠ –") for each in days]
            group, held = group and group._replace(word=""), (*self._held, *periods, *happened)
            yield Query(self.fields, shape, function, measure, group, held, other, doubts, self._period_text)

    def _distance(self, measure: Field | None, group: Group | None, groups: Sequence[Group]) -> float | None:
        """Distance of a measure by a group from the words; None if it does not account for all of them."""
        spoken_of = [each.field for each in self._held]
        spoken_of += [each for each in (measure, group and group.field, self._period and self._date_column) if each]
        costs = [self._cost(token, spoken_of, group) for token in self.words]
        costs.append(self._cost_of_measure(measure, group))
        if None in costs or (self._titled and measure not in self._titled):
            return None
        named = {token.stem for token in self.words if measure and measure.cost(token) is not None}
        # The question may ask for the group with the largest value.
        is_other = group is None and self._aggregate in RANKS and not {each.word for each in groups} <= named
        return sum(filter(None, costs)) + is_other

    def _cost(self, token: Token, spoken_of: Sequence[Field], group: Group | None) -> float | None:
        """Distance of a word from the subject of a query; None if unrelated."""
        costs = [field.cost(token) for field in spoken_of]
        # If rows have a status, the table's name does not imply that it applies to all of them.
        is_open = self.fields.has_status and token is not self._counted and lexicon.matches("event", token.word)
        costs += [] if is_open else [self.fields.cost_of_rows(token)]
        is_time = group and group.is_period and any(lexicon.matches(name, token.word) for name in _LENGTHS)
        is_priced = bool(self._aggregate) and any(part.field and part.field.is_money for part in self.parts)
        is_priced &= lexicon.matches("paying", token.word)
        costs += [0] if is_time or is_priced or any(field.cost(token) == 0 for field in self._events) else []
        return min((cost for cost in costs if cost is not None), default=None)

    @cached_property
    def _events(self) -> Sequence[Field]:
        """List the columns of the days of what happened to rows, as the question says: `picked`."""
        days = [each for each in self.fields.all if each.is_day and each.has("event") and not self.fields.has_status]
        return [each for each in days if any(each.cost(token) == 0 for token in self.words)]

    def _in_periods(self) -> list[Condition] | None:
        """Convert the period to a condition, unless column titles name it; None if the table does not cover it."""
        period, calendar = self._period, self._date_column and self._date_column.calendar
        if period is None or self._titled:
            return []
        names = frozenset(name.stem for name in self.fields.names)
        if not self.fields.is_dated and not period.side and period.text in names:
            return []  # a sheet `2024` belongs to that year as a whole
        sql = calendar and calendar.condition(period, names)
        if not (self._date_column and calendar and sql):
            return None
        text = (self._date_column.label, period.side, period.text if period.has_year else self._period_text)
        return [Condition(self._date_column, sql, " ".join(filter(None, text)))]

    @cached_property
    def _titled(self) -> list[Field]:
        """List the number columns whose titles have the question's year, or are its period, such as `Q3`."""
        period = self._period if self._period and not self._period.side else None
        able = (each for each in self.fields.all if each.is_number and period)
        return [each for each in able if each.period == period or (period and period.text in each.words)]

    @cached_property
    def _date_column(self) -> Field | None:
        """Find the column with the rows' dates: `joined` only if the question says so; none if it is ambiguous."""
        terms = {token.stem for part in self.parts for token in part.tokens if part.is_word or part.mark}
        named = (each for each in self.fields.all if each.is_time and each.cost_of_all(self.words) is not None)
        terms.update(*(field.stems for field in named))
        is_exact = self._period is not None and len(self._period.first) != YEARLY
        able = [each for each in self.fields.all if each.calendar and not (is_exact and each.calendar.length == YEARLY)]
        dated, days = [each for each in able if each.kind <= terms], [each for each in able if each.is_day]
        plain = [each for each in dated if not each.kind]
        named = [each for each in dated if each.kind]
        return only(named or [each for each in plain if each.is_day] or plain) or only(days)

    def _cost_of_measure(self, measure: Field | None, group: Group | None) -> float | None:
        """Distance of the words from a measure; None if they do not name it, or it is compared."""
        counted = next(iter(self._after(self._at.get("count"))), None) if self._is_count else None
        thing = counted.condition.field if counted and counted.condition and counted.condition.is_value else None
        if measure is None:
            # The number of kettles is not the number of rows if rows have quantities or are not things, and the number
            # of pupils is not the number of their marks.
            texts = {*self.fields.texts} - {each.field for each in self._held}
            named = {each.stems for each in texts if self._is_count and not self.fields.key}
            is_row = thing and any(self.fields.cost_of_rows(word) in {0, 1} for word in thing.title)
            is_unsure = thing and (self.fields.quantity or thing.is_flag or not (is_row or self.fields.key))
            is_unsure = is_unsure or self._is_amount or (counted and counted.field and not counted.field.is_unique)
            is_unsure = is_unsure or any((token.stem,) in named for token in self.words)
            return None if is_unsure else 1  # a column with what is asked for is closer than rows of that name
        own = [each for each in self._held if each.field is measure]
        is_compared = any(each.is_value or not self._aggregate or each.text.endswith(" = 0") for each in own)
        return None if is_compared else self._cost_of_named(measure, group)

    def _cost_of_named(self, measure: Field, group: Group | None) -> float | None:
        tokens = [t for part in self.parts if part.is_word or part.mark for t in part.tokens]
        tokens = [token for token in tokens if not (group and token.stem == group.word)]
        costs = [cost for token in tokens if (cost := measure.cost(token)) is not None]
        costs += [0] if measure.period and measure in self._titled else []
        if costs:
            # How many sailings there were is not how many were cancelled.
            unsaid = [word for word in measure.title if word.stem not in {token.stem for token in tokens}]
            is_other = self._is_count and any(lexicon.matches("event", word.word) for word in unsaid[-1:])
            # How many volumes were restored is not the number of `pages restored`.
            is_thing = self._counted is None or measure.cost(self._counted) is not None or self._is_amount
            is_amount = bool(unsaid) or measure.is_money or self.fields.currency is not None
            is_other |= self._is_count and is_amount and not is_thing and measure is not self.fields.quantity
            is_other |= self._counted is not None and measure.has_names_of(self._counted)
            if self._is_count and min(costs) > 1:  # `how many` is not about money, nor `how much` about pieces
                is_much = measure.is_money or bool(measure.units) or measure.has("revenues")
                is_many = measure is self.fields.quantity and not self._is_amount
                is_other |= not (is_many or (is_much and (self._is_amount or self.fields.language == "fr")))
            # The names in a column are as close as the rows of another table.
            return None if is_other else min(costs) + (not measure.is_number) + measure.is_cut(tokens)
        # For the cost of things that are themselves amounts, as in `the largest invoice`.
        rows = [token.word for token in self.words if self.fields.cost_of_rows(token) is not None]
        is_paid = any(measure.has("amounts") or lexicon.matches("payments", word) for word in rows)
        return _SUPPOSED if is_paid and measure is self.fields.amount else None

    def _sense(self, measure: Field | None, group: Group | None) -> tuple[str, str] | None:
        """Look up the shape and the function that the question asks for."""
        aggregate, kind = self._direction(measure), self._kind(measure)
        by = "none" if group is None else "period" if group.is_period else "column"
        by = "key" if group and group.field is self.fields.key else by
        question = (self._opener, aggregate, kind, by if self._per is None else f"per {by}")
        senses = (row[4:] for row in lexicon.data()["senses"] if all(map(re.fullmatch, row, question)))
        shape, function = next(senses, ("", ""))
        if self._ranks_rows and function == "sum" and self._aggregate in {"max", "min"} and not self._is_total:
            function = "max" if shape == "most" else "min"
        if self._mean and (shape not in {"most", "least"} or self._is_total):
            return None
        sense = (shape or aggregate, self._mean or function or aggregate)
        return sense if (shape or function) and self._is_sound(*sense, measure, group) else None

    def _direction(self, measure: Field | None) -> str:
        """Convert rankings of times and ages to `max` and `min`: the oldest has the first date, or the highest age."""
        aggregate = self._aggregate
        if measure and measure.is_time:
            is_long = any(token.word.startswith(("long", "short", "lang", "kurz")) for token in self._ranking)
            after = self._word_after(self._at.get(self._opener))
            if after and lexicon.matches("aged", after.word):
                return "unclear"  # a year of birth is no age
            return _DATED.get(aggregate) or (_TURNED.get(aggregate, "") if is_long else aggregate and "unclear")
        is_aged = measure and any(measure.cost(token) is not None for token in self._ranking)
        return _TURNED[aggregate] if is_aged and aggregate in _DATED else aggregate

    def _kind(self, measure: Field | None) -> str:
        """Classify a measure: names, times, amounts that add up here, or other numbers."""
        if measure is None or measure.is_time:
            return "time" if measure else "none"
        if not measure.is_number:
            return "" if measure.has("event") or measure.is_unique or measure.is_unread else "name"
        is_spent = self.fields.is_series and measure.has("spending")  # spending per month, not a price
        is_cost = not (is_spent or measure.has("amounts")) and measure.has("priced", "wages")
        is_state = measure.is_state and not (self._aggregate or self._is_count)
        is_value = not (self._aggregate in {"avg", "share"} or self._is_total) and (is_cost or is_state)
        return "amount" if self.fields.adds_up(measure) and not is_value else "rate"

    def _is_sound(self, shape: str, function: str, measure: Field | None, group: Group | None) -> bool:
        """Whether the question is consistent with this sense."""
        if function == "share":
            return sum(each.is_value for each in self._held) == 1
        if measure is None:
            # The largest payer need not have the most payments, and how often a bus runs is not a row count.
            if shape == "list" and group and self._compares_parts(group.field):
                return False
            is_dated = self.fields.is_dated or self._opener != "times" or self._per is not None
            key = self.fields.key if self._opener == "times" else None  # rows that are vehicles are not times
            is_dated &= not (key and any(key.cost(token) == 0 for token in self.words))
            is_often = self._ranks_rows or any(lexicon.matches("often", token.word) for token in self._ranking)
            return is_dated and (is_often or shape not in {"most", "least"})
        if self._per is not None and group:
            return not (group.field.units or group.field.is_number)
        if function == "distinct":
            is_named = any(measure.cost(token) in _NAMING for token in self.words)
            return is_named and not self._compares_parts(measure)
        return self._is_rank(shape, measure) and (shape != "one" or self._is_value(function, measure))

    def _compares_parts(self, named: Field) -> bool:
        """Whether a comparison applies to single rows of an entity with several, so that their sum may be meant."""
        compared = [each.field for each in self._held if not each.is_value and each.field.is_number]
        return named.column.distinct < self.fields.table.rows and any(map(self.fields.adds_up, compared))

    def _is_rank(self, shape: str, measure: Field) -> bool:
        """Whether the question ranks by this measure: the most invoices does not mean the largest invoice."""
        is_other = self._ranked_token is not None and measure.cost(self._ranked_token) is None
        is_other &= self._aggregate in {"most", "least"} if self._ranks_rows else shape == "one"
        dear = [token for token in self._ranking if lexicon.is_held(token.word, ("price",))]
        is_other |= bool(dear) and not measure.is_money and measure.cost(dear[0]) is None  # the dearest by `m3`
        is_sum = not self._is_total or self.fields.adds_up(measure)
        return self._aggregate not in RANKS or (is_sum and not is_other)

    def _is_value(self, function: str, measure: Field) -> bool:
        """Whether the question asks for a single value of a measure, not for its row or a value per group."""
        asks_names = "which" in self.marks and self.fields.language in {"en", "de"}
        if asks_names and measure.is_number and (self.fields.key or self._aggregate not in RANKS):
            return False
        return bool(self._aggregate or self._held or self._period) or (self._is_count and function == "sum")

    def _word_after(self, at: int | None) -> Token | None:
        """The content word after a part."""
        return next((part.tokens[0] for part in self._after(at) if part.is_word), None)

    def _other(self, shape: str, function: str, measure: Field | None, group: Group | None) -> str:
        """Choose another measure by which a group may lead: its highest row, or all its rows together."""
        is_open = self._aggregate in {"max", "min"} and not (self._is_total or self._mean or self._ranks_rows)
        if group is None or group.is_period or measure is None or not is_open or function not in {"sum", "max", "min"}:
            return ""
        extreme = "max" if shape == "most" else "min"
        return extreme if function == "sum" else "sum" if self.fields.adds_up(measure) else "avg"

    def _doubts(self, shape: str, function: str, measure: Field | None) -> tuple[str, ...]:
        """List SQL for unsure figures: several years in a period that names none, or rows that are not a whole."""
        calendar, doubts = self._date_column and self._date_column.calendar, list[str]()
        if calendar and calendar.length > YEARLY and self._period and not self._period.has_year:
            doubts.append(f"count(DISTINCT {calendar.part(0, YEARLY)}) > 1")
        is_extreme = function in {"max", "min"}
        if measure and measure.is_number and is_extreme and self._aggregate in {"most", "least"}:
            doubts.append("count(*) > 1")  # the most customers of one month are not the most of all months
        is_each = self._opener == "which" and not self._aggregate and function == "sum"
        if measure and shape == "one" and is_each and not measure.is_money:
            doubts.append(f'(count(*) > 1 AND count(DISTINCT "{measure.name}") = 1)')  # how long each of them is
        is_whole = self.fields.key or (is_extreme and self._ranks_rows)
        is_summed = measure and self.fields.adds_up(measure) and not is_whole
        if calendar and shape == "one" and function in _FUNCTIONS and is_summed:
            doubts.append(f"count(*) > count(DISTINCT {calendar.text})")
        return tuple(doubts)

    def _groups(self) -> list[Group]:
        """List the meanings of the words after `which`, `list` or `per`: columns, the rows, or a unit of time."""
        if self._per is None and self._opener in {"who", "where"}:
            name = "persons" if self._opener == "who" else "places"
            return [self._group_of(field) for field in self.fields.all if field.has(name) and not field.is_number]
        if self._per is None and self._opener not in {"which", "list", "when"}:
            return []
        start = self._at.get(self._opener, 0) if self._per is None else self._per
        following = [part for part in self._after(start) if not part.mark]
        is_held = bool(following and following[0].condition and self.fields.key)
        groups = [self._group_of(self.fields.key)] if is_held and self.fields.key else []
        following = following[is_held : None if self._opener == "when" else 1 + is_held]
        groups += [group for part in following if part.is_word for group in self._fields_of(part)]
        return list({group.sql: group for group in groups}.values())

    def _group_of(self, field: Field, word: str = "") -> Group:
        return Group(field, f'CAST("{field.name}" AS VARCHAR)', field.calendar is not None, field.label, word)

    def _fields_of(self, part: Part) -> Iterator[Group]:
        token, is_divided = part.tokens[0], self._per is not None
        named = [part.field] if part.field else [each for each in self.fields.all if each.cost(token) in _NAMING]
        rows = self.fields.cost_of_rows(token)
        if self._period and self._opener != "when" and part.field and part.field is self._date_column:
            # Which leases end in a year is not the days of their ends.
            named, part, rows = [], Part(part.tokens), 1
        if rows is not None and self.fields.key and self._opener != "when" and not part.field:
            named = [each for each in named if not each.is_day]  # orders are their numbers, not `ordered_on`
        is_title = any(each.cost(token) == 0 for each in named)
        for field in named if rows != 0 or is_title or part.field else ():
            if is_divided or not field.is_number:
                yield self._group_of(field, "" if part.field else token.stem)
        if self.fields.key and rows is not None and not is_title:
            yield self._group_of(self.fields.key, token.stem)
        length = next((long for name, long in _LENGTHS.items() if lexicon.matches(name, token.word)), 0)
        calendar = self._date_column and self._date_column.calendar
        if length and not is_title and self._date_column and calendar and length < calendar.length:
            yield Group(self._date_column, calendar.part(0, length), is_period=True, label=token.text, word=token.stem)
