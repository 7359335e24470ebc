"""What the words of a question name of a table: conditions, periods, what is asked for, its columns and itself."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from typing import Final, NamedTuple, TypeVar

from activities.documents.catalog import Column, Table
from chargehand_plugins.extractive import lexicon
from chargehand_plugins.extractive.conditions import Condition, Limit, equal, title_of
from chargehand_plugins.extractive.lexicon import Token
from chargehand_plugins.extractive.periods import Period, calendar_of, is_day, is_series_of, read_calendar, read_period

_T = TypeVar("_T")
_NUMBERS: Final = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UBIGINT", "FLOAT", "DOUBLE", "DECIMAL")
_TIMES: Final = ("TIME", "TIMESTAMP")
_SHORTEST_WORD: Final = 4
_SHORTEST_PART: Final = 5
"""Letters of a part of a compound word."""
_AMOUNT: Final = re.compile(r"[-+]?\d[\d.,\s]*\s?[^\W\d]{0,3}")
"""Such as `4.200 h`, which is left as a text."""
_YES, _NO = (frozenset(listed.split()) for listed in ("yes ja oui si true y x", "no nein non false n"))


class Part(NamedTuple):
    """One token or several that a question is read as; a word to be accounted for if nothing else is set."""

    tokens: tuple[Token, ...]
    mark: str = ""
    period: Period | None = None
    limit: Limit | None = None
    condition: Condition | None = None
    column: Column | None = None
    """The column whose title these words are, if it has several."""

    @property
    def is_word(self) -> bool:
        return not (self.mark or self.period or self.limit or self.condition)


@dataclass(frozen=True)
class Vocabulary:
    table: Table
    language: str
    tokens: tuple[Token, ...]

    @cached_property
    def names(self) -> tuple[Token, ...]:
        """The words of the file's and the sheet's name."""
        file = self.table.document.rsplit("/", 1)[-1].rsplit(".", 1)[0]
        return lexicon.read_tokens(f"{file} {self.table.sheet}".replace("_", " "), self.language)

    def title(self, column: Column) -> tuple[Token, ...]:
        """The words that name a column: all but its unit, unless it has nothing else."""
        return _title(title_of(column), self.language)

    def units(self, column: Column) -> frozenset[str]:
        words = _words(title_of(column), self.language)
        return frozenset(form for word in words for form in lexicon.unit_forms(word))

    def has(self, column: Column, name: str) -> bool:
        return any(lexicon.matches(name, word) for word in _words(title_of(column), self.language))

    def cost(self, column: Column, token: Token) -> int | None:
        """How far a word is from naming a column: 0 if its title has it, 2 if they only mean the same; None if not."""
        title, units = self.title(column), self.units(column)
        if any(token.stem == word.stem for word in title):
            return 0
        is_coin = lexicon.is_currency(token.word) and not units and self.is_money(column)
        if is_coin or (token.word in units and self.is_number(column)):
            return 1
        if self.language == "en" and any(not lexicon.roots(token).isdisjoint(lexicon.roots(word)) for word in title):
            return 1
        words = _words(title_of(column), self.language)
        if self.language == "de" and self._is_compound(token, words):
            return 1
        is_kind = (lexicon.matches("money", token.word) and self.is_money(column)) or (
            lexicon.matches("dates", token.word) and self.is_time(column)
        )
        if is_kind or lexicon.is_held(token.word, words):
            return 2
        return 3 if lexicon.is_held(token.word, words, "distant") else None

    def _is_compound(self, token: Token, titles: Sequence[str]) -> bool:
        """Whether a German word is the first or last part of a title's, or ends with it after the table's name."""
        said = token.word
        if len(said) < _SHORTEST_PART:
            return False
        prefixes = [said.removesuffix(title) for title in titles if len(title) >= _SHORTEST_PART]
        names = tuple(token.stem for token in self.names)
        return any(title.startswith(said) or title.endswith(said) for title in titles) or any(
            prefix != said and prefix.startswith(names) for prefix in prefixes if prefix
        )

    def cost_of_rows(self, token: Token) -> int | None:
        """How far a word is from naming what the table's rows are: by its name, or the title of its key."""
        things = (self.title(each)[:-1] for each in self.table.columns if self.has(each, "attributes"))
        keys = (self.title(each) for each in self.table.columns if self._is_one_each(each))
        first = self.title(self.key) if self.key else ()
        named = (*self.names, *first, *chain.from_iterable(keys), *chain.from_iterable(things))
        if any(token.stem == name.stem for name in named):
            return 0
        if self.language == "en" and any(not lexicon.roots(token).isdisjoint(lexicon.roots(name)) for name in named):
            return 1
        words = tuple(name.word for name in named)
        if self.language == "de" and self._is_compound(token, words):
            return 1
        return 2 if lexicon.is_held(token.word, words, "things") else None

    def is_number(self, column: Column) -> bool:
        return column.type.startswith(_NUMBERS) and not (read_calendar(column) or self.is_identifier(column))

    def is_identifier(self, column: Column) -> bool:
        """Whether a column has numbers that are names, as those of rooms and invoices are."""
        is_first = column == self.table.columns[0] and column.type == "BIGINT" and not self.has(column, "quantity")
        is_plain = is_first and column.distinct == self.table.rows > 1 and not self.units(column)
        return is_plain or self.has(column, "identifiers")

    def is_time(self, column: Column) -> bool:
        return column.type.startswith(_TIMES) or read_calendar(column) is not None

    def is_money(self, column: Column) -> bool:
        """Whether a column of numbers has a currency, or is a price of no other unit."""
        units = self.units(column)
        is_amount = any(self.has(column, name) for name in ("priced", "amounts", "wages", "revenues"))
        return self.is_number(column) and (any(map(lexicon.is_currency, units)) or (not units and is_amount))

    @cached_property
    def currency(self) -> Column | None:
        """The column that holds nothing but currencies."""
        found = [column for column in self.table.columns if column.examples and all(map(_is_code, column.examples))]
        return found[0] if len(found) == 1 else None

    @cached_property
    def amount(self) -> Column | None:
        """The one column of money."""
        money = [column for column in self.table.columns if self.is_money(column)]
        named = [column for column in money if self.has(column, "amounts")]
        return _only(named) or _only(money)

    @cached_property
    def quantity(self) -> Column | None:
        """The column that says how many of a thing a row has."""
        numbers = [column for column in self.table.columns if self.is_number(column) and self.has(column, "quantity")]
        return _only(numbers)

    @cached_property
    def is_series(self) -> bool:
        """Whether the rows follow each other in time, so that states in them do not add up."""
        return any(map(is_series_of, self.table.columns)) or any(
            is_day(column) and not self.has(column, "event") and column.distinct * 2 >= self.table.rows
            for column in self.table.columns
            if calendar_of(self.table, frozenset(), self.language) is not None
        )

    def adds_up(self, column: Column) -> bool:
        """Whether the values of a column over several rows make a sum."""
        is_of_unit = (self.quantity is not None and self.has(column, "unit_prices")) or any(
            word.word == "unit" for word in self.title(column)
        )
        is_each = self.has(column, "priced") and is_of_unit
        is_never = self.has(column, "not_added") or is_each
        return self.is_number(column) and not (is_never or (self.is_series and self.has(column, "states")))

    def is_unique(self, column: Column) -> bool:
        """Whether a column names each row: a text, a time or a number of that kind that never repeats."""
        is_amount = column.type == "VARCHAR" and all(map(_AMOUNT.fullmatch, column.examples))
        is_name = self.is_identifier(column) or not (self.is_number(column) or self.units(column) or is_amount)
        rows = self.table.rows - sum(self.is_total(value) for each in self.table.columns for value in each.examples)
        return is_name and column.distinct >= rows > 0 and not is_day(column)

    def _is_one_each(self, column: Column) -> bool:
        return self.is_unique(column) or (is_day(column) and column.distinct == self.table.rows)

    def is_total(self, value: str) -> bool:
        return value.casefold() in lexicon.totals()

    @cached_property
    def key(self) -> Column | None:
        """The first column that names each row."""
        return next(filter(self.is_unique, self.table.columns), None)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The question cut into parts, the longest reading of each place first."""
        found: list[Part] = []
        at = 0
        while at < len(self.tokens):
            part = next(self._parts_at(at))
            found.append(part)
            at += len(part.tokens)
        return tuple(found)

    def _parts_at(self, at: int) -> Iterator[Part]:
        tokens = self.tokens
        yield from self._flags_at(at, at, is_not=False)
        yield from self._titles_at(at)
        if any(map(read_calendar, self.table.columns)) and (period := read_period(tokens, at, self.language)):
            yield Part(tokens[at : period[1]], period=period[0])
        yield from self._limits_at(at)
        yield from self._negations_at(at)
        if lexicon.matches("under", tokens[at].word) and at + 1 < len(tokens):
            yield from self._flags_at(at + 1, at, is_not=False)
        yield from self._values_at(at)
        marks = dict(lexicon.marks_at(tokens, at, self.language))
        yield from (Part(tokens[at:end], mark=mark) for mark, end in marks.items() if mark in lexicon.OPENERS)
        yield from (Part(tokens[at:end], mark=mark) for mark, end in marks.items() if mark in lexicon.AGGREGATES)
        yield from (
            Part(tokens[at:end], mark=mark) for mark, end in marks.items() if mark in {"per", "and", "or", "distinct"}
        )
        yield Part(tokens[at : at + 1])

    def _titles_at(self, at: int) -> Iterator[Part]:
        """Read the whole title of a column that has several words."""
        for column in sorted(self.table.columns, key=lambda each: -len(self.title(each))):
            title = self.title(column)
            said = self.tokens[at : at + len(title)]
            if len(title) > 1 and [word.stem for word in said] == [word.stem for word in title]:
                yield Part(said, column=column)

    def _limits_at(self, at: int) -> Iterator[Part]:
        """Read `more than 5`, `between 2 and 4`, `after 9:00` and `below the minimum`."""
        for mark, end in lexicon.marks_at(self.tokens, at, self.language):
            place = self._skip(end)
            sign = lexicon.COMPARISONS.get(mark) or lexicon.BOUNDS.get(mark, "")
            if mark == "between" and (ends := self._ends(end)):
                yield Part(self.tokens[at : ends[1]], limit=ends[0])
            if not sign or place >= len(self.tokens):
                continue
            number = lexicon.read_number(self.tokens[place].text, self.language)
            if time := lexicon.read_time(self.tokens[place].word):
                yield Part(
                    self.tokens[at : place + 1], limit=Limit(((sign, f"TIME '{time}'"),), f"{sign} {time}", None, True)
                )
            elif mark in lexicon.COMPARISONS and number is not None:
                shown = lexicon.number(number, self.language)
                yield Part(self.tokens[at : place + 1], limit=Limit(((sign, str(number)),), f"{sign} {shown}"))
            elif mark in lexicon.COMPARISONS and (found := self._whole_title(place)):
                limit = Limit(((sign, f'"{found[0].name}"'),), f"{sign} {title_of(found[0])}", found[0])
                yield Part(self.tokens[at : found[1]], limit=limit)

    def _ends(self, at: int) -> tuple[Limit, int] | None:
        low, high = (
            lexicon.read_number(self.tokens[place].text, self.language) if place < len(self.tokens) else None
            for place in (at, at + 2)
        )
        joined = ("and", at + 2) in lexicon.marks_at(self.tokens, at + 1, self.language)
        if low is None or high is None or not joined:
            return None
        return Limit(((">=", str(low)), ("<=", str(high))), f"{low} – {high}"), at + 3

    def _skip(self, at: int) -> int:
        """Pass over articles and other words that say nothing."""
        while at < len(self.tokens) and (self.is_empty(self.tokens[at]) or self._is_pointer(self.tokens[at])):
            at += 1
        return at

    def is_empty(self, token: Token) -> bool:
        return token.word in lexicon.empty_words(self.language)

    def _is_pointer(self, token: Token) -> bool:
        return lexicon.matches("pointers", token.word)

    def _whole_title(self, at: int) -> tuple[Column, int] | None:
        """Find the column of numbers that the words at a token name in full."""
        for column in filter(self.is_number, self.table.columns):
            title = self.title(column)
            said = self.tokens[at : at + len(title)]
            if [token.stem for token in said] == [token.stem for token in title]:
                return column, at + len(title)
        return None

    def _negations_at(self, at: int) -> Iterator[Part]:
        """Read `not yet paid` over yes and no, `not open` over any value, and `no phone number` over what is blank."""
        marks = list(lexicon.marks_at(self.tokens, at, self.language))
        start = next((end for mark, end in marks if mark == "not"), at)
        place = self._skip(start)
        if start == at or place >= len(self.tokens):
            return
        yield from self._flags_at(place, at, is_not=True)
        for part in self._values_at(place):
            if held := part.condition:
                turned = held._replace(sql=f"NOT ({held.sql})", text=held.text.replace(" = ", " ≠ ", 1), is_value=False)
                yield Part(self.tokens[at : place + len(part.tokens)], condition=turned)
        is_blank = any(mark == "lacking" for mark, _ in marks)
        for column in self.table.columns:
            if not is_blank and not (is_day(column) and self.has(column, "event")):
                continue
            title = self.title(column)
            said = self.tokens[place : place + len(title)]
            if [token.stem for token in said] == [token.stem for token in title]:
                end = place + len(title)
                end += (
                    end < len(self.tokens) and self.is_time(column) and lexicon.matches("dates", self.tokens[end].word)
                )
                sql, none = (
                    (f'coalesce("{column.name}", 0) = 0', "0")
                    if self.is_number(column)
                    else (f'"{column.name}" IS NULL', "–")
                )
                blank = Condition(column, sql, f"{title_of(column)} = {none}")
                yield Part(self.tokens[at:end], condition=blank)

    def _flags_at(self, at: int, start: int, *, is_not: bool) -> Iterator[Part]:
        """Read the name of a column of yes and no, such as `paid`, as a condition."""
        for column in filter(self.is_flag, self.table.columns):
            held = {value.casefold(): value for value in column.examples}
            title = self.title(column)
            said = self.tokens[at : at + len(title)]
            is_turned = len(title) == 1 and self.tokens[at].stem == f"un{title[0].stem}"
            is_same = len(said) == len(title) and all(
                not lexicon.roots(word).isdisjoint(lexicon.roots(own)) for word, own in zip(said, title, strict=True)
            )
            if is_turned or is_same:
                wanted = _NO if is_not != is_turned else _YES
                value = next((held[own] for own in held if own in wanted), min(wanted))
                yield Part(self.tokens[start : at + len(title)], condition=equal(column, [value]))

    def is_flag(self, column: Column) -> bool:
        held = {value.casefold() for value in column.examples}
        return bool(held) and held <= _YES | _NO

    def _values_at(self, at: int) -> Iterator[Part]:
        found = self._whole_values_at(at)
        if self.currency and not found:
            forms = lexicon.unit_forms(self.tokens[at].word)
            named = (value for value in self.currency.examples if value.casefold() in forms)
            found = [(self.currency, value, at + 1) for value in named]
        found = found or self._numbered_at(at) or self._parts_of_values_at(at)
        longest = max((end for *_, end in found), default=0)
        found = [each for each in found if each[2] == longest]
        beside = [self.tokens[place] for place in (at - 1, longest) if 0 <= place < len(self.tokens)]
        named_beside = [each for each in found if any(self.cost(each[0], token) in {0, 1} for token in beside)]
        if chosen := _only(named_beside) or _only(found):
            column, value, end = chosen
            values, end = self._others(column, [value], end)
            yield Part(self.tokens[at:end], condition=equal(column, values))

    def _others(self, column: Column, values: list[str], end: int) -> tuple[list[str], int]:
        """Read on over `or` and `and` to further values of the same column."""
        marks = [close for mark, close in lexicon.marks_at(self.tokens, end, self.language) if mark in {"or", "and"}]
        for close in marks:
            place = self._skip(close)
            for held, value, after in self._whole_values_at(place) if place < len(self.tokens) else []:
                if held == column and value not in values:
                    return self._others(column, [*values, value], after)
        return values, end

    def _whole_values_at(self, at: int) -> list[tuple[Column, str, int]]:
        return [
            (column, value, end)
            for column in self.table.columns
            if column.type == "VARCHAR" and not read_calendar(column)
            for value in column.examples
            if (end := self._end(at, _value_stems(value, self.language)))
        ]

    def _numbered_at(self, at: int) -> list[tuple[Column, str, int]]:
        """Read `platform 2` and `second floor`, a number beside the name of its column."""
        ordinal = lexicon.read_ordinal(self.tokens[at].word)
        number, place = (ordinal, at + 1) if ordinal else (self.tokens[at].text, at - 1)
        if not (0 <= place < len(self.tokens)) or not number[0].isdigit():
            return []
        return [
            (column, value, at + 1)
            for column in self.table.columns
            if self.cost(column, self.tokens[place]) == 0
            or (column == self.key and not ordinal and self.cost_of_rows(self.tokens[place]) == 0)
            for value in column.examples
            if value == number
        ]

    def _parts_of_values_at(self, at: int) -> list[tuple[Column, str, int]]:
        """Read one word of a person's name, or a value without its size, if no other value has it."""
        token = self.tokens[at]
        is_named = any(self.cost(column, token) == 0 for column in self.table.columns)
        if not token.word.isalpha() or is_named or self.is_empty(token):
            return []
        found = [
            (column, value, at + 1)
            for column in self.table.columns
            if column.type == "VARCHAR" and column.distinct <= len(column.examples)
            for value in column.examples
            if token.stem in (stems := _value_stems(value, self.language))
            and (
                all(len(stem) < _SHORTEST_WORD or lexicon.unit_forms(stem) for stem in stems if stem != token.stem)
                or (token.text.istitle() and value.istitle() and self.language != "de")
                or self.has(column, "persons")
            )
        ]
        return found if len(found) == 1 else []

    def _end(self, at: int, wanted: Sequence[str]) -> int:
        """Find where words that begin at a token end; 0 if they do not stand there. Dashes inside are passed over."""
        for number, word in enumerate(wanted):
            while number and at < len(self.tokens) and self.tokens[at].text in "-–/&":
                at += 1
            if at >= len(self.tokens) or self.tokens[at].stem != word:
                return 0
            at += 1
        return at if wanted else 0

    def is_known(self, token: Token) -> bool:
        """Whether a word names something of the table."""
        return self.cost_of_rows(token) is not None or any(
            self.cost(column, token) is not None for column in self.table.columns
        )


def _only(found: Sequence[_T]) -> _T | None:
    return found[0] if len(found) == 1 else None


@lru_cache(maxsize=10_000)
def _words(title: str, language: str) -> tuple[str, ...]:
    return tuple(token.word for token in lexicon.read_tokens(title.replace("_", " "), language))


@lru_cache(maxsize=10_000)
def _title(title: str, language: str) -> tuple[Token, ...]:
    tokens = [token for token in lexicon.read_tokens(title.replace("_", " "), language) if token.word[:1].isalnum()]
    empty = lexicon.empty_words(language)
    telling = [token for token in tokens if token.word not in empty and not lexicon.unit_forms(token.word)]
    return tuple(telling or tokens)


def _is_code(value: str) -> bool:
    return len(value) <= len("eur") and lexicon.is_currency(value)


@lru_cache(maxsize=10_000)
def _value_stems(value: str, language: str) -> tuple[str, ...]:
    """List the stems of a value; none for a bare number, which says nothing without its column."""
    found = lexicon.stems(value, language)
    return () if value.lower() in lexicon.totals() or all(word.isdigit() for word in found) else found
