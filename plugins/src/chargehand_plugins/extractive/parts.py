"""The parts of a question, each as long as possible: marks, conditions, periods, column titles and words."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Final, NamedTuple, TypeVar

from activities.documents.sql_names import quoted_text
from activities.documents.words import words
from chargehand_plugins.extractive import lexicon
from chargehand_plugins.extractive.fields import Field, Fields, only
from chargehand_plugins.extractive.lexicon import Token
from chargehand_plugins.extractive.periods import Period, read_period

UNREAD: Final = "unread"
"""Marks a restriction that is not understood."""
_MARKS: Final = (*lexicon.OPENERS, *lexicon.AGGREGATES, "per", "and", "or", "distinct")
_NEAR: Final = 3
"""Maximum number of words between a number and the column that it compares."""
_LONGEST_PHRASE: Final = 12
_T = TypeVar("_T")


class Condition(NamedTuple):
    """A condition on rows."""

    field: Field
    sql: str
    text: str
    is_value: bool = False


class Part(NamedTuple):
    """One or more tokens with their meaning; a word that needs an explanation if nothing else is set."""

    tokens: tuple[Token, ...]
    mark: str = ""
    period: Period | None = None
    condition: Condition | None = None
    field: Field | None = None
    """The column to whose title of several words the tokens belong."""

    @property
    def is_word(self) -> bool:
        return not (self.mark or self.period or self.condition)


def read_parts(fields: Fields, tokens: tuple[Token, ...]) -> list[Part]:
    """Cut a question about a table into parts, preferring the longest reading at each token."""
    reader, parts, at = _Reader(fields, tokens), list[Part](), 0
    while at < len(tokens):
        parts.append(next(reader.parts_at(at)))
        at += len(parts[-1].tokens)
    return parts


class _Reader:
    def __init__(self, fields: Fields, tokens: tuple[Token, ...]) -> None:
        self._fields, self._language, self._tokens = fields, fields.language, tokens
        self._stems = tuple(token.stem for token in tokens)

    def parts_at(self, at: int) -> Iterator[Part]:
        """List the possible parts at a token, best first."""
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
        """Return the longest phrase at a token, and where it ends."""
        ends = range(min(at + _LONGEST_PHRASE, len(self._tokens)), at, -1)
        return next(((phrases[key], end) for end in ends if (key := self._stems[at:end]) in phrases), ((), at))

    def _skip(self, at: int) -> int:
        """Skip articles and other words without meaning."""
        return at + len(list(takewhile(self._fields.is_empty, self._tokens[at:])))

    def _comparisons(self, at: int, mark: str, end: int) -> Iterator[Part]:
        """Read `more than 5`, `between 2 and 4` and `below the minimum`."""
        sign, place, read = lexicon.SIGNS.get(mark, ""), self._skip(end), lexicon.read_number
        said = [read(token.text, self._language) for token in self._tokens[place : place + 3]]
        sides: list[tuple[str, str, str]] = []
        against = None
        if mark == "between" and len(said) > 2 and None not in said[::2]:
            sides, end = [(sign, str(said[side]), str(said[side])) for sign, side in ((">=", 0), ("<=", 2))], place + 3
        elif sign and said and said[0] is not None:
            sides, end = [(sign, str(said[0]), lexicon.number(said[0], self._language))], place + 1
        elif sign:
            titles, end = self._longest(place, self._fields.titles)
            against = next((field for field in titles if field.is_number), None)
            sides = [(sign, f'"{against.name}"', against.label)] if against else []
        if sides:
            field = self._compared_column(at, end, against)
            sql = " AND ".join(f'"{field.name}" {sign} {value}' for sign, value, _ in sides) if field else ""
            text = " ".join(f"{sign} {text}" for sign, _, text in sides)
            held = Condition(field, sql, f"{field.label} {text}") if field else None
            yield Part(self._tokens[at:end], mark="" if held else UNREAD, condition=held)

    def _compared_column(self, at: int, end: int, against: Field | None) -> Field | None:
        """Find the column named near a comparison: after it, before it, or else the only candidate."""
        after, before = self._tokens[at : end + _NEAR], self._tokens[max(0, at - _NEAR) : end]
        fields = [each for each in self._fields.all if each is not against]
        if any(each.is_unread and each.cost(token) == 0 for each in fields for token in after):
            return None
        able = [each for each in fields if each.is_number]
        for tokens in (after, before):
            costs = [(cost, each) for each in able if (cost := each.cost_of_all(tokens)) is not None]
            nearest = [each for cost, each in costs if cost == min(cost for cost, _ in costs)]
            if len(nearest) == 1:
                return nearest[0]
        if against:
            able = [each for each in able if each.units == against.units and not each.has("priced")]
        return only(able)

    def _negations(self, at: int, place: int, *, is_blank: bool) -> Iterator[Part]:
        """Read negations: `not yet paid` and `not open` for any value, `no phone number` for blanks."""
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
        """Read the longest value that occurs in exactly one column."""
        matches, end = self._longest(at, self._fields.values)
        token = self._tokens[at]
        if not matches:  # `offen` for the value `open`
            held = [(stems, each) for stems, each in self._fields.values.items() if len(stems) == 1]
            same = [each for stems, each in held if lexicon.is_held(token.word, stems, "values")]
            matches, end = (same[0], at + 1) if len(same) == 1 else self._parts_of_values_at(at)
        if end <= at + 1 and self._fields.is_empty(token):  # the article `a` does not name bench A
            matches = [each for each in matches if token.text == each[1]]
        is_measure = any(each.is_number and each.cost(token) is not None for each in self._fields.all)
        if end <= at + 1 and (is_measure or lexicon.matches("time_words", token.word)):
            # A month does not mean the value `monthly`.
            matches = [each for each in matches if each[0].is_flag or token.word in words(each[1])]
        if chosen := only(matches):
            field, value = chosen
            sql = f'lower(CAST("{field.name}" AS VARCHAR)) = {quoted_text(value.lower())}'
            held = Condition(field, sql, f"{field.label} = {value}", is_value=True)
            yield Part(self._tokens[at:end], condition=held)

    def _parts_of_values_at(self, at: int) -> tuple[Sequence[tuple[Field, str]], int]:
        """Read more than half of the words of a value, in any order, or one word of a proper name."""
        first, matches = self._tokens[at], list[tuple[int, Field, str]]()
        if self._fields.is_empty(first) or any(each.cost(first) == 0 for each in self._fields.all):
            return (), at
        for stems, held in self._fields.values.items():
            telling = {stem for stem in stems if stem.isalpha() and len(stem) > 1 and not lexicon.unit_forms(stem)}
            tokens = list(takewhile(lambda t, own=stems: t.stem in own or self._fields.is_empty(t), self._tokens[at:]))
            while tokens and tokens[-1].stem not in stems:
                tokens.pop()
            is_most = 2 * len({t.stem for t in tokens} & telling) > len(telling)
            for field, value in held if tokens else ():
                if field.is_listed and (is_most or (value.istitle() and first.text.istitle())):
                    matches.append((at + len(tokens), field, value))
        longest = max((end for end, *_ in matches), default=at)
        return [(field, value) for end, field, value in matches if end == longest], longest
