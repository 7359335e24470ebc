"""What the columns of a table hold, and how near a word is to naming one of them, or the rows."""

import re
from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import chain
from typing import Final, TypeVar

from activities.documents.catalog import Column, Table
from chargehand_plugins.extractive import lexicon
from chargehand_plugins.extractive.lexicon import Token
from chargehand_plugins.extractive.periods import DAY, read_calendar

_T = TypeVar("_T")
_NUMBERS: Final = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UBIGINT", "FLOAT", "DOUBLE", "DECIMAL")
_TIMES: Final = ("TIME", "TIMESTAMP")
_SHORTEST_PART: Final = 5
"""Letters of a part of a compound word."""
_AMOUNT: Final = re.compile(r"[-+]?\d[\d.,\s]*\s?[^\W\d]{0,3}")
"""Such as `4.200 h`, which is left as a text."""
YES, NO = (frozenset(listed.split()) for listed in ("yes ja oui si sí true y x", "no nein non false n"))


class Field:
    """A column, as a question in some language may name it."""

    def __init__(self, column: Column, table: Table, language: str) -> None:
        self.column, self.name, self.label = column, column.name, column.title or column.name
        self._table, self._language = table, language
        tokens = lexicon.read_tokens(self.label.replace("_", " "), language)
        self.words = tuple(token.word for token in tokens)
        self.units = frozenset(form for word in self.words for form in lexicon.unit_forms(word))
        named = [token for token in tokens if token.word[:1].isalnum()]
        empty = lexicon.empty_words(language)
        telling = [token for token in named if token.word not in empty and not lexicon.unit_forms(token.word)]
        self.title = tuple(telling or named)
        """The words that name it: all but its unit, unless it has nothing else."""
        self.stems = tuple(token.stem for token in self.title)
        self.kind = frozenset(t.stem for t in named if not lexicon.matches("time_words", t.word)) - empty
        """What its days are of, such as `joined`; empty if it is only a date."""
        self.calendar = read_calendar(column)
        self.is_day = self.calendar is not None and self.calendar.length == DAY
        self.is_time = column.type.startswith(_TIMES) or self.calendar is not None
        self.examples = tuple(value for value in column.examples if value.casefold() not in lexicon.totals())
        held = {value.casefold() for value in column.examples}
        self.is_listed = column.distinct <= len(column.examples)
        """Whether all of its values are known."""
        self.is_flag = bool(held) and held <= YES | NO

    def has(self, name: str) -> bool:
        """Whether a word of its title is one of those of a name."""
        return any(lexicon.matches(name, word) for word in self.words)

    @cached_property
    def is_identifier(self) -> bool:
        """Whether it has numbers that are names, as those of rooms and invoices are."""
        is_first = self.column is self._table.columns[0] and self.column.type == "BIGINT" and not self.has("quantity")
        is_plain = is_first and self.column.distinct == self._table.rows > 1 and not self.units
        return is_plain or self.has("identifiers")

    @cached_property
    def is_number(self) -> bool:
        return self.column.type.startswith(_NUMBERS) and not (self.calendar or self.is_identifier)

    @cached_property
    def is_money(self) -> bool:
        """Whether it has numbers of a currency, or prices of no other unit."""
        is_amount = self.words == ("total",) or any(map(self.has, ("priced", "amounts", "wages", "revenues")))
        return self.is_number and (any(map(lexicon.is_currency, self.units)) or (not self.units and is_amount))

    @cached_property
    def is_unique(self) -> bool:
        """Whether it names each row: a text, a time or a number of that kind that never repeats."""
        is_amount = self.column.type == "VARCHAR" and all(map(_AMOUNT.fullmatch, self.column.examples))
        is_name = self.is_identifier or not (self.is_number or self.units or is_amount)
        values = chain.from_iterable(each.examples for each in self._table.columns)
        rows = self._table.rows - sum(value.casefold() in lexicon.totals() for value in values)
        return is_name and self.column.distinct >= rows > 0 and not self.is_day

    def cost(self, token: Token) -> int | None:
        """How far a word is from naming it: 0 if its title has it, 2 if they only mean the same; None if not."""
        if lexicon.matches("paying", token.word) and self.has("durations"):
            return None
        near = _nearness(token, self.title, self.words, self._table, self._language)
        if near is not None:
            return near
        is_coin = lexicon.is_currency(token.word) and not self.units and self.is_money
        if is_coin or (token.word in self.units and self.is_number):
            return 1
        is_kind = (lexicon.matches("money", token.word) and self.is_money) or (
            lexicon.matches("dates", token.word) and self.is_time
        )
        if is_kind or lexicon.is_held(token.word, self.words):
            return 2
        return 3 if lexicon.is_held(token.word, self.words, "distant") else None


class Fields:
    """The columns of a table, and what is known of its rows."""

    def __init__(self, table: Table, language: str) -> None:
        self.table, self.language = table, language
        self.all = tuple(Field(column, table, language) for column in table.columns)
        self.texts = tuple(each for each in self.all if each.column.type == "VARCHAR" and not each.calendar)
        self.key = next((field for field in self.all if field.is_unique), None)
        """The first column that names each row."""
        self.currency = only([each for each in self.all if _are_codes(each.column.examples)])
        """The column that holds nothing but currencies."""
        money = [field for field in self.all if field.is_money]
        self.amount = only([field for field in money if field.has("amounts")]) or only(money)
        """The one column of money."""
        self.quantity = only(
            [field for field in self.all if field.is_number and field.has("quantity") and not field.is_money]
        )
        """The column that says how many of a thing a row has."""

    @cached_property
    def values(self) -> Sequence[tuple[tuple[str, ...], Field, str]]:
        """List how questions call values: by their words, those of a flag by its title, currencies by their names."""
        named = [(lexicon.stems(value, self.language), each, value) for each in self.texts for value in each.examples]
        for each in self.all:
            yes, no = (
                [value for value in each.examples if each.is_flag and value.casefold() in held] for held in (YES, NO)
            )
            named += [(each.stems, each, value) for value in yes]
            named += [((f"un{each.stems[0]}",), each, value) for value in no if len(each.stems) == 1]
        if coin := self.currency:
            named += [
                ((form,), coin, value) for value in coin.examples for form in lexicon.unit_forms(value.casefold())
            ]
        return [each for each in named if not each[2].isdigit()]

    def dated_by(self, asked: frozenset[str]) -> Field | None:
        """Find the column that dates the rows of a question: `joined` only if it says so, and none if two would do."""
        dated = [field for field in self.all if field.calendar]
        named = [field for field in dated if field.kind and field.kind <= asked]
        plain = [field for field in dated if not field.kind]
        return only(named or [field for field in plain if field.is_day] or plain)

    @cached_property
    def is_series(self) -> bool:
        """Whether the rows follow each other in time, so that states in them do not add up."""
        is_dated = self.dated_by(frozenset()) is not None
        return any(field.calendar and field.calendar.is_series for field in self.all) or any(
            is_dated and field.is_day and not field.has("event") and field.column.distinct * 2 >= self.table.rows
            for field in self.all
        )

    def adds_up(self, field: Field) -> bool:
        """Whether the values of a column over several rows make a sum."""
        is_of_unit = (self.quantity is not None and field.has("unit_prices")) or any(
            word.word == "unit" for word in field.title
        )
        is_never = field.has("not_added") or (field.has("priced") and is_of_unit)
        return field.is_number and not (is_never or (self.is_series and field.has("states")))

    @cached_property
    def _names_of_rows(self) -> tuple[Token, ...]:
        """The words of the table's name, the titles of its keys, and of `age` and the like what they are of."""
        keys = (
            each.title
            for each in self.all
            if each.is_unique or (each.is_day and each.column.distinct == self.table.rows)
        )
        things = (each.title[:-1] for each in self.all if each.has("attributes"))
        return (*names_of(self.table, self.language), *chain.from_iterable(keys), *chain.from_iterable(things))

    def cost_of_rows(self, token: Token) -> int | None:
        """How far a word is from naming what the table's rows are."""
        words = tuple(name.word for name in self._names_of_rows)
        near = _nearness(token, self._names_of_rows, words, self.table, self.language)
        return near if near is not None else 2 if lexicon.is_held(token.word, words, "things") else None

    def is_empty(self, token: Token) -> bool:
        """Whether a question means the same without a word, which then is not the last one of the table's name."""
        names = names_of(self.table, self.language)[-1:]
        return token.word in lexicon.empty_words(self.language) and token.stem not in {name.stem for name in names}

    def is_known(self, token: Token) -> bool:
        """Whether a word names something of the table."""
        return self.cost_of_rows(token) is not None or any(field.cost(token) is not None for field in self.all)


@lru_cache(maxsize=200)
def fields_of(table: Table, language: str) -> Fields:
    return Fields(table, language)


def names_of(table: Table, language: str) -> tuple[Token, ...]:
    """List the words of the file's and the sheet's name."""
    file = table.document.rsplit("/", 1)[-1].rsplit(".", 1)[0]
    return lexicon.read_tokens(f"{file} {table.sheet}".replace("_", " "), language)


def only(found: Sequence[_T]) -> _T | None:
    return found[0] if len(found) == 1 else None


def _nearness(token: Token, named: Sequence[Token], words: Sequence[str], table: Table, language: str) -> int | None:
    """How far a word is from one of a name: 0 if it is the same, 1 if it is of its family; None if neither."""
    if any(token.stem == name.stem for name in named):
        return 0
    if language == "en" and any(not lexicon.roots(token).isdisjoint(lexicon.roots(name)) for name in named):
        return 1
    return 1 if language == "de" and _is_compound(token.word, words, table) else None


def _is_compound(said: str, words: Sequence[str], table: Table) -> bool:
    """Whether a German word is the first or last part of one of a name, or ends with it after the table's name."""
    if len(said) < _SHORTEST_PART:
        return False
    prefixes = (said.removesuffix(word) for word in words if len(word) >= _SHORTEST_PART)
    names = tuple(token.stem for token in names_of(table, "de"))
    rests = ((word, said.removeprefix(word)) for word in words if said.startswith(word) and word != said)
    return (
        any(word.startswith(said) or word.endswith(said) for word in words)
        or any(prefix != said and prefix.startswith(names) for prefix in prefixes if prefix)
        or any(lexicon.is_held(part, words) for _, rest in rests for part in (rest, rest.removeprefix("s")))
    )


def _are_codes(values: Sequence[str]) -> bool:
    return bool(values) and all(len(value) <= len("eur") and lexicon.is_currency(value) for value in values)
