"""What a question asks of one table, as its parts have it: marks, comparisons, and what rows are put together by."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from chargehand_plugins.extractive import lexicon
from chargehand_plugins.extractive.conditions import Condition, Limit
from chargehand_plugins.extractive.fields import Field, Fields, only
from chargehand_plugins.extractive.lexicon import Token
from chargehand_plugins.extractive.parts import Part, read_parts

SUPPOSED: Final = 4
"""What it costs to take a column for what no word names."""
LENGTHS: Final = {"days": 10, "months_of": 7, "years": 4}
"""How long moments are by which rows are put together."""
_NEAR: Final = 3
"""How many words may stand between a number and the column that it compares."""


class Group(NamedTuple):
    """What rows are put together by: a column, or the days, months or years of one."""

    field: Field
    sql: str
    is_period: bool = False
    word: str = ""
    """The stem of the word that names it."""


class Reading:
    """How the parts of a question make figures of one table."""

    def __init__(self, fields: Fields, tokens: tuple[Token, ...]) -> None:
        self.fields, self.language = fields, fields.language
        parts = read_parts(fields, tokens)
        self._parts = _without_joints(parts)
        marks = [part.mark for part in self._parts if part.mark]
        self.asks = not {part.mark for part in parts}.isdisjoint(
            lexicon.AGGREGATES | {"count", "times", "list", "which"}
        )
        """Whether a question is one of tables by its form: `what` and `how much` may well ask a text."""
        self._openers = [lexicon.OPENERS[mark] for mark in marks if mark in lexicon.OPENERS]
        self._is_amount = "amount" in marks
        self._wants_names = "which" in marks and self.language in {"en", "de"}
        self._aggregates = [mark for mark in marks if mark in lexicon.AGGREGATES]
        if {"which", "count"} <= set(self._openers):
            # `what is the average number of …` asks for the average, and `what is the number of …` counts.
            self._openers.remove("count" if self._aggregates else "which")
        if "list" in self._openers:
            self._openers = ["list"]
        if "share" in self._aggregates:
            self._openers, self._is_amount = [], False
        self._opener = self._openers[0] if self._openers else ""
        self._is_total = "sum" in self._aggregates and len(self._aggregates) > 1
        ranked = [mark for mark in self._aggregates if mark != "sum" or not self._is_total]
        self._aggregate = ranked[0] if ranked else ""
        self._per = next((at for at, part in enumerate(self._parts) if part.mark == "per" and self._divides(at)), None)
        self._is_distinct = "distinct" in marks
        self._parts = [part for part in self._parts if part.mark != "distinct"]
        self._is_clear = (
            len(self._openers) <= 1
            and len(ranked) <= 1
            and not any(part.mark in {"and", "or"} or self._limits_nothing(part) for part in self._parts)
            and bool(self._opener or self._aggregate)
            and sum(part.period is not None for part in self._parts) <= 1
            and self._are_relations_true()
        )
        self.words = [
            token
            for at, part in enumerate(self._parts)
            if part.is_word
            for token in part.tokens
            if part.field or not (self.fields.is_empty(token) or self._points_back(at))
        ]

    def _limits_nothing(self, part: Part) -> bool:
        """Whether it is a `no` that turns nothing round: it is not the number of an `order_no`."""
        marks = dict(lexicon.marks_at(part.tokens, 0, self.language)) if part.is_word and not part.field else ()
        return "not" in marks

    @property
    def known(self) -> int:
        """How many words name something of the table."""
        named = sum(len(part.tokens) for part in self._parts if part.condition or part.field)
        return named + sum(map(self.fields.is_known, self.words))

    @property
    def unknown(self) -> str:
        """The first word that names nothing of the table; empty if all of them do."""
        marks = [part.tokens[0].text for part in self._parts if part.mark in {"and", "or"}]
        unknown = [token.text for token in self.words if not self.fields.is_known(token)]
        return next(iter([*unknown, *marks]), "")

    def _points_back(self, at: int) -> bool:
        """Whether a word is the `her` of a person whom the question names."""
        is_pointer = lexicon.matches("pointers", self._parts[at].tokens[0].word)
        return is_pointer and any(part.condition for part in self._parts[:at])

    def _divides(self, at: int) -> bool:
        """Whether `per` asks for groups, rather than being part of the name of a price."""
        following = self._after(at)
        if following is None or not following.is_word:
            return False
        said, word = self._parts[at].tokens[0].word, following.tokens[0].stem
        return not any(said in field.words and word in {each.stem for each in field.title} for field in self.fields.all)

    def _is_plain(self, part: Part) -> bool:
        return part.is_word and not part.field and all(self.fields.is_empty(token) for token in part.tokens)

    def _after(self, at: int) -> Part | None:
        """Find the first part after a place that says something."""
        return next((part for part in self._parts[at + 1 :] if not self._is_plain(part)), None)

    def _are_relations_true(self) -> bool:
        """Whether `from` and `to` stand before values of columns that say where something comes from, and goes."""
        for at, part in enumerate(self._parts):
            held = part.condition
            before = [each for each in self._parts[max(0, at - 2) : at] if self._is_plain(each)]
            said = {token.word for each in before for token in each.tokens} & {"from", "to"}
            if held and held.is_value and self.language == "en":
                is_origin = held.field.has("origins")
                if ("from" in said and not held.field.has("from")) or ("to" in said and is_origin):
                    return False
        return True

    def _limits(self) -> list[Condition] | None:
        """Write the comparisons; None if it is not clear what is compared."""
        found: list[Condition] = []
        for at, part in enumerate(self._parts):
            if limit := part.limit:
                field = self._compared(at, limit)
                if field is None:
                    return None
                name = f'CAST("{field.name}" AS TIME)' if limit.is_time else f'"{field.name}"'
                sql = " AND ".join(f"{name} {sign} {end}" for sign, end in limit.sides)
                found.append(Condition(field, sql, f"{field.label} {limit.text}"))
        return found

    def _compared(self, at: int, limit: Limit) -> Field | None:
        """Find the column that the words at a comparison name, those after it first."""
        able = [
            field
            for field in self.fields.all
            if field is not limit.against
            and (field.column.type.startswith("TIME") if limit.is_time else field.is_number)
        ]
        for places in (self._parts[at + 1 : at + 1 + _NEAR], self._parts[max(0, at - _NEAR) : at]):
            tokens = [t for part in [self._parts[at], *places] if part.is_word or part.limit for t in part.tokens]
            tokens = [token for token in tokens if token.word[0].isalpha() or token.word in "%€$£"]
            costs = {field: _cost(field, tokens) for field in able}
            nearest = [field for field in able if costs[field] == min(costs.values()) < SUPPOSED]
            if len(nearest) == 1:
                return nearest[0]
        if limit.against:
            alike = [field for field in able if field.units == limit.against.units]
            able = [field for field in alike if not field.has("priced")]
        if limit.is_time:
            return able[0] if able and (len(able) == 1 or able[0] is self.fields.key) else None
        able = [field for field in able if not field.has("identifiers")]
        following = self._parts[at + 1 : at + 2]
        if any(part.condition and part.condition.field is self.fields.currency for part in following):
            return self.fields.amount
        is_named = limit.against or any(part.limit for part in following)
        return able[0] if len(able) == 1 and is_named else None

    def _groups(self) -> list[Group]:
        """List what the words after `which`, `list` or `per` may name: columns, the rows, or a unit of time."""
        if self._per is None and self._opener in {"who", "where"}:
            name = "persons" if self._opener == "who" else "places"
            named = {group.sql: group for part in self._parts if part.is_word for group in self._named_by(part)}
            able = [_group_of(field) for field in self.fields.all if field.has(name) and not field.is_number]
            able = [group for group in able if not group.field.is_identifier] or able
            asked = [group for group in able if group.sql in named]
            named_all = [group for group in named.values() if self._opener == "who" and not group.is_period]
            return asked or able or named_all
        if self._per is None and self._opener not in {"which", "list", "when"}:
            return []
        start = self._per
        if start is None:
            start = next(at for at, part in enumerate(self._parts) if lexicon.OPENERS.get(part.mark) == self._opener)
        following = [part for part in self._parts[start + 1 :] if not part.mark and not self._is_plain(part)]
        found: dict[str, Group] = {}
        if following and following[0].condition and self.fields.key:
            found[self.fields.key.name] = _group_of(self.fields.key)
            following = following[1:]
        for part in following[:1] if self._opener != "when" else following:
            for group in self._named_by(part):
                found[group.sql] = group
        return list(found.values())

    def _named_by(self, part: Part) -> Iterator[Group]:
        if part.field:
            yield _group_of(part.field)
        elif part.is_word:
            [token] = part.tokens
            for field in self.fields.all:
                is_able = (not field.is_number or self._per is not None) and not field.is_money
                if is_able and field.cost(token) is not None:
                    yield _group_of(field, token.stem)
            if self.fields.key and self.fields.cost_of_rows(token) is not None:
                yield _group_of(self.fields.key, token.stem)
            length = next((long for name, long in LENGTHS.items() if lexicon.matches(name, token.word)), 0)
            dated_by = self._dated_by(None) if length else None
            calendar = dated_by and dated_by.calendar
            is_title = any(field.cost(token) == 0 for field in self.fields.all)
            if dated_by and calendar and length < calendar.length and not is_title:
                yield Group(dated_by, calendar.part(1, length), is_period=True, word=token.stem)

    def _dated_by(self, measure: Field | None) -> Field | None:
        """Find the column that dates the rows: the one that the question names, or the only one of what happened."""
        said = {token.stem for part in self._parts for token in part.tokens if part.is_word or part.mark}
        for field in self.fields.all:
            if field.is_time and any(field.cost(token) is not None for token in self.words):
                said |= {token.stem for token in field.title}
        if found := self.fields.dated_by(frozenset(said)):
            return found
        days = [field for field in self.fields.all if field.is_day]
        begun = [field for field in days if field.has("begun")]
        is_flow = measure is not None and self.fields.adds_up(measure) and not measure.has("states")
        return only(begun) or (only(days) if is_flow else None)


def _cost(field: Field, tokens: Sequence[Token]) -> float:
    """How far words are from naming a column; half a step for a title that is not said in full."""
    costs = [SUPPOSED if (cost := field.cost(token)) is None else cost for token in tokens]
    return min(costs, default=SUPPOSED) + is_cut(field, tokens) / 2


def is_cut(field: Field, tokens: Sequence[Token]) -> bool:
    """Whether words leave some of a column's title out."""
    said = {token.stem for token in tokens}
    return any(word.stem not in said for word in field.title)


def _group_of(field: Field, word: str = "") -> Group:
    return Group(field, f'CAST("{field.name}" AS VARCHAR)', field.calendar is not None, word)


def _without_joints(parts: Sequence[Part]) -> list[Part]:
    """Leave out each `and` between two conditions neither of which is a period."""
    return [
        part
        for at, part in enumerate(parts)
        if part.mark != "and" or not (_is_condition(parts[:at][::-1]) and _is_condition(parts[at + 1 :]))
    ]


def _is_condition(parts: Sequence[Part]) -> bool:
    following = next((part for part in parts if not part.is_word), None)
    return following is not None and bool(following.condition or following.limit)
