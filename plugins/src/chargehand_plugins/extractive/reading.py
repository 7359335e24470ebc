"""What a question asks of one table, as its parts have it: operations, comparisons and groups."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from chargehand_plugins.extractive import lexicon
from chargehand_plugins.extractive.fields import Field, Fields, only
from chargehand_plugins.extractive.lexicon import Token
from chargehand_plugins.extractive.parts import Condition, Limit, Part, read_parts

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
    """The parts of a question over one table, and what they name."""

    def __init__(self, fields: Fields, tokens: tuple[Token, ...]) -> None:
        self.fields, self.language = fields, fields.language
        parts = read_parts(fields, tokens)
        numbered = [at for at in range(1, len(parts)) if parts[at].mark == "count" and self._names(parts[at - 1])]
        parts = [part for at, part in enumerate(parts) if at not in numbered]  # the `number of` of a phone
        marks = [part.mark for part in parts if part.mark]
        self.asks = not {"count", "times", "list", "which", *lexicon.AGGREGATES}.isdisjoint(marks)
        """Whether a question is one of tables by its form: `what` and `how much` may well ask a text."""
        self.parts = [part for part in _without_joints(parts) if part.mark != "distinct"]
        self.is_distinct, self.is_amount = "distinct" in marks, "amount" in marks
        self._asks_names = "which" in marks and self.language in {"en", "de"}
        aggregates = [mark for mark in marks if mark in lexicon.AGGREGATES]
        self.is_total = "sum" in aggregates and len(aggregates) > 1
        ranked = [mark for mark in aggregates if mark != "sum" or not self.is_total]
        self.aggregate = next(iter(ranked), "")
        openers = dict.fromkeys(lexicon.OPENERS[mark] for mark in marks if mark in lexicon.OPENERS)
        if {"which", "count"} <= set(openers):
            # `what is the average number of …` asks for the average, and `what is the number of …` counts.
            openers.pop("count" if aggregates else "which")
        if "list" in openers or self.aggregate == "share":
            openers = dict.fromkeys(openers.keys() & {"list"})
        self.opener = next(iter(openers), "")
        per = (at for at, part in enumerate(self.parts) if part.mark == "per" and self._divides(at))
        self.per = next(per, None)
        self.is_clear = (
            len(openers) <= 1
            and len(ranked) <= 1
            and bool(self.opener or self.aggregate)
            and not any(part.mark in {"and", "or"} or self._limits_nothing(part) for part in self.parts)
            and sum(part.period is not None for part in self.parts) <= 1
            and self._are_relations_true()
        )
        self.words = [
            token
            for part in self.parts
            if part.is_word
            for token in part.tokens
            if part.field or not (fields.is_empty(token) or lexicon.matches("pointers", token.word))
        ]

    def _names(self, part: Part) -> bool:
        return part.is_word and any(field.cost(token) == 0 for token in part.tokens for field in self.fields.all)

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

    def _limits_nothing(self, part: Part) -> bool:
        """Whether it is a `no` that turns nothing round: it is not the number of an `order_no`."""
        return part.is_word and not part.field and "not" in dict(lexicon.marks_at(part.tokens, 0, self.language))

    def _divides(self, at: int) -> bool:
        """Whether `per` asks for groups, rather than being part of the name of a price."""
        following = self.after(at)
        if following is None or not following.is_word:
            return False
        said, word = self.parts[at].tokens[0].word, following.tokens[0].stem
        return not any(said in field.words and word in {each.stem for each in field.title} for field in self.fields.all)

    def is_plain(self, part: Part) -> bool:
        return part.is_word and not part.field and all(self.fields.is_empty(token) for token in part.tokens)

    def after(self, at: int) -> Part | None:
        """Find the first part after a place that says something."""
        return next((part for part in self.parts[at + 1 :] if not self.is_plain(part)), None)

    def place(self, mark: str) -> int | None:
        """Find the part that says what is asked for."""
        return next(
            (at for at, each in enumerate(self.parts) if lexicon.OPENERS.get(each.mark, each.mark) == mark), None
        )

    def _are_relations_true(self) -> bool:
        """Whether `from` and `to` stand before values of columns that say where something comes from, and goes."""
        for at, part in enumerate(self.parts):
            before = [each for each in self.parts[max(0, at - 2) : at] if self.is_plain(each)]
            said = {token.word for each in before for token in each.tokens} & {"from", "to"}
            held = part.condition if self.language == "en" else None
            is_from, is_to = ("from" in said, "to" in said) if held and held.is_value else (False, False)
            if held and ((is_from and not held.field.has("from")) or (is_to and held.field.has("origins"))):
                return False
        return True

    def limits(self) -> list[Condition] | None:
        """Write the comparisons; None if it is not clear what is compared."""
        found: list[Condition] = []
        for at, part in enumerate(self.parts):
            if limit := part.limit:
                field = self._compared(at, limit)
                if field is None:
                    return None
                name = f'CAST("{field.name}" AS TIME)' if limit.is_time else f'"{field.name}"'
                sql = " AND ".join(f"{name} {sign} {end}" for sign, end in limit.sides)
                found.append(Condition(field, sql, f"{field.label} {limit.text}"))
        return found

    def _compared(self, at: int, limit: Limit) -> Field | None:
        """Find the column that the words at a comparison name, those after it first, or the only one."""
        is_time = limit.is_time
        able = [
            each for each in self.fields.all if (each.column.type.startswith("TIME") if is_time else each.is_number)
        ]
        able = [each for each in able if each is not limit.against]
        for places in (self.parts[at + 1 : at + 1 + _NEAR], self.parts[max(0, at - _NEAR) : at]):
            tokens = [t for part in [self.parts[at], *places] if part.is_word or part.limit for t in part.tokens]
            costs = {field: _cost(field, tokens) for field in able}
            nearest = [field for field in able if costs[field] == min(costs.values()) < SUPPOSED]
            if len(nearest) == 1:
                return nearest[0]
        if against := limit.against:
            able = [each for each in able if each.units == against.units and not each.has("priced")]
        elif is_time and self.fields.key in able:
            able = [self.fields.key]
        following = self.parts[at + 1 : at + 2]
        if any(part.condition and part.condition.field is self.fields.currency for part in following):
            return self.fields.amount
        return only(able) if is_time or limit.against or any(part.limit for part in following) else None

    def groups(self) -> list[Group]:
        """List what the words after `which`, `list` or `per` may name: columns, the rows, or a unit of time."""
        if self.per is None and self.opener in {"who", "where"}:
            name = "persons" if self.opener == "who" else "places"
            return [_group_of(field) for field in self.fields.all if field.has(name) and not field.is_number]
        if self.per is None and self.opener not in {"which", "list", "when"}:
            return []
        start = self.place(self.opener) if self.per is None else self.per
        following = [part for part in self.parts[(start or 0) + 1 :] if not part.mark and not self.is_plain(part)]
        found: list[Group] = []
        if following and following[0].condition and self.fields.key:
            found, following = [_group_of(self.fields.key)], following[1:]
        found += [group for part in following[: None if self.opener == "when" else 1] for group in self._named_by(part)]
        return list({group.sql: group for group in found}.values())

    def _named_by(self, part: Part) -> Iterator[Group]:
        if part.field:
            yield from [_group_of(part.field)] if self.per is not None or not part.field.is_number else []
        elif part.is_word:
            [token] = part.tokens
            for field in self.fields.all:
                is_able = (not field.is_number or self.per is not None) and not field.is_money
                if is_able and field.cost(token) is not None:
                    yield _group_of(field, token.stem)
            if self.fields.key and self.fields.cost_of_rows(token) is not None:
                yield _group_of(self.fields.key, token.stem)
            length = next((long for name, long in LENGTHS.items() if lexicon.matches(name, token.word)), 0)
            dated_by = self.dated_by(None) if length else None
            calendar = dated_by and dated_by.calendar
            is_title = any(field.cost(token) == 0 for field in self.fields.all)
            if dated_by and calendar and length < calendar.length and not is_title:
                yield Group(dated_by, calendar.part(1, length), is_period=True, word=token.stem)

    def dated_by(self, measure: Field | None) -> Field | None:
        """Find the column that dates the rows: the one that the question names, or the only one of what happened."""
        said = {token.stem for part in self.parts for token in part.tokens if part.is_word or part.mark}
        for field in self.fields.all:
            if field.is_time and any(field.cost(token) is not None for token in self.words):
                said |= {token.stem for token in field.title}
        days = [field for field in self.fields.all if field.is_day]
        is_flow = measure is not None and self.fields.adds_up(measure) and not measure.has("states")
        begun = only([field for field in days if field.has("begun")])
        return self.fields.dated_by(frozenset(said)) or begun or (only(days) if is_flow else None)


def _cost(field: Field, tokens: Sequence[Token]) -> float:
    """How far words are from naming a column; half a step for a title that is not said in full."""
    costs = [SUPPOSED if (cost := field.cost(token)) is None else cost for token in tokens]
    return min(costs, default=SUPPOSED) + is_cut(field, tokens) / 2


def is_cut(field: Field, tokens: Sequence[Token]) -> bool:
    """Whether words leave some of a column's title out."""
    return not {word.stem for word in field.title} <= {token.stem for token in tokens}


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
