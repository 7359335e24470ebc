"""A question cut into parts, each as long as it can be: what is asked for, conditions, periods, titles and words."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from chargehand_plugins.extractive import lexicon
from chargehand_plugins.extractive.conditions import Condition, Limit, equal
from chargehand_plugins.extractive.fields import NO, YES, Field, Fields, only
from chargehand_plugins.extractive.lexicon import Token
from chargehand_plugins.extractive.periods import Period, read_period

_SHORTEST_WORD: Final = 4


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


class _Reader:
    def __init__(self, fields: Fields, tokens: tuple[Token, ...]) -> None:
        self._fields, self._language, self._tokens = fields, fields.language, tokens

    def parts_at(self, at: int) -> Iterator[Part]:
        tokens = self._tokens
        yield from self._flags_at(at, at, is_not=False)
        for field in sorted(self._fields.all, key=lambda each: -len(each.title)):
            if len(field.title) > 1 and (end := self._title_end(field, at)):
                yield Part(tokens[at:end], field=field)
        is_dated = any(field.calendar for field in self._fields.all)
        if is_dated and (period := read_period(tokens, at, self._language)):
            yield Part(tokens[at : period[1]], period=period[0])
        yield from self._limits_at(at)
        yield from self._negations_at(at)
        if lexicon.matches("under", tokens[at].word) and at + 1 < len(tokens):
            yield from self._flags_at(at + 1, at, is_not=False)
        yield from self._values_at(at)
        marks = dict(self._marks_at(at))
        for kinds in (lexicon.OPENERS, lexicon.AGGREGATES, {"per", "and", "or", "distinct"}):
            yield from (Part(tokens[at:end], mark=mark) for mark, end in marks.items() if mark in kinds)
        yield Part(tokens[at : at + 1])

    def _marks_at(self, at: int) -> Iterator[tuple[str, int]]:
        return lexicon.marks_at(self._tokens, at, self._language)

    def _title_end(self, field: Field, at: int) -> int:
        """Find where the whole title of a column ends that begins at a token; 0 if it does not stand there."""
        end = at + len(field.title)
        is_there = [token.stem for token in self._tokens[at:end]] == [word.stem for word in field.title]
        return end if is_there else 0

    def _limits_at(self, at: int) -> Iterator[Part]:
        """Read `more than 5`, `between 2 and 4`, `after 9:00` and `below the minimum`."""
        for mark, end in self._marks_at(at):
            place = self._skip(end)
            sign = lexicon.COMPARISONS.get(mark) or lexicon.BOUNDS.get(mark, "")
            if mark == "between" and (ends := self._ends(end)):
                yield Part(self._tokens[at : end + 3], limit=ends)
            if not sign or place >= len(self._tokens):
                continue
            number = lexicon.read_number(self._tokens[place].text, self._language)
            limit, last = None, place + 1
            if time := lexicon.read_time(self._tokens[place].word):
                limit = Limit(((sign, f"TIME '{time}'"),), f"{sign} {time}", is_time=True)
            elif mark in lexicon.COMPARISONS and number is not None:
                limit = Limit(((sign, str(number)),), f"{sign} {lexicon.number(number, self._language)}")
            elif mark in lexicon.COMPARISONS:
                numbers = ((each, self._title_end(each, place)) for each in self._fields.all if each.is_number)
                field, last = next((found for found in numbers if found[1]), (None, 0))
                limit = field and Limit(((sign, f'"{field.name}"'),), f"{sign} {field.label}", field)
            if limit:
                yield Part(self._tokens[at:last], limit=limit)

    def _ends(self, at: int) -> Limit | None:
        """Read `2 and 4`."""
        said = [lexicon.read_number(token.text, self._language) for token in self._tokens[at : at + 3]]
        if len(said) < 3 or ("and", at + 2) not in self._marks_at(at + 1):
            return None
        low, _, high = said
        if low is None or high is None:
            return None
        return Limit(((">=", str(low)), ("<=", str(high))), f"{low} – {high}")

    def _skip(self, at: int) -> int:
        """Pass over articles and other words that say nothing."""
        while at < len(self._tokens) and (
            self._fields.is_empty(self._tokens[at]) or lexicon.matches("pointers", self._tokens[at].word)
        ):
            at += 1
        return at

    def _negations_at(self, at: int) -> Iterator[Part]:
        """Read `not yet paid` over yes and no, `not open` over any value, and `no phone number` over what is blank."""
        marks = list(self._marks_at(at))
        start = next((end for mark, end in marks if mark == "not"), at)
        place = self._skip(start)
        if start == at or place >= len(self._tokens):
            return
        yield from self._flags_at(place, at, is_not=True)
        for part in self._values_at(place):
            if held := part.condition:
                turned = held._replace(sql=f"NOT ({held.sql})", text=held.text.replace(" = ", " ≠ ", 1), is_value=False)
                yield Part(self._tokens[at : place + len(part.tokens)], condition=turned)
        is_blank = any(mark == "lacking" for mark, _ in marks)
        for field in self._fields.all:
            if (is_blank or (field.is_day and field.has("event"))) and (end := self._title_end(field, place)):
                named = self._tokens[end : end + 1] if field.is_time else ()
                end += any(lexicon.matches("dates", token.word) for token in named)
                sql, none = f'"{field.name}" IS NULL', "–"
                if field.is_number:
                    sql, none = f'coalesce("{field.name}", 0) = 0', "0"
                yield Part(self._tokens[at:end], condition=Condition(field, sql, f"{field.label} = {none}"))

    def _flags_at(self, at: int, start: int, *, is_not: bool) -> Iterator[Part]:
        """Read the name of a column of yes and no, such as `paid`, as a condition."""
        for field in self._fields.all:
            title, said = field.title, self._tokens[at : at + len(field.title)]
            if not field.is_flag or len(said) < len(title):
                continue
            is_turned = len(title) == 1 and said[0].stem == f"un{title[0].stem}"
            pairs = zip(said, title, strict=True)
            if is_turned or all(not lexicon.roots(word).isdisjoint(lexicon.roots(own)) for word, own in pairs):
                held = {value.casefold(): value for value in field.column.examples}
                wanted = NO if is_not != is_turned else YES
                value = next((held[own] for own in held if own in wanted), min(wanted))
                yield Part(self._tokens[start : at + len(title)], condition=equal(field, [value]))

    def _values_at(self, at: int) -> Iterator[Part]:
        found = self._whole_values_at(at)
        if self._fields.currency and not found:
            forms = lexicon.unit_forms(self._tokens[at].word)
            named = (value for value in self._fields.currency.column.examples if value.casefold() in forms)
            found = [(self._fields.currency, value, at + 1) for value in named]
        found = found or self._numbered_at(at) or self._parts_of_values_at(at)
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
        for mark, close in self._marks_at(end):
            place = self._skip(close) if mark in {"or", "and"} else len(self._tokens)
            for held, value, after in self._whole_values_at(place) if place < len(self._tokens) else []:
                if held is field and value not in values:
                    return self._others(field, [*values, value], after)
        return values, end

    def _whole_values_at(self, at: int) -> list[tuple[Field, str, int]]:
        return [
            (field, value, end)
            for field in self._fields.all
            if field.column.type == "VARCHAR" and not field.calendar
            for value in field.column.examples
            if (end := self._end(at, _value_stems(value, self._language)))
        ]

    def _numbered_at(self, at: int) -> list[tuple[Field, str, int]]:
        """Read `platform 2` and `second floor`, a number beside the name of its column."""
        ordinal = lexicon.read_ordinal(self._tokens[at].word)
        number, place = (ordinal, at + 1) if ordinal else (self._tokens[at].text, at - 1)
        if not (0 <= place < len(self._tokens)) or not number[0].isdigit():
            return []
        name, key = self._tokens[place], None if ordinal else self._fields.key
        return [
            (field, number, at + 1)
            for field in self._fields.all
            if number in field.column.examples
            and (field.cost(name) == 0 or (field is key and self._fields.cost_of_rows(name) == 0))
        ]

    def _parts_of_values_at(self, at: int) -> list[tuple[Field, str, int]]:
        """Read one word of a person's name, or a value without its size, if no other value has it."""
        token = self._tokens[at]
        is_named = any(field.cost(token) == 0 for field in self._fields.all)
        if not token.word.isalpha() or is_named or self._fields.is_empty(token):
            return []
        found = [
            (field, value, at + 1)
            for field in self._fields.all
            if field.column.type == "VARCHAR" and field.column.distinct <= len(field.column.examples)
            for value in field.column.examples
            if token.stem in (stems := _value_stems(value, self._language))
            and (
                all(len(stem) < _SHORTEST_WORD or lexicon.unit_forms(stem) for stem in stems if stem != token.stem)
                or (token.text.istitle() and value.istitle() and self._language != "de")
                or field.has("persons")
            )
        ]
        return found if len(found) == 1 else []

    def _end(self, at: int, wanted: Sequence[str]) -> int:
        """Find where words that begin at a token end; 0 if they do not stand there. Dashes inside are passed over."""
        for number, word in enumerate(wanted):
            while number and at < len(self._tokens) and self._tokens[at].text in "-–/&":
                at += 1
            if at >= len(self._tokens) or self._tokens[at].stem != word:
                return 0
            at += 1
        return at if wanted else 0


@lru_cache(maxsize=10_000)
def _value_stems(value: str, language: str) -> tuple[str, ...]:
    """List the stems of a value; none for a bare number, which says nothing without its column."""
    found = lexicon.stems(value, language)
    return () if value.lower() in lexicon.totals() or all(word.isdigit() for word in found) else found
