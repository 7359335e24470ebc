"""A question cut into parts, each as long as it can be: marks, conditions, periods, titles of columns and words."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Final, NamedTuple, TypeVar

from activities.documents.sql_names import quoted_text
from chargehand_plugins.extractive import lexicon
from chargehand_plugins.extractive.fields import Field, Fields, only
from chargehand_plugins.extractive.lexicon import Token
from chargehand_plugins.extractive.periods import Period, read_period

UNREAD: Final = "unread"
"""Marks what limits a question in a way that is not understood."""
_MARKS: Final = (*lexicon.OPENERS, *lexicon.AGGREGATES, "per", "and", "or", "distinct")
_NEAR: Final = 3
"""How many words may stand between a number and the column that it compares."""
_LONGEST_PHRASE: Final = 12
_T = TypeVar("_T")


class Condition(NamedTuple):
    """What rows must have."""

    field: Field
    sql: str
    text: str
    is_value: bool = False
    moment: tuple[str, str] = ("", "")
    """Of a period: each row's moment in SQL, and the first of those that are meant."""


class Part(NamedTuple):
    """One token or several that a question is read as; a word to be accounted for if nothing else is set."""

    tokens: tuple[Token, ...]
    mark: str = ""
    period: Period | None = None
    condition: Condition | None = None
    field: Field | None = None
    """The column whose title these words are, if it has several."""

    @property
    def is_word(self) -> bool:
        return not (self.mark or self.period or self.condition)

    @property
    def bounds(self) -> bool:
        return bool(self.period or self.condition)


def read_parts(fields: Fields, tokens: tuple[Token, ...]) -> list[Part]:
    """Cut a question of a table, the longest reading of each place first."""
    reader, found, at = _Reader(fields, tokens), list[Part](), 0
    while at < len(tokens):
        found.append(next(reader.parts_at(at)))
        at += len(found[-1].tokens)
    return found


def without_joints(parts: Sequence[Part]) -> list[Part]:
    """Leave out each `and` between two conditions."""
    telling = [part for part in parts if not part.is_word]
    between = zip(telling, telling[1:], telling[2:], strict=False)
    joints = [id(part) for before, part, after in between if before.condition and after.condition]
    return [part for part in parts if part.mark != "and" or id(part) not in joints]


class _Reader:
    def __init__(self, fields: Fields, tokens: tuple[Token, ...]) -> None:
        self._fields, self._language, self._tokens = fields, fields.language, tokens
        self._stems = tuple(token.stem for token in tokens)

    def parts_at(self, at: int) -> Iterator[Part]:
        """List what may begin at a token; the first is meant."""
        tokens, marks = self._tokens, dict(lexicon.marks_at(self._tokens, at, self._language))
        values = list(self._values_at(at))
        yield from (part for part in values if len(part.tokens) > 1)
        titles, end = self._longest(at, self._fields.titles)
        yield from (Part(tokens[at:end], field=field) for field in titles[:1] if end > at + 1)
        if period := read_period(tokens, at, self._language):
            yield Part(tokens[at : period[1]], period=period[0])
        for mark, end in marks.items():
            yield from self._comparisons(at, mark, end)
        if "not" in marks and (place := self._skip(marks["not"])) < len(tokens):
            yield from self._negations(at, place, is_blank="lacking" in marks)
        yield from values
        yield from (Part(tokens[at : marks[mark]], mark=mark) for mark in _MARKS if mark in marks)
        yield Part(tokens[at : at + 1])

    def _longest(self, at: int, phrases: Mapping[tuple[str, ...], Sequence[_T]]) -> tuple[Sequence[_T], int]:
        """Find the longest phrase that begins at a token, and where it ends."""
        ends = range(min(at + _LONGEST_PHRASE, len(self._tokens)), at, -1)
        return next(((phrases[key], end) for end in ends if (key := self._stems[at:end]) in phrases), ((), at))

    def _skip(self, at: int) -> int:
        """Pass over articles and other words that say nothing."""
        is_empty = self._fields.is_empty
        rest = takewhile(lambda t: is_empty(t) or lexicon.matches("pointers", t.word), self._tokens[at:])
        return at + len(list(rest))

    def _comparisons(self, at: int, mark: str, end: int) -> Iterator[Part]:
        """Read `more than 5`, `between 2 and 4`, `after 9:00` and `below the minimum`."""
        sign, place, number = (lexicon.SIGNS | lexicon.BOUNDS).get(mark, ""), self._skip(end), lexicon.read_number
        said = [number(token.text, self._language) for token in self._tokens[end : end + 3]]
        sides: list[tuple[str, str, str]] = []
        against = None
        if mark == "between" and len(said) > 2 and None not in said[::2]:
            sides, end = [(">=", str(said[0]), str(said[0])), ("<=", str(said[2]), str(said[2]))], end + 3
        elif sign and place < len(self._tokens):
            token, end = self._tokens[place], place + 1
            if time := lexicon.read_time(token.word):
                sides = [(sign, f"TIME '{time}'", time)]
            elif mark in lexicon.SIGNS and (amount := number(token.text, self._language)) is not None:
                sides = [(sign, str(amount), lexicon.number(amount, self._language))]
            elif mark in lexicon.SIGNS:
                titles, end = self._longest(place, self._fields.titles)
                against = next((field for field in titles if field.is_number), None)
                sides = [(sign, f'"{against.name}"', against.label)] if against else []
        if sides:
            is_time = sides[0][1].startswith("TIME")
            field = self._compared(at, end, against, is_time=is_time)
            name = field and (f'CAST("{field.name}" AS TIME)' if is_time else f'"{field.name}"')
            sql = " AND ".join(f"{name} {sign} {value}" for sign, value, _ in sides)
            text = " ".join(f"{sign} {text}" for sign, _, text in sides)
            held = Condition(field, sql, f"{field.label} {text}") if field else None
            yield Part(self._tokens[at:end], mark="" if held else UNREAD, condition=held)

    def _compared(self, at: int, end: int, against: Field | None, *, is_time: bool) -> Field | None:
        """Find the column that the words at a comparison name, those after it first, or the only one."""
        fields = [each for each in self._fields.all if each is not against]
        unread = [each for each in fields if each.is_unread]
        if any(each.cost(token) == 0 for each in unread for token in self._tokens[at : end + _NEAR]):
            return None
        able = [each for each in fields if (each.column.type.startswith("TIME") if is_time else each.is_number)]
        for tokens in (self._tokens[at : end + _NEAR], self._tokens[max(0, at - _NEAR) : end]):
            costs = [(cost, each) for each in able if (cost := each.cost_of_all(tokens)) is not None]
            nearest = [each for cost, each in costs if cost == min(cost for cost, _ in costs)]
            if len(nearest) == 1:
                return nearest[0]
        if against:
            able = [each for each in able if each.units == against.units and not each.has("priced")]
        return self._fields.key if is_time and self._fields.key in able else only(able)

    def _negations(self, at: int, place: int, *, is_blank: bool) -> Iterator[Part]:
        """Read `not yet paid` and `not open` over any value, and `no phone number` over what is blank."""
        for part in self._values_at(place):
            if held := part.condition:
                turned = held._replace(sql=f"NOT ({held.sql})", text=held.text.replace(" = ", " ≠ ", 1), is_value=False)
                yield Part(self._tokens[at : place + len(part.tokens)], condition=turned)
        titles, end = self._longest(place, self._fields.titles)
        named = [each for each in self._fields.all if each.is_number and each.cost(self._tokens[place]) is not None]
        for field in titles or (named if is_blank else []):
            if is_blank or (field.is_day and field.has("event")):
                end = max(end, place + 1)
                sql = f'coalesce("{field.name}", 0) = 0' if field.is_number else f'"{field.name}" IS NULL'
                none = f"{field.label} = {'0' if field.is_number else '–'}"
                yield Part(self._tokens[at:end], condition=Condition(field, sql, none))

    def _values_at(self, at: int) -> Iterator[Part]:
        """Read the longest value that one column has, or the column that is named beside it."""
        found, end = self._whole_values_at(at)
        if not found:
            found, end = self._parts_of_values_at(at)
        beside = [self._tokens[place] for place in (at - 1, end) if 0 <= place < len(self._tokens)]
        named_beside = [each for each in found if any(each[0].cost(token) in {0, 1} for token in beside)]
        if chosen := only(named_beside) or only(found):
            values, end = self._others(chosen[0], [chosen[1]], end)
            listed = ", ".join(quoted_text(value.lower()) for value in values)
            sql, text = f'lower(CAST("{chosen[0].name}" AS VARCHAR)) IN ({listed})', " / ".join(values)
            held = Condition(chosen[0], sql, f"{chosen[0].label} = {text}", is_value=True)
            yield Part(self._tokens[at:end], condition=held)

    def _others(self, field: Field, values: list[str], end: int) -> tuple[list[str], int]:
        """Read on over `or` and `and` to further values of the same column."""
        for mark, close in lexicon.marks_at(self._tokens, end, self._language):
            found, after = self._whole_values_at(self._skip(close)) if mark in {"or", "and"} else ((), 0)
            for held, value in found:
                if held is field and value not in values:
                    return self._others(field, [*values, value], after)
        return values, end

    def _whole_values_at(self, at: int) -> tuple[Sequence[tuple[Field, str]], int]:
        found, end = self._longest(at, self._fields.values)
        token, before = next(iter(self._tokens[at : at + 1]), None), self._tokens[at - 1] if at else None
        if token and not found:  # `offen` of an `open` one
            held = [(stems, each) for stems, each in self._fields.values.items() if len(stems) == 1]
            same = [each for stems, each in held if lexicon.is_held(token.word, stems, "values")]
            found, end = (same[0], at + 1) if len(same) == 1 else (found, end)
        if token and end <= at + 1 and self._fields.is_empty(token):  # `a` is no bench A
            found = [each for each in found if token.text == each[1]]
        if token and before and end <= at + 1 and token.text[0].isdigit():  # `platform 2`, a number beside its column
            beside = [each for each in self._fields.all if each.cost(before) == 0]
            numbered = [(each, token.text) for each in beside if token.text in each.examples]
            return list({*found, *numbered}), at + 1
        return found, end

    def _parts_of_values_at(self, at: int) -> tuple[Sequence[tuple[Field, str]], int]:
        """Read more than half of the words of a value, in any order, or one of a proper name, if no other has them."""
        first, found = self._tokens[at], list[tuple[int, Field, str]]()
        if self._fields.is_empty(first) or any(each.cost(first) == 0 for each in self._fields.all):
            return (), at
        for stems, held in self._fields.values.items():
            telling = {stem for stem in stems if stem.isalpha() and len(stem) > 1 and not lexicon.unit_forms(stem)}
            said = list(takewhile(lambda t, own=stems: t.stem in own or self._fields.is_empty(t), self._tokens[at:]))
            while said and said[-1].stem not in stems:
                said.pop()
            is_most = 2 * len({t.stem for t in said} & telling) > len(telling)
            for field, value in held if said else ():
                if field.is_listed and (is_most or (value.istitle() and said[0].text.istitle())):
                    found.append((at + len(said), field, value))
        longest = max((end for end, *_ in found), default=at)
        best = only([(field, value) for end, field, value in found if end == longest])
        return [best] if best else [], longest
