"""A question cut into parts, each as long as it can be: marks, conditions, periods, titles of columns and words."""

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Final, NamedTuple

from activities.documents.sql_names import quoted_text
from chargehand_plugins.extractive import lexicon
from chargehand_plugins.extractive.fields import Field, Fields, only
from chargehand_plugins.extractive.lexicon import Token
from chargehand_plugins.extractive.periods import Period, read_period

_JOINTS: Final = frozenset("-–/&")


class Condition(NamedTuple):
    """What rows must have."""

    field: Field
    sql: str
    text: str
    is_value: bool = False
    moment: tuple[str, str] = ("", "")
    """Of a period: each row's moment in SQL, and the first of those that are meant."""


class Limit(NamedTuple):
    """What a column of numbers or times is compared with: signs, each with a number, a time or a column in SQL."""

    sides: tuple[tuple[str, str], ...]
    text: str
    against: Field | None = None
    is_time: bool = False


class Part(NamedTuple):
    """One token or several that a question is read as; a word to be accounted for if nothing else is set."""

    tokens: tuple[Token, ...]
    mark: str = ""
    period: Period | None = None
    limit: Limit | None = None
    condition: Condition | None = None
    field: Field | None = None
    """The column whose title these words are, if it has several."""

    @property
    def is_word(self) -> bool:
        return not (self.mark or self.period or self.limit or self.condition)


def read_parts(fields: Fields, tokens: tuple[Token, ...]) -> list[Part]:
    """Cut a question of a table, the longest reading of each place first."""
    reader, found, at = _Reader(fields, tokens), list[Part](), 0
    while at < len(tokens):
        found.append(next(reader.parts_at(at)))
        at += len(found[-1].tokens)
    return found


def equal(field: Field, values: Sequence[str]) -> Condition:
    """Write that a column has one of several values."""
    name = f'lower(CAST("{field.name}" AS VARCHAR))'
    sql = " OR ".join(f"{name} = {quoted_text(value.lower())}" for value in values)
    sql = f"({sql})" if len(values) > 1 else sql
    return Condition(field, sql, f"{field.label} = {' / '.join(values)}", is_value=True)


class _Reader:
    def __init__(self, fields: Fields, tokens: tuple[Token, ...]) -> None:
        self._fields, self._language, self._tokens = fields, fields.language, tokens
        self._is_dated = any(field.calendar for field in fields.all)

    def parts_at(self, at: int) -> Iterator[Part]:
        """List what may begin at a token; the first is meant."""
        tokens, marks = self._tokens, dict(lexicon.marks_at(self._tokens, at, self._language))
        values = list(self._values_at(at))
        titles = [
            (end, each) for each in self._fields.all if len(each.title) > 1 and (end := self._end(at, each.stems))
        ]
        yield from (part for part in values if len(part.tokens) > 1)
        if titles:
            end, field = max(titles, key=lambda found: found[0])
            yield Part(tokens[at:end], field=field)
        if self._is_dated and (period := read_period(tokens, at, self._language)):
            yield Part(tokens[at : period[1]], period=period[0])
        for mark, end in marks.items():
            if limit := self._limit(mark, end):
                yield Part(tokens[at : limit[1]], limit=limit[0])
        if "not" in marks and (place := self._skip(marks["not"])) < len(tokens):
            yield from self._negations(at, place, is_blank="lacking" in marks)
        yield from values
        for kinds in (lexicon.OPENERS, lexicon.AGGREGATES, {"per", "and", "or", "distinct"}):
            yield from (Part(tokens[at:end], mark=mark) for mark, end in marks.items() if mark in kinds)
        yield Part(tokens[at : at + 1])

    def _skip(self, at: int) -> int:
        """Pass over articles and other words that say nothing."""
        while at < len(self._tokens) and (
            self._fields.is_empty(self._tokens[at]) or lexicon.matches("pointers", self._tokens[at].word)
        ):
            at += 1
        return at

    def _limit(self, mark: str, end: int) -> tuple[Limit, int] | None:
        """Read `more than 5`, `between 2 and 4`, `after 9:00` and `below the minimum`."""
        sign = lexicon.COMPARISONS.get(mark) or lexicon.BOUNDS.get(mark, "")
        said = [lexicon.read_number(token.text, self._language) for token in self._tokens[end : end + 3]]
        if mark == "between" and len(said) > 2 and None not in said[::2]:
            return Limit(((">=", str(said[0])), ("<=", str(said[2]))), f"{said[0]} – {said[2]}"), end + 3
        place = self._skip(end)
        if not sign or place >= len(self._tokens):
            return None
        if time := lexicon.read_time(self._tokens[place].word):
            return Limit(((sign, f"TIME '{time}'"),), f"{sign} {time}", is_time=True), place + 1
        number = lexicon.read_number(self._tokens[place].text, self._language)
        if mark in lexicon.BOUNDS:
            return None
        if number is not None:
            return Limit(((sign, str(number)),), f"{sign} {lexicon.number(number, self._language)}"), place + 1
        ends = ((each, self._end(place, each.stems)) for each in self._fields.all if each.is_number)
        other = next((found for found in ends if found[1]), None)
        return other and (Limit(((sign, f'"{other[0].name}"'),), f"{sign} {other[0].label}", other[0]), other[1])

    def _negations(self, at: int, place: int, *, is_blank: bool) -> Iterator[Part]:
        """Read `not yet paid` and `not open` over any value, and `no phone number` over what is blank."""
        for part in self._values_at(place):
            if held := part.condition:
                turned = held._replace(sql=f"NOT ({held.sql})", text=held.text.replace(" = ", " ≠ ", 1), is_value=False)
                yield Part(self._tokens[at : place + len(part.tokens)], condition=turned)
        for field in self._fields.all:
            end = self._end(place, field.stems)
            if is_blank and field.is_number and not end and field.cost(self._tokens[place]) is not None:
                end = place + 1
            if end and (is_blank or (field.is_day and field.has("event"))):
                end += any(lexicon.matches("dates", token.word) for token in self._tokens[end : end + field.is_time])
                sql, none = f'"{field.name}" IS NULL', "–"
                if field.is_number:
                    sql, none = f'coalesce("{field.name}", 0) = 0', "0"
                yield Part(self._tokens[at:end], condition=Condition(field, sql, f"{field.label} = {none}"))

    def _values_at(self, at: int) -> Iterator[Part]:
        """Read the longest value that one column has, or the column that is named beside it."""
        found = self._whole_values_at(at) or self._parts_of_values_at(at)
        longest = max((end for *_, end in found), default=0)
        found = [each for each in found if each[2] == longest]
        beside = [self._tokens[place] for place in (at - 1, longest) if 0 <= place < len(self._tokens)]
        named_beside = [each for each in found if any(each[0].cost(token) in {0, 1} for token in beside)]
        if chosen := only(named_beside) or only(found):
            field, value, end = chosen
            values, end = self._others(field, [value], end)
            yield Part(self._tokens[at:end], condition=equal(field, values))

    def _others(self, field: Field, values: list[str], end: int) -> tuple[list[str], int]:
        """Read on over `or` and `and` to further values of the same column."""
        for mark, close in lexicon.marks_at(self._tokens, end, self._language):
            place = self._skip(close) if mark in {"or", "and"} else len(self._tokens)
            for held, value, after in self._whole_values_at(place) if place < len(self._tokens) else []:
                if held is field and value not in values:
                    return self._others(field, [*values, value], after)
        return values, end

    def _whole_values_at(self, at: int) -> list[tuple[Field, str, int]]:
        said, before = self._tokens[at], self._tokens[at - 1] if at else None
        is_empty = self._fields.is_empty(said)  # `a` is no bench A
        found = [
            (field, value, end)
            for stems, field, value in self._fields.values
            if (end := self._end(at, stems)) and not (is_empty and end == at + 1 and said.text != value)
        ]
        if said.text[0].isdigit() and before:  # `platform 2`, a number beside the name of its column
            key = self._fields.key if self._fields.cost_of_rows(before) == 0 else None
            numbered = (each for each in self._fields.all if each.cost(before) == 0 or each is key)
            found += [(each, said.text, at + 1) for each in numbered if said.text in each.column.examples]
        return found

    def _parts_of_values_at(self, at: int) -> list[tuple[Field, str, int]]:
        """Read more than half of the words of a value, in any order, or one of a proper name, if no other has them."""
        first, found = self._tokens[at], list[tuple[Field, str, int]]()
        if self._fields.is_empty(first) or any(field.cost(first) == 0 for field in self._fields.all):
            return []
        for stems, field, value in self._fields.values:
            telling = {stem for stem in stems if stem.isalpha() and len(stem) > 1 and not lexicon.unit_forms(stem)}
            run = takewhile(lambda t, own=stems: t.stem in own or self._fields.is_empty(t), self._tokens[at:])
            said = list(run)
            while said and said[-1].stem not in stems:
                said.pop()
            is_name = value.istitle() and (field.has("persons") or all(token.text.istitle() for token in said))
            if field.is_listed and said and (is_name or 2 * len({t.stem for t in said} & telling) > len(telling)):
                found.append((field, value, at + len(said)))
        longest = [each for each in found if each[2] == max(end for *_, end in found)]
        return longest if len(longest) == 1 else []

    def _end(self, at: int, wanted: Sequence[str]) -> int:
        """Find where words that begin at a token end; 0 if they do not stand there. Dashes inside are passed over."""
        for number, word in enumerate(wanted):
            while number and at < len(self._tokens) and self._tokens[at].text in _JOINTS:
                at += 1
            if at >= len(self._tokens) or self._tokens[at].stem != word:
                return 0
            at += 1
        return at if wanted else 0
