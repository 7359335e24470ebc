"""What a question may name of a table: its columns, its values and itself."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from activities.documents.catalog import Column, Table
from activities.models.extractive import lexicon
from activities.models.extractive.lexicon import Mark
from activities.models.extractive.periods import Calendar, Period, calendar_of, is_time, is_year, read_period
from activities.models.extractive.wording import Token, stems

_NUMBERS: Final = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UBIGINT", "FLOAT", "DOUBLE", "DECIMAL")
_NAMES_ROWS: Final = frozenset({"id", "no", "nr", "number", "nummer", "code", "key", "ref", "reference"})
_LONGEST_OPEN: Final = 6


@dataclass(frozen=True)
class Part:
    """One token or several that a question is read as; a mere word if nothing else is set."""

    tokens: tuple[Token, ...]
    mark: Mark | None = None
    period: Period | None = None
    column: Column | None = None
    """The column whose values are named."""
    values: tuple[str, ...] = ()
    """Values of it, any of which a row must have."""
    is_open: bool = False
    """Whether the values are only spellings of one that may be there, since not all values are known."""

    @property
    def is_word(self) -> bool:
        """Whether it still has to be accounted for."""
        return self.mark is None and self.period is None and self.column is None


@dataclass(frozen=True)
class Vocabulary:
    """A table as a question in one language may name it."""

    table: Table
    language: str
    asked: frozenset[str]
    """Stems of the whole question."""

    @property
    def name(self) -> frozenset[str]:
        """Stems of the names of document and sheet."""
        return frozenset(stems(self._file, self.language)) | frozenset(stems(self.table.sheet, self.language))

    @property
    def _file(self) -> str:
        return self.table.document.rsplit("/", 1)[-1].rsplit(".", 1)[0]

    @property
    def calendar(self) -> Calendar | None:
        """The calendar that the question means."""
        return calendar_of(self.table, self.asked, self.language)

    @property
    def has_time(self) -> bool:
        """Whether rows happened at some time, so that more of them add up."""
        return any(is_time(column) for column in self.table.columns)

    def words(self, column: Column) -> tuple[str, ...]:
        """List the stems that name a column: all but its unit, unless it has nothing else."""
        named = stems(column.title or column.name, self.language)
        empty = [word for word in named if lexicon.unit_group(word) or lexicon.is_empty(word, self.language)]
        return tuple(word for word in named if word not in empty) or named

    def is_number(self, column: Column) -> bool:
        """Whether a column holds amounts."""
        return column.type.startswith(_NUMBERS) and not is_year(column)

    def is_unique(self, column: Column) -> bool:
        """Whether a column names each row: a text, a time or a number of that kind that never repeats."""
        kinds = not self.is_number(column) or bool(_NAMES_ROWS.intersection(self.words(column)))
        return kinds and self.table.rows > 0 and column.distinct == self.table.rows

    @property
    def has_unique(self) -> bool:
        """Whether each row is a thing of its own."""
        return any(self.is_unique(column) for column in self.table.columns)

    def counts_rows(self, named: frozenset[str]) -> bool:
        """Whether words name the things that are the table's rows, each of which has a number of its own."""
        for name in (self._file, self.table.sheet):
            own = frozenset(word for word in stems(name, self.language) if not word.isdigit())
            if own and own <= named and any(self._identifies(column, own) for column in self.table.columns):
                return True
        return False

    def _identifies(self, column: Column, thing: frozenset[str]) -> bool:
        return self.is_unique(column) and bool((_NAMES_ROWS | thing).intersection(self.words(column)))

    def segment(self, tokens: Sequence[Token], opened: tuple[int, int] | None, at: int = 0) -> Iterator[tuple[Part, ...]]:
        """Yield every way to cut a question into parts; `opened` is where a value that is not known may stand."""
        if at == len(tokens):
            yield ()
            return
        for part, end in self._parts_at(tokens, opened, at):
            for rest in self.segment(tokens, opened, end):
                yield (part, *rest)

    def _parts_at(
        self, tokens: Sequence[Token], opened: tuple[int, int] | None, at: int
    ) -> Iterator[tuple[Part, int]]:
        if opened and at == opened[0]:
            span = tuple(tokens[at : opened[1]])
            for column in self._open_columns():
                yield Part(span, column=column, values=_spellings(tokens, opened, self.language), is_open=True), opened[1]
            return
        yield from self._values_at(tokens, at)
        if period := read_period(tokens, at):
            yield Part(tuple(tokens[at : period[1]]), period=period[0]), period[1]
            if self.calendar:
                return
        for mark, end in lexicon.marks_at(tokens, at, self.language):
            yield Part(tuple(tokens[at:end]), mark=mark), end
        yield Part((tokens[at],)), at + 1

    def _values_at(self, tokens: Sequence[Token], at: int) -> Iterator[tuple[Part, int]]:
        found = [
            (end, column, value)
            for column in self.table.columns
            if column.type == "VARCHAR"
            for value in column.examples
            if (end := _end(tokens, at, _value_stems(value, self.language)))
        ]
        longest = max((end for end, _, _ in found), default=0)
        for column in dict.fromkeys(column for end, column, _ in found if end == longest):
            values = tuple(value for end, own, value in found if end == longest and own == column)
            yield Part(tuple(tokens[at:longest]), column=column, values=values), longest
        for column in self.table.columns:
            end = _end(tokens, at, self.words(column))
            while end and end < len(tokens) and lexicon.is_empty(tokens[end].word, self.language):
                end += 1
            if end and end < len(tokens) and tokens[end].word.isdigit() and not is_time(column):
                value = (tokens[end].word,)
                yield Part(tuple(tokens[at : end + 1]), column=column, values=value), end + 1

    def _open_columns(self) -> Iterator[Column]:
        for column in self.table.columns:
            if column.type == "VARCHAR" and column.distinct > len(column.examples):
                yield column

    def unknown(self, tokens: Sequence[Token]) -> tuple[int, int] | None:
        """Find the one stretch of tokens that is nothing the table is known to hold."""
        known = self.name.union(*(stems(column.title or column.name, self.language) for column in self.table.columns))
        covered: set[int] = set()
        for at, token in enumerate(tokens):
            ends = [end for part, end in self._parts_at(tokens, None, at) if not part.is_word]
            covered.update(range(at, max(ends, default=at)))
            if token.stem in known or lexicon.is_empty(token.word, self.language) or lexicon.unit_group(token.word):
                covered.add(at)
        left = [at for at in range(len(tokens)) if at not in covered]
        if not left or left[-1] - left[0] >= _LONGEST_OPEN or not any(self._open_columns()):
            return None
        return left[0], left[-1] + 1


@cache
def _value_stems(value: str, language: str) -> tuple[str, ...]:
    """List the stems of a value; none for a bare number, which says nothing without its column."""
    found = stems(value, language)
    return () if all(word.isdigit() for word in found) else found


def _end(tokens: Sequence[Token], at: int, wanted: Sequence[str]) -> int:
    """Find where words that begin at a token end; 0 if they do not stand there. Dashes between them are passed over."""
    if not wanted:
        return 0
    for number, word in enumerate(wanted):
        while number and at < len(tokens) and tokens[at].text in "-–/&":
            at += 1
        if at >= len(tokens) or tokens[at].stem != word:
            return 0
        at += 1
    return at


def _spellings(tokens: Sequence[Token], span: tuple[int, int], language: str) -> tuple[str, ...]:
    """Write an unknown value in lower case, also with the articles beside it."""
    first = span[0]
    while first and lexicon.is_empty(tokens[first - 1].word, language) and span[0] - first < 2:
        first -= 1
    texts = (" ".join(token.text for token in tokens[start : span[1]]) for start in range(first, span[0] + 1))
    return tuple(re.sub(r"\s+", " ", text.lower()) for text in texts)
