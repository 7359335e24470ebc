"""Tables as questions see them: what columns hold, what they may be called, and which tables join safely."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import permutations
from typing import Final, Literal

from activities.documents.catalog import Catalog, Column, Table
from activities.models.extractive.wording import (
    STOPWORDS,
    Word,
    content_stems,
    read_words,
    spelled_out,
    stem,
    stems,
    word_set,
)

Kind = Literal["number", "date", "text", "boolean"]

_NUMBER_TYPES: Final = re.compile(r"U?(?:TINY|SMALL|BIG|HUGE)?INT(?:EGER)?\b|DOUBLE|FLOAT|REAL|DECIMAL|NUMERIC")
_ISO_DATE: Final = re.compile(r"\d{4}-\d\d(?:-\d\d(?:[ T]\d\d:\d\d.*)?)?")
_ISO_MONTH: Final = re.compile(r"\d{4}-\d\d")
_NUMBER_TEXT: Final = re.compile(
    r"(?:[$€£]|[A-Z]{3} )?\s*[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?\s*(?:%|[$€£]|[A-Z]{3}|[a-z]{1,3})?"
)
_UNITS: Final = {
    name: unit
    for unit, names in {
        "USD": "usd",
        "EUR": "eur",
        "GBP": "gbp",
        "CHF": "chf",
        "hours": "hours hour hrs h",
        "minutes": "minutes minute mins min",
        "seconds": "seconds secs sec",
        "days": "days",
        "kg": "kg",
        "km": "km",
        "tonnes": "tonnes",
        "tons": "tons",
        "litres": "litres liters l",
        "%": "percent pct percentage",
        "kWh": "kwh",
        "mm": "mm",
        "cm": "cm",
        "m": "m",
    }.items()
    for name in names.split()
}
_KEY_WORDS: Final = word_set("id key code zip postcode phone uuid year month day week quarter lat lon nr ref")
_VAGUE_WORDS: Final = word_set("id key code no nr name total number of the amount value count type")
_RATE_WORDS: Final = word_set(
    """
    price rate percent pct percentage ratio score rating age temperature temp speed average avg mean median
    level margin share version year
    """
)

_NOUNS: Final = tuple(
    frozenset(stem(word) for word in group.split())
    for group in (
        "employee staff worker person people colleague",
        "customer client buyer",
        "supplier vendor",
        "ship vessel boat ferry",
        "product item article goods",
        "category type kind class",
        "reason cause",
        "country nation",
        "department team division",
        "defect fault failure",
        "incident event",
        "shop store branch",
    )
)
"""Words for the same kind of thing."""
_MEASURES: Final = tuple(
    frozenset(stem(word) for word in group.split())
    for group in (
        "cost costs spend spent spending expense expenses amount paid expenditure charge fee money budget",
        "price priced expensive cheap cost amount",
        "revenue sales income turnover earnings amount takings earned sold",
        "duration long length hours minutes time lasted lasting took days downtime",
        "quantity qty units pieces amount",
        "weight heavy heaviest mass",
        "distance far kilometers miles",
        "salary wage wages pay paid earn earns earned earning",
        "status state",
        "capacity max maximum seats places",
    )
)
"""Words for the same kind of figure."""
_SYNONYMS: Final = (*_NOUNS, *_MEASURES)
_LEAST_PREFIX: Final = 5


def are_alike(left: str, right: str) -> bool:
    """Whether two stems differ only in their ending: `resolut` and `resolv`."""
    longest = max(len(left), len(right))
    needed = max(_LEAST_PREFIX, round(0.75 * longest))
    return min(len(left), len(right)) >= _LEAST_PREFIX and left[:needed] == right[:needed]


def means_same(word_stem: str, others: frozenset[str]) -> bool:
    """Whether a noun names the same kind of thing as one of some others."""
    return any(word_stem in group and not group.isdisjoint(others) for group in _NOUNS)


WHO: Final = word_set(
    """
    name person employee customer client owner manager author contact technician engineer staff driver captain
    """
)
WHERE: Final = word_set(
    """
    site location city port place country region office station address depot warehouse store branch
    """
)


@dataclass(frozen=True)
class Field:
    """A column within a view."""

    table: str
    column: Column
    kind: Kind
    sql: str
    """An expression that gives its value as its kind."""
    raw: str
    """An expression that gives its value as it stands in the table."""
    label: str
    """What people call it, without its unit."""
    unit: str
    tokens: tuple[str, ...]
    """Stems of the words of its name."""
    table_rows: int = 0
    is_borrowed: bool = False
    """Whether it belongs to the joined table, whose rows may each stand beside many rows of the first."""

    @cached_property
    def name_words(self) -> tuple[Word, ...]:
        return read_words(spelled_out(self.column.name))

    @property
    def counts_in(self) -> str:
        """The unit that its name tells, wherever in the name it stands; empty if none."""
        return self.unit or next((_UNITS[word.lower] for word in self.name_words if word.lower in _UNITS), "")

    @property
    def is_quantity(self) -> bool:
        """Whether it says how many of something a row is about."""
        return self.is_measure and not _QUANTITIES.isdisjoint(self.tokens)

    @property
    def is_key(self) -> bool:
        """Whether its numbers only name things, so that adding them up means nothing."""
        return any(word.lower in _KEY_WORDS for word in self.name_words)

    @property
    def is_measure(self) -> bool:
        return self.kind == "number" and not self.is_key and not self.is_borrowed

    @property
    def is_rate(self) -> bool:
        """Whether adding its values up would mean nothing: prices, percentages, ages."""
        return any(word.lower in _RATE_WORDS for word in self.name_words)

    @property
    def is_groupable(self) -> bool:
        return self.kind != "number" or self.is_key or 0 < self.column.distinct <= 50

    @property
    def is_complete(self) -> bool:
        """Whether the catalog shows every value that it has."""
        return 0 < self.column.distinct <= len(self.column.examples)

    @cached_property
    def is_free_text(self) -> bool:
        """Whether its values are sentences rather than names: they are searched, not compared."""
        lengths = [len(value_stems) for _, value_stems in self.values]
        is_varied = self.column.distinct > 20 or len(self.column.examples) > 0.6 * max(1, self.table_rows)
        return self.kind == "text" and is_varied and sum(lengths) >= 1.4 * len(lengths) and max(lengths, default=0) > 2

    @cached_property
    def values(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Known values and their stems."""
        return tuple((value, stems(value)) for value in self.column.examples)

    def likeness(self, word_stem: str) -> float:
        """How surely a word means this column: 1 as in its name, 0.5 by a word of like meaning, else 0."""
        if word_stem in self.tokens:
            return 1.0
        if any(are_alike(word_stem, token) for token in self.tokens):
            return 0.7
        if any(word_stem in group and not group.isdisjoint(self.tokens) for group in _SYNONYMS):
            return 0.5
        return 0.0

    def score(self, said: frozenset[str]) -> float:
        """How well words name this column, 0 to 1."""
        weights = {token: 0.3 if token in _LIGHT else 1.0 for token in self.tokens}
        whole = sum(weights.values())
        exact = sum(weight for token, weight in weights.items() if token in said)
        if exact:
            return exact / whole if whole else 0.0
        return 0.45 * max((self.likeness(word) for word in said), default=0.0)


_QUANTITIES: Final = frozenset(
    stem(word) for word in ["quantity", "qty", "pieces", "pcs", "units", "count", "number", "items", "copies"]
)
_LIGHT: Final = frozenset(stem(word) for word in (*_VAGUE_WORDS, *_UNITS))


@dataclass(frozen=True)
class View:
    """What one query reads: a table, or a table with the one row of another that belongs to each of its rows."""

    tables: tuple[Table, ...]
    source_sql: str
    fields: tuple[Field, ...]
    subject: frozenset[str]
    """Stems of the table's name: what a row is, or what the table is about."""

    @property
    def name(self) -> str:
        return " with ".join(table.name for table in self.tables)

    @property
    def title(self) -> str:
        """What people know the first table by: its document, and its sheet."""
        table = self.tables[0]
        return f"{table.document}, sheet {table.sheet}" if table.sheet else table.document

    @property
    def date_field(self) -> Field | None:
        return next((field for field in self.fields if field.kind == "date"), None)

    @property
    def rows(self) -> int:
        return self.tables[0].rows


def quoted(name: str) -> str:
    """Write a name as SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: str) -> str:
    """Write a text as SQL."""
    return "'" + value.replace("'", "''") + "'"


def with_columns_spelled_out(question: str, catalog: Catalog) -> str:
    """Write `unit Price` where the question has a column's name `unitPrice`."""
    for name in {column.name for table in catalog.tables for column in table.columns}:
        if spelled_out(name) != name:
            question = question.replace(name, spelled_out(name))
    return question


def with_initials_joined(question: str, catalog: Catalog) -> str:
    """Write `end of life` as `eol` where a column is called that."""
    words = read_words(question)
    names = {column.name.lower() for table in catalog.tables for column in table.columns}
    for length in sorted({len(name) for name in names if len(name) in _INITIALS and name.isalpha()}, reverse=True):
        for first in range(len(words) - length + 1):
            run = words[first : first + length]
            name = "".join(word.lower[:1] for word in run)
            if name in names and run[0].is_content and run[-1].is_content:
                return question[: run[0].start] + name + question[run[-1].end :]
    return question


_INITIALS: Final = range(3, 6)


def views(catalog: Catalog, question: str) -> Iterator[View]:
    """All that a query may read: single tables first, then pairs that join without counting a row twice.

    Of many tables only those are looked at that share the most words with the question.
    """
    said = frozenset(stems(question))
    tables = sorted(catalog.tables, key=lambda table: -_nearness(table, said))[:_MOST_TABLES]
    for table in tables:
        yield view_of(table)
    for left, right in permutations(tables[:_MOST_JOINED], 2):
        key = _join_key(left, right)
        if key is not None:
            yield _joined(left, right, *key)


def _nearness(table: Table, said: frozenset[str]) -> int:
    names = [table.name, table.document, *(spelled_out(column.name) for column in table.columns)]
    values = [value for column in table.columns if _kind(column) == "text" for value in column.examples]
    named = said.intersection(frozenset[str]().union(*(stems(name) for name in names)))
    return 2 * len(named) + len(said.intersection(frozenset[str]().union(*(stems(value) for value in values))))


_MOST_TABLES: Final = 20
_MOST_JOINED: Final = 6


def view_of(table: Table) -> View:
    """View one table alone."""
    return View((table,), quoted(table.name), _fields(table, joined=False), _subject(table))


def _joined(left: Table, right: Table, left_key: str, right_key: str) -> View:
    on = f"{quoted(left.name)}.{quoted(left_key)} = {quoted(right.name)}.{quoted(right_key)}"
    known = {column.name.lower() for column in left.columns}
    extra = tuple(
        replace(field, is_borrowed=True)
        for field in _fields(right, joined=True)
        if field.column.name.lower() not in known and field.column.name != right_key
    )
    return View(
        (left, right),
        f"{quoted(left.name)} LEFT JOIN {quoted(right.name)} ON {on}",
        (*_fields(left, joined=True), *extra),
        _subject(left),
    )


def _join_key(left: Table, right: Table) -> tuple[str, str] | None:
    """Find columns of the same name, every value of which stands in one row of `right` only."""
    for column in right.columns:
        if right.rows and column.distinct >= right.rows and _kind(column) != "date":
            names = {column.name.lower()}
            if column.name.lower() in {"id", "name", "code", "key"}:
                names = {f"{singular}_{column.name.lower()}" for singular in _singulars(right.name)}
                if column.name.lower() in {"name", "id"}:
                    names |= set(_singulars(right.name))
            match = next((other for other in left.columns if other.name.lower() in names), None)
            if match and _comparable(match, column):
                return match.name, column.name
    return None


def _comparable(left: Column, right: Column) -> bool:
    return bool(_NUMBER_TYPES.match(left.type.upper())) == bool(_NUMBER_TYPES.match(right.type.upper()))


def _singulars(name: str) -> tuple[str, ...]:
    name = name.lower()
    return name, name.removesuffix("s"), name.removesuffix("es"), name.removesuffix("ies") + "y"


def _subject(table: Table) -> frozenset[str]:
    return frozenset(content_stems(f"{table.name} {table.document.rsplit('.', 1)[0]} {table.sheet}"))


def _fields(table: Table, *, joined: bool) -> tuple[Field, ...]:
    return tuple(_field(table, column, joined=joined) for column in table.columns)


def _field(table: Table, column: Column, *, joined: bool) -> Field:
    name = f"{quoted(table.name)}.{quoted(column.name)}" if joined else quoted(column.name)
    kind = _kind(column)
    words = read_words(spelled_out(column.name))
    unit = _UNITS.get(words[-1].lower, "") if len(words) > 1 else ""
    label = " ".join(word.lower for word in (words[:-1] if unit else words)) or column.name
    telling = [word.stem for word in words if word.lower not in STOPWORDS] or [word.stem for word in words]
    tokens = tuple(dict.fromkeys(telling)) or (column.name.lower(),)
    return Field(table.name, column, kind, _typed(name, column, kind), name, label, unit, tokens, table.rows)


def _kind(column: Column) -> Kind:
    kind = column.type.upper()
    if kind.startswith("BOOL"):
        return "boolean"
    if kind.startswith(("DATE", "TIMESTAMP")):
        return "date"
    if _NUMBER_TYPES.match(kind):
        return "number"
    examples = [example.strip() for example in column.examples if example.strip()]
    if examples and all(_ISO_DATE.fullmatch(example) for example in examples):
        return "date"
    if examples and all(_NUMBER_TEXT.fullmatch(example) for example in examples):
        return "number"
    return "text"


def _typed(name: str, column: Column, kind: Kind) -> str:
    """Read text as what it stands for; a value that cannot be read is left out, not guessed."""
    if not column.type.upper().startswith(("VARCHAR", "TEXT", "STRING")):
        return name
    if kind == "date":
        is_month = all(_ISO_MONTH.fullmatch(example.strip()) for example in column.examples)
        return f"TRY_CAST({name} || '-01' AS DATE)" if is_month else f"TRY_CAST({name} AS DATE)"
    if kind == "number":
        return f"TRY_CAST(regexp_replace({name}, '[^0-9.\\-]', '', 'g') AS DOUBLE)"
    return name
