"""What a question may name of a table: its columns, its values and itself."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

from activities.documents.catalog import Column, Table
from chargehand_plugins.extractive import lexicon
from chargehand_plugins.extractive.lexicon import Token
from chargehand_plugins.extractive.periods import (
    Calendar,
    Period,
    calendar_of,
    is_day,
    is_series_of,
    read_calendar,
    read_period,
)

_NUMBERS: Final = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UBIGINT", "FLOAT", "DOUBLE", "DECIMAL")


_SHORTEST_WORD: Final = 4
_SHORTEST_PART: Final = 5
"""Letters of a part of a compound word."""
_YES, _NO = (frozenset(listed.split()) for listed in ("yes ja oui si true y", "no nein non false n"))


class Part(NamedTuple):
    """One token or several that a question is read as; a word to be accounted for if nothing else is set."""

    tokens: tuple[Token, ...]
    mark: str = ""
    period: Period | None = None
    limits: tuple[tuple[str, float], ...] = ()
    """Signs and numbers that a column is compared with."""
    column: Column | None = None
    """The column a value of which is named."""
    value: str = ""
    is_not: bool = False
    """Whether the value is what a row must not have."""
    against: Column | None = None
    """The column of numbers that another is compared with, in place of a number."""

    @property
    def is_word(self) -> bool:
        return not (self.mark or self.period or self.column or self.limits)


@dataclass(frozen=True)
class Vocabulary:
    table: Table
    language: str
    tokens: tuple[Token, ...]

    @cached_property
    def names(self) -> tuple[frozenset[str], ...]:
        file = self.table.document.rsplit("/", 1)[-1].rsplit(".", 1)[0]
        return frozenset(lexicon.stems(file, self.language)), frozenset(lexicon.stems(self.table.sheet, self.language))

    @cached_property
    def calendar(self) -> Calendar | None:
        said = {token.stem for token in self.tokens}
        for column in self.table.columns:
            if any(lexicon.is_concept(token.word) and self.names_column(column, token) for token in self.tokens):
                said |= self.words(column)
        return calendar_of(self.table, frozenset(said), self.language)

    @cached_property
    def days(self) -> list[Column]:
        return list(filter(is_day, self.table.columns))

    def calendar_for(self, measure: Column | None) -> Calendar | None:
        """The calendar, or the one column of days, whatever its name, if a measure came about on one."""
        is_amount = measure is not None and self.adds_up(measure)
        return self.calendar or (read_calendar(self.days[0]) if is_amount and len(self.days) == 1 else None)

    @cached_property
    def currency(self) -> Column | None:
        """The column that holds nothing but currencies."""
        found = [column for column in self.table.columns if column.examples and all(map(_is_code, column.examples))]
        return found[0] if len(found) == 1 else None

    def words(self, column: Column) -> frozenset[str]:
        """List the stems that name a column: all but its unit, unless it has nothing else."""
        return _stems_of(title_of(column), self.language)

    def units(self, column: Column) -> frozenset[str]:
        return frozenset(form for word in self._title(column) for form in lexicon.unit_forms(word))

    def _title(self, column: Column) -> tuple[str, ...]:
        return _title_words(title_of(column), self.language)

    def is_number(self, column: Column) -> bool:
        return column.type.startswith(_NUMBERS) and not read_calendar(column)

    def is_money(self, column: Column) -> bool:
        """Whether a column of numbers has a currency, or is a price of no other unit."""
        units = self.units(column)
        is_amount = any(self.has(column, name) for name in ("priced", "amounts", "wages"))
        return self.is_number(column) and (any(map(lexicon.is_currency, units)) or (not units and is_amount))

    def is_the_amount(self, column: Column) -> bool:
        """Whether a column holds the amounts that the table is about, as `amount` does of `donations.csv`."""
        return [held for held in self.table.columns if self.has(held, "amounts")] == [column]

    def has(self, column: Column, name: str) -> bool:
        return any(lexicon.matches(name, word) for word in self._title(column))

    def names_column(self, column: Column, token: Token) -> bool:
        """Whether a word says what a column holds: its name, its unit, or of prices what things cost."""
        units = self.units(column) if self.is_number(column) else frozenset[str]()
        titles = self._title(column)
        is_coin = lexicon.is_currency(token.word) and not (units or self.currency)
        is_worth = (
            lexicon.is_held(token.word, titles)
            or self._is_compound(token, titles)
            or ((lexicon.matches("money", token.word) or is_coin) and self.is_money(column))
        )
        return token.stem in self.words(column) or token.word in units or is_worth

    def _is_compound(self, token: Token, titles: Sequence[str]) -> bool:
        """Whether a German word is the first or last part of a title's, or ends with it after the table's name."""
        said = token.word
        if self.language != "de" or len(said) < _SHORTEST_PART:
            return False
        prefixes = [said.removesuffix(title) for title in titles if len(title) >= _SHORTEST_PART]
        names = [word for name in self.names for word in name]
        return any(title.startswith(said) or title.endswith(said) for title in titles) or any(
            prefix != said and prefix.startswith(tuple(names)) for prefix in prefixes if prefix
        )

    def adds_up(self, column: Column, *, unasked: bool = False) -> bool:
        """Whether the values of a column make a sum, over time as well; `unasked` if the question asks for none."""
        words = self._title(column)
        is_dated = len(self.days) == 1 and self.key in (None, self.days[0])
        is_event = is_dated or calendar_of(self.table, frozenset(), self.language) is not None
        is_event = is_event or (len(self.days) == 1 and self.has(self.days[0], "event"))
        is_charged = is_event or any(self.has(held, "event") for held in self.days)
        is_state = any(
            lexicon.matches("not_added", word) and not (is_charged and lexicon.matches("charges", word))
            for word in words
        )
        is_flow = self.has(column, "flow") or self.has(column, "amounts") or any(map(lexicon.is_currency, words))
        is_sure = (is_event or not unasked) if is_flow else not (unasked or any(map(is_series_of, self.table.columns)))
        return self.is_number(column) and is_sure and not is_state

    def is_unique(self, column: Column) -> bool:
        """Whether a column names each row: a text, a time or a number of that kind that never repeats."""
        is_name = not self.is_number(column) or self.has(column, "identifiers")
        return is_name and column.distinct == self.table.rows > 0

    @cached_property
    def key(self) -> Column | None:
        """The first column that names each row."""
        return next(filter(self.is_unique, self.table.columns), None)

    def counts_rows(self, said: frozenset[str]) -> bool:
        """Whether words name the things that are the table's rows, and no column holds how many there are of them."""
        columns = self.table.columns
        is_keyed = any(self.is_unique(column) and self.has(column, "identifiers") for column in columns)
        is_summed = any(map(is_series_of, columns)) or any(self._is_number_of(column, said) for column in columns)
        named = [
            thing for name in self.names if (thing := {word for word in name if not word.isdigit()}) and thing <= said
        ]
        keys = [self.words(column) for column in columns if self.is_unique(column)]
        return any(is_keyed or not is_summed or any(map(thing.intersection, keys)) for thing in named)

    def _is_number_of(self, column: Column, things: frozenset[str]) -> bool:
        is_count = self.has(column, "counts")
        return self.is_number(column) and (is_count or bool(self.words(column) & things))

    def cuts(self, at: int = 0) -> Iterator[tuple[Part, ...]]:
        if at == len(self.tokens):
            yield ()
            return
        for part in self._parts[at]:
            for rest in self.cuts(at + len(part.tokens)):
                yield (part, *rest)

    @cached_property
    def _parts(self) -> list[list[Part]]:
        return [list(self._parts_at(at)) for at in range(len(self.tokens))]

    def _parts_at(self, at: int) -> Iterator[Part]:
        tokens = self.tokens
        if period := read_period(tokens, at, self.language):
            yield Part(tokens[at : period[1]], period=period[0])
            if self.calendar or any(map(self.calendar_for, self.table.columns)):
                return
        flags = list(self._flags_at(at))
        yield from flags or self._values_at(at)
        if limits := self._limits_at(at):
            yield Part(tokens[at : limits[1]], limits=limits[0], against=limits[2])
        marks = list(lexicon.marks_at(tokens, at, self.language))
        yield from (Part(tokens[at:end], mark=mark) for mark, end in marks if mark != "not")
        if self._is_plain(tokens[at]) and all(end == at + 1 for _, end in marks):
            yield Part(tokens[at : at + 1])

    def _limits_at(self, at: int) -> tuple[tuple[tuple[str, float], ...], int, Column | None] | None:
        """Read `more than 5`, `between 2 and 4` and `below the minimum`, and where it ends."""
        numbers = [*(lexicon.read_number(token.text, self.language) for token in self.tokens), None, None, None]
        for mark, end in lexicon.marks_at(self.tokens, at, self.language):
            if mark in lexicon.COMPARISONS and (found := self._against(end)):
                return ((lexicon.COMPARISONS[mark], 0),), found[1], found[0]
            low, high = numbers[end], numbers[end + 2]
            if mark in lexicon.COMPARISONS and low is not None:
                return ((lexicon.COMPARISONS[mark], low),), end + 1, None
            is_range = mark == "between" and ("and", end + 2) in lexicon.marks_at(self.tokens, end + 1, self.language)
            if is_range and low is not None and high is not None:
                return ((">=", low), ("<=", high)), end + 3, None
        return None

    def _against(self, at: int) -> tuple[Column, int] | None:
        """Find the column of numbers that the words at a token name in full, after an article."""
        plain = lexicon.empty_words(self.language)
        while at < len(self.tokens) and (
            self.tokens[at].word in plain or lexicon.matches("pointers", self.tokens[at].word)
        ):
            at += 1
        for column in filter(self.is_number, self.table.columns):
            wanted = self.words(column)
            said = self.tokens[at : at + len(wanted)]
            if frozenset(token.stem for token in said) == wanted:
                return column, at + len(wanted)
        return None

    def _flags_at(self, at: int) -> Iterator[Part]:
        """Read `paid` and `not yet paid` over a column of yes and no, and `not open` over any value."""
        plain, marks = lexicon.empty_words(self.language), lexicon.marks_at(self.tokens, at, self.language)
        start = next((end for mark, end in marks if mark == "not"), at)
        place = start
        while place > at and place < len(self.tokens) and self.tokens[place].word in plain:
            place += 1
        if place == len(self.tokens):
            return
        word = self.tokens[place].stem
        for column in self.table.columns:
            is_turned = word in {f"un{name}" for name in self.words(column)}
            held = {value.casefold(): value for value in column.examples}
            if held and held.keys() <= _YES | _NO and (is_turned or self.words(column) == frozenset({word})):
                wanted = _NO if (start > at) != is_turned else _YES
                value = next((own for own in held if own in wanted), min(wanted))
                yield Part(self.tokens[at : place + 1], column=column, value=held.get(value, value))
        if start > at:
            yield from (
                part._replace(tokens=self.tokens[at : place + len(part.tokens)], is_not=True)
                for part in self._values_at(place)
            )

    def _values_at(self, at: int) -> Iterator[Part]:
        found = [
            Part(self.tokens[at:end], column=column, value=value)
            for column in self.table.columns
            if column.type == "VARCHAR"
            for value in column.examples
            if (end := self._end(at, _value_stems(value, self.language)))
        ]
        if self.currency and not found:
            forms = lexicon.unit_forms(self.tokens[at].word)
            named = (value for value in self.currency.examples if value.casefold() in forms)
            found = [Part(self.tokens[at : at + 1], column=self.currency, value=value) for value in named]
        found = found or list(self._parts_of_values_at(at))
        longest = max((len(part.tokens) for part in found), default=0)
        yield from (part for part in found if len(part.tokens) == longest)

    def _parts_of_values_at(self, at: int) -> Iterator[Part]:
        """Read one word of a person's name, or a value without its size, if no other value has it."""
        token = self.tokens[at]
        if not token.word.isalpha() or token.stem in self._named or token.word in lexicon.empty_words(self.language):
            return
        found = [
            Part((token,), column=column, value=value)
            for column in self.table.columns
            if column.type == "VARCHAR" and column.distinct <= len(column.examples)
            for value in column.examples
            if token.stem in (stems := _value_stems(value, self.language))
            and (
                all(len(stem) < _SHORTEST_WORD or lexicon.unit_forms(stem) for stem in stems if stem != token.stem)
                or (self.has(column, "persons") and token.text.istitle() and value.istitle())
            )
        ]
        yield from found if len(found) == 1 else ()

    def _end(self, at: int, wanted: Sequence[str]) -> int:
        """Find where words that begin at a token end; 0 if they do not stand there. Dashes inside are passed over."""
        for number, word in enumerate(wanted):
            while number and at < len(self.tokens) and self.tokens[at].text in "-–/&":
                at += 1
            if at >= len(self.tokens) or self.tokens[at].stem != word:
                return 0
            at += 1
        return at if wanted else 0

    @cached_property
    def known(self) -> int:
        return sum(token.stem in self._named or any(self._values_at(at)) for at, token in enumerate(self.tokens))

    @cached_property
    def valued(self) -> frozenset[str]:
        found = (part.column for at in range(len(self.tokens)) for part in self._values_at(at))
        return frozenset(column.name for column in found if column)

    @cached_property
    def _named(self) -> frozenset[str]:
        return frozenset[str]().union(*map(self.words, self.table.columns), *self.names)

    def _is_plain(self, token: Token) -> bool:
        """Whether a word may be accounted for, or changes nothing."""
        is_known = token.stem in self._named or token.word in lexicon.empty_words(self.language)
        is_said = lexicon.is_concept(token.word) or lexicon.matches("money", token.word)
        is_known = is_known or any(self.names_column(column, token) for column in self.table.columns)
        return is_known or is_said or bool(lexicon.unit_forms(token.word))

    @cached_property
    def unknown(self) -> list[int]:
        """List where the tokens stand that are neither of the vocabulary nor of the table."""
        ends = [max((at + len(part.tokens) for part in parts), default=at) for at, parts in enumerate(self._parts)]
        covered = {place for at, end in enumerate(ends) for place in range(at, end)}
        return [at for at in range(len(self.tokens)) if at not in covered]


def title_of(column: Column) -> str:
    return column.title or column.name


@lru_cache(maxsize=10_000)
def _title_words(title: str, language: str) -> tuple[str, ...]:
    return tuple(token.word for token in lexicon.read_tokens(title.replace("_", " "), language))


@lru_cache(maxsize=10_000)
def _stems_of(title: str, language: str) -> frozenset[str]:
    tokens = [token for token in lexicon.read_tokens(title.replace("_", " "), language) if token.word[:1].isalnum()]
    empty = lexicon.empty_words(language)
    telling = [token for token in tokens if token.word not in empty and not lexicon.unit_forms(token.word)]
    return frozenset(token.stem for token in telling or tokens)


def _is_code(value: str) -> bool:
    return len(value) <= len("eur") and lexicon.is_currency(value)


@lru_cache(maxsize=10_000)
def _value_stems(value: str, language: str) -> tuple[str, ...]:
    """List the stems of a value; none for a bare number, which says nothing without its column."""
    found = lexicon.stems(value, language)
    return () if value.lower() in lexicon.totals() or all(word.isdigit() for word in found) else found
