"""What a question may name of a table: its columns, its values and itself."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

from activities.documents.catalog import Column, Table
from activities.documents.words import function_words
from chargehand_plugins.extractive import lexicon
from chargehand_plugins.extractive.lexicon import empty_words, unit_forms
from chargehand_plugins.extractive.periods import Calendar, Period, calendar_of, is_series_of, read_period, time_unit
from chargehand_plugins.extractive.tokens import Token, read_number, read_tokens, stems

_NUMBERS: Final = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UBIGINT", "FLOAT", "DOUBLE", "DECIMAL")
_IDENTIFIERS: Final = frozenset(
    {"id", "no", "nr", "number", "nummer", "numm", "code", "key", "ref"}
    | {"numer", "numero", "codig", "referent", "matricul", "plate", "kennzeich"}
)
_LONGEST_VALUE: Final = 6


class Part(NamedTuple):
    """One token or several that a question is read as; a word to be accounted for if nothing else is set."""

    tokens: tuple[Token, ...]
    mark: str = ""
    period: Period | None = None
    number: float | None = None
    column: Column | None = None
    """The column a value of which is named."""
    values: tuple[str, ...] = ()
    """Spellings of the value, of which a row must have one."""

    @property
    def word(self) -> str:
        """The stem to be accounted for; empty if it is."""
        return "" if self.mark or self.period or self.column or self.number is not None else self.tokens[0].stem


@dataclass(frozen=True)
class Vocabulary:
    table: Table
    language: str
    tokens: tuple[Token, ...]

    @cached_property
    def names(self) -> tuple[tuple[str, ...], ...]:
        file = self.table.document.rsplit("/", 1)[-1].rsplit(".", 1)[0]
        return stems(file, self.language), stems(self.table.sheet, self.language)

    @cached_property
    def calendar(self) -> Calendar | None:
        return calendar_of(self.table, frozenset(token.stem for token in self.tokens), self.language)

    def lone_calendar(self, measure: Column | None) -> Calendar | None:
        """The one column of days, whatever its name, if a measure is an amount that came about on one."""
        days = [column for column in self.table.columns if time_unit(column) == "day"]
        is_amount = measure is not None and self.is_number(measure) and self.adds_up(measure)
        return Calendar(days[0], "day") if is_amount and len(days) == 1 else None

    @cached_property
    def currency(self) -> Column | None:
        """The column that holds nothing but currencies."""
        found = [column for column in self.table.columns if column.examples and all(map(_is_code, column.examples))]
        return found[0] if len(found) == 1 else None

    def words(self, column: Column) -> tuple[str, ...]:
        """List the stems that name a column: all but its unit, unless it has nothing else."""
        tokens = read_tokens(title_of(column).replace("_", " "), self.language)
        telling = [
            token for token in tokens if token.word not in empty_words(self.language) and not unit_forms(token.word)
        ]
        return tuple(token.stem for token in telling or tokens)

    def units(self, column: Column) -> frozenset[str]:
        return frozenset(form for stem in stems(title_of(column), self.language) for form in unit_forms(stem))

    def is_number(self, column: Column) -> bool:
        return column.type.startswith(_NUMBERS) and not time_unit(column)

    def is_money(self, column: Column) -> bool:
        return self.is_number(column) and any(map(lexicon.is_currency, self.units(column)))

    def adds_up(self, column: Column, *, unasked: bool = False) -> bool:
        """Whether the values of a column make a sum, over time as well; `unasked` if the question asks for none."""
        named = self._title(column)
        is_event = calendar_of(self.table, frozenset(), self.language) is not None
        is_series = any(map(is_series_of, self.table.columns))
        is_sure = (is_event or not unasked) if lexicon.is_flow(named) else not (unasked or is_series)
        dated = [word for other in self.table.columns if time_unit(other) == "day" for word in self._title(other)]
        is_charged = is_event or any(lexicon.matches("event", word) for word in dated)
        return is_sure and self.is_number(column) and lexicon.is_added(named, is_event=is_charged)

    def _title(self, column: Column) -> list[str]:
        return [token.word for token in read_tokens(title_of(column).replace("_", " "), self.language)]

    def is_unique(self, column: Column) -> bool:
        """Whether a column names each row: a text, a time or a number of that kind that never repeats."""
        is_name = not self.is_number(column) or bool(_IDENTIFIERS.intersection(self.words(column)))
        return is_name and column.distinct == self.table.rows > 0

    @cached_property
    def key(self) -> Column | None:
        """The first column that names each row."""
        return next(filter(self.is_unique, self.table.columns), None)

    def counts_rows(self, said: frozenset[str]) -> bool:
        """Whether words name the things that are the table's rows, each of which has a number of its own."""
        things = [frozenset(word for word in name if not word.isdigit()) for name in self.names]
        return any(
            self.is_unique(column) and (_IDENTIFIERS | thing).intersection(self.words(column))
            for thing in things
            for column in self.table.columns
            if thing and thing <= said
        )

    def cuts(self, at: int = 0) -> Iterator[tuple[Part, ...]]:
        if at == len(self.tokens):
            yield ()
            return
        unknown = [(part, at + len(part.tokens)) for part in self._guesses if part.tokens[0] is self.tokens[at]]
        for part, end in unknown or self._parts[at]:
            for rest in self.cuts(end):
                yield (part, *rest)

    @cached_property
    def _parts(self) -> list[list[tuple[Part, int]]]:
        return [list(self._parts_at(at)) for at in range(len(self.tokens))]

    def _parts_at(self, at: int) -> Iterator[tuple[Part, int]]:
        is_plain = True
        period = read_period(self.tokens, at)
        if period:
            yield Part(self.tokens[at : period[1]], period=period[0]), period[1]
            if self.calendar or any(map(self.lone_calendar, self.table.columns)):
                return
        yield from self._values_at(at)
        if (number := read_number(self.tokens[at].text, self.language)) is not None:
            yield Part(self.tokens[at : at + 1], number=number), at + 1
        for mark, end in lexicon.marks_at(self.tokens, at, self.language):
            yield Part(self.tokens[at:end], mark=mark), end
            if end > at + 1:
                is_plain = False
        if is_plain:
            yield Part((self.tokens[at],)), at + 1

    def _values_at(self, at: int) -> Iterator[tuple[Part, int]]:
        found = [
            (end, column, value)
            for column in self.table.columns
            if column.type == "VARCHAR"
            for value in column.examples
            if (end := self._end(at, _value_stems(value, self.language)))
        ]
        longest = max((end for end, _, _ in found), default=0)
        for end, column, value in found:
            if end == longest:
                yield Part(self.tokens[at:end], column=column, values=(value,)), end
        if self.currency and not found:
            forms = unit_forms(self.tokens[at].word)
            for value in self.currency.examples:
                if value.casefold() in forms:
                    yield Part(self.tokens[at : at + 1], column=self.currency, values=(value,)), at + 1

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
        """Count the tokens that name something of the table."""
        return sum(token.stem in self._named or any(self._values_at(at)) for at, token in enumerate(self.tokens))

    @cached_property
    def _named(self) -> set[str]:
        return {stem for column in self.table.columns for stem in self.words(column)}.union(*self.names)

    @cached_property
    def unknown(self) -> list[int]:
        """List where the tokens stand that are neither of the vocabulary nor of the table."""
        plain = empty_words(self.language)
        left = set(range(len(self.tokens)))
        for at, token in enumerate(self.tokens):
            ends = [end for part, end in self._parts[at] if not part.word]
            is_plain = (
                token.stem in self._named
                or token.word in plain
                or bool(unit_forms(token.word))
                or lexicon.matches("costs", token.word)
            )
            left.difference_update(range(at, max(ends, default=at + is_plain)))
        return sorted(left)

    @cached_property
    def _guesses(self) -> list[Part]:
        """The one stretch of tokens that may be a value not known; the word before, such as `the`, may belong to it."""
        start, end = min(self.unknown, default=0), max(self.unknown, default=_LONGEST_VALUE) + 1
        is_name = any(not token.text.islower() for token in self.tokens[start:end])
        if not is_name or all(token.word in function_words(self.language) for token in self.tokens[start:end]):
            return []
        texts = (" ".join(token.text for token in self.tokens[first:end]) for first in (start, max(0, start - 1)))
        values = tuple(text.lower() for text in texts)
        return [
            Part(self.tokens[start:end], column=column, values=values)
            for column in self.table.columns
            if column.type == "VARCHAR" and column.distinct > len(column.examples) and end - start <= _LONGEST_VALUE
        ]


def title_of(column: Column) -> str:
    return column.title or column.name


def _is_code(value: str) -> bool:
    return len(value) <= len("eur") and lexicon.is_currency(value)


@lru_cache(maxsize=10_000)
def _value_stems(value: str, language: str) -> tuple[str, ...]:
    """List the stems of a value; none for a bare number, which says nothing without its column."""
    found = stems(value, language)
    return () if value.lower() in lexicon.totals() or all(word.isdigit() for word in found) else found
