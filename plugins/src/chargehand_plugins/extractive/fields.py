"""The columns of a table, and how close a word is to naming one of them, or the rows."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from typing import Final, TypeVar

from activities.documents.catalog import Column, Table
from chargehand_plugins.extractive import lexicon
from chargehand_plugins.extractive.lexicon import Token
from chargehand_plugins.extractive.periods import DAY, read_calendar, read_period

_T = TypeVar("_T")
_NUMBER: Final = re.compile(r"U?(?:TINY|SMALL|BIG|HUGE)?INT|INTEGER|FLOAT|DOUBLE|DECIMAL.*")
_AMOUNT: Final = re.compile(r"[-+]?\d[\d.,'’\s]*\s?([^\W\d]{0,3})")
"""An amount such as `4.200 h`, which remains a text, unlike a class `1A`."""
_AGAIN: Final = re.compile(r"(.+)_\d+")
_COUNTED: Final = re.compile(r"^(?:number|no\.?)[_ ]of[_ ]", re.IGNORECASE)
"""The beginning of a title such as `number of guests`, which is not a guest's number."""
_YES, _NO = (frozenset(listed.split()) for listed in ("yes ja oui si sí true y x", "no nein non false n"))


class Field:
    """A column, as a question in some language may name it."""

    def __init__(self, column: Column, table: Table, language: str) -> None:
        self.column, self.name, self.label = column, column.name, column.title or column.name
        self._table, self._file = table, tuple(token.stem for token in _names_of(table, language))
        again = _AGAIN.fullmatch(self.label)  # DuckDB numbers titles that occur twice
        plain = again[1] if again and again[1] in {each.title for each in table.columns} else self.label
        tokens = lexicon.read_tokens(re.sub(r"(?<=[_ (])min\b", "minutes", _COUNTED.sub("", plain)), language)
        self.words = tuple(token.word for token in tokens)
        units = set(filter(lexicon.is_currency if self.has("priced") else lexicon.unit_forms, self.words))
        self.units = frozenset(form for word in units for form in lexicon.unit_forms(word))  # no `kg` of a price
        named, empty = [t for t in tokens if t.word[:1].isalnum()], lexicon.empty_words(language)
        self.title = tuple([token for token in named if token.word not in units | empty] or named)
        """The words that name it: all except its unit, unless there are no others."""
        self.stems = tuple(token.stem for token in self.title)
        period = read_period(tokens, 0, language) if tokens else None
        self.period = period[0] if period and period[1] == len(tokens) else None
        """The period that its title is, such as `Q3` or `Feb`."""
        self.kind = frozenset(t.stem for t in named if not lexicon.matches("time_words", t.word)) - empty
        """The event to which its dates belong, such as `joined`; empty if it is only a date."""
        calendar = read_calendar(column)
        is_plain = calendar and calendar.length < DAY and calendar.moments == frozenset(column.examples)
        is_coded = is_plain and column.distinct == table.rows and not self.has("time_words")  # `2026-01` is a number
        self.calendar = None if is_coded else calendar
        self.is_day = self.calendar is not None and self.calendar.length == DAY
        self.is_time = column.type.startswith("TIME") or self.calendar is not None
        self.examples = _without_totals(column)
        self.is_listed = column.distinct <= len(column.examples)
        self.is_flag = bool(column.examples) and all(value.casefold() in _YES | _NO for value in column.examples)
        is_whole = column.type == "BIGINT" and not self.units
        self.is_state = self.has("states")
        """Whether its values are levels, which add up over things, but not over time."""
        is_first = column is table.columns[0] and not self.has("quantity")
        self.is_identifier = (is_whole and is_first and column.distinct == table.rows > 1) or self.has("identifiers")
        """Whether its numbers are names, like those of rooms and invoices."""
        self.is_number = bool(_NUMBER.fullmatch(column.type)) and not (self.calendar or self.is_identifier)
        amounts = [_AMOUNT.fullmatch(each) for each in column.examples]
        ends, is_text = {each[1] for each in amounts if each}, column.type == "VARCHAR" and all(amounts)
        self.is_unread = is_text and (len(ends) < 2 or all(map(lexicon.unit_forms, ends)))

    def has(self, *names: str) -> bool:
        """Whether a word of the title is in one of these word lists; a title like `no-shows` has no number."""
        words = self.words[self.words[:1] == ("no",) and len(self.words) > 1 :]
        return any(lexicon.matches(name, word) for name in names for word in words)

    def has_names_of(self, token: Token) -> bool:
        """Whether its numbers are the names of what a word counts: in a column `flat`, they name flats."""
        is_whole = self.column.type == "BIGINT" and not self.units and self.stems == (token.stem,)
        return is_whole and token.word != self.title[0].word and token.word.startswith(self.title[0].word)

    def events(self, text: str) -> set[str]:
        """List events of rows as conditions, such as `status = delivered`."""
        tokens = lexicon.read_tokens(text, "") if self.is_flag or self.has("statuses") else ()
        return {token.word for token in tokens if lexicon.matches("event", token.word)}

    @cached_property
    def _is_settled(self) -> bool:
        """Whether rows state whether they are paid, in which case `pay` may mean only some of them."""
        values = " ".join(chain.from_iterable(each.examples for each in self._table.columns if each.type == "VARCHAR"))
        return any(lexicon.matches("settled", token.word) for token in lexicon.read_tokens(values, ""))

    @cached_property
    def is_money(self) -> bool:
        """Whether it has amounts in a currency, or prices without another unit."""
        is_amount = not self.units and self.has("priced", "amounts", "wages", "revenues")
        return self.is_number and (is_amount or any(map(lexicon.is_currency, self.units)))

    @cached_property
    def is_unique(self) -> bool:
        """Whether it identifies each row: a text, time or number that never repeats."""
        is_name = not (self.is_number or self.units or self.is_unread)
        totals = {each.name: len(each.examples) - len(_without_totals(each)) for each in self._table.columns}
        names, rows = self.column.distinct - totals[self.name], self._table.rows - max(totals.values())
        return is_name and names >= rows > 0 and not self.is_day

    def cost(self, token: Token) -> int | None:
        """Distance of a word from its title: 0 if the title has it, 2 if they only mean the same; None if unrelated."""
        is_time = lexicon.matches("paying", token.word) and self.has("durations")
        if is_time or (self._is_settled and lexicon.matches("settled", token.word)):
            return None
        near = lexicon.nearness(token, self.title, self._file)
        if near is not None:
            return near
        if token.word in self.units and self.is_number:
            return 1
        is_paid = self.is_money and lexicon.matches("money", token.word)
        if is_paid or lexicon.is_held(token.word, self.words):
            return 2
        return lexicon.DISTANT if lexicon.is_held(token.word, self.words, "distant") else None

    def cost_of_all(self, tokens: Sequence[Token]) -> float | None:
        """Distance of words from its title; half a step for an incomplete title."""
        costs = [cost for token in tokens if (cost := self.cost(token)) is not None]
        return min(costs) + self.is_cut(tokens) / 2 if costs else None

    def is_cut(self, tokens: Sequence[Token]) -> bool:
        """Whether words omit part of its title."""
        return not set(self.stems) <= {token.stem for token in tokens}


class Fields:
    """The columns of a table, and facts about its rows."""

    def __init__(self, table: Table, language: str) -> None:
        self.table, self.language = table, language
        self.all = tuple(Field(column, table, language) for column in table.columns)
        self.is_dated = any(field.calendar for field in self.all)
        self.has_status = any(each.has("statuses") for each in self.all)
        self.texts = tuple(each for each in self.all if each.column.type == "VARCHAR" and not each.calendar)
        keys = [field for field in self.all if field.is_unique]
        self.key = next(iter(keys), None)
        self.currency = only(
            [each for each in self.all if each.examples and all(map(lexicon.is_currency, each.examples))]
        )
        money = [field for field in self.all if field.is_money]
        self.amount = only([field for field in money if field.has("amounts")]) or only(money)
        counts = [each for each in self.all if each.is_number and not each.is_money and each.has("quantity")]
        self.quantity, self._is_counted = only(counts), bool(counts)
        self.names = _names_of(table, language)
        days = [each for each in self.all if each.is_day and each.column.distinct == table.rows]
        of_things = (each.title[:-1] for each in self.all if each.has("attributes"))
        self._rows = (*self.names, *chain(*(each.title for each in (*keys, *days)), *of_things))
        """Names of its rows: the words of the table's name, the titles of its keys, and the owner of an `age`."""
        self.is_series = self.is_dated and not (self.key and not self.key.is_time)
        """Whether the rows are a time series, in which levels do not add up."""

    @cached_property
    def titles(self) -> Mapping[tuple[str, ...], Sequence[Field]]:
        """Map the words of titles to columns."""
        return {
            stems: [each for each in self.all if each.stems == stems] for stems in {each.stems for each in self.all}
        }

    @cached_property
    def values(self) -> Mapping[tuple[str, ...], Sequence[tuple[Field, str]]]:
        """List the words with which questions name values; for a flag, those of its title."""
        by_stems = defaultdict[tuple[str, ...], list[tuple[Field, str]]](list)
        for each, value in ((field, value) for field in self.all for value in field.examples):
            word = value.casefold()
            tokens = lexicon.read_tokens(value, self.language) if each in self.texts and not value.isdigit() else ()
            named = [tuple(token.stem for token in tokens if token.word[:1].isalnum())]
            if each.column.type == "BIGINT" and not each.calendar:  # `floor 2`
                named = [(*each.stems, value)]
            if each.is_flag:
                named += [each.stems if word in _YES else (f"un{' '.join(each.stems)}",)]
            for stems in dict.fromkeys(named):
                by_stems[stems].append((each, value))
        return by_stems

    def adds_up(self, field: Field) -> bool:
        """Whether the values of a column add up over rows."""
        is_of_unit = self._is_counted and field.has("unit_prices") and not field.has("amounts")
        is_ratio = len(field.words) > 2 and all(map(lexicon.unit_forms, field.words[-2:]))  # `mg_l`
        is_never = is_ratio or is_of_unit or field.has("not_added") or "unit" in field.words
        return field.is_number and not (is_never or (self.is_series and field.is_state))

    def cost_of_rows(self, token: Token) -> int | None:
        """Distance of a word from the name of the table's rows."""
        near = lexicon.nearness(token, self._rows, tuple(name.stem for name in self.names))
        is_thing = lexicon.is_held(token.word, tuple(name.word for name in self._rows), "things")
        return near if near is not None else 2 if is_thing else None

    def is_empty(self, token: Token) -> bool:
        """Whether a question means the same without a word, which then is neither a title nor the table's last name."""
        named = [tuple(name.stem for name in self.names[-1:]), *(each.stems for each in self.all if not each.is_time)]
        return token.word in lexicon.empty_words(self.language) and (token.stem,) not in named

    def is_known(self, token: Token) -> bool:
        """Whether a word names any part of the table."""
        return self.cost_of_rows(token) is not None or any(field.cost(token) is not None for field in self.all)


fields_of: Final = lru_cache(maxsize=200)(Fields)


def only(found: Sequence[_T]) -> _T | None:
    return found[0] if len(found) == 1 else None


def _names_of(table: Table, language: str) -> tuple[Token, ...]:
    """List the words of the file's and sheet's names."""
    file = table.document.rsplit("/", 1)[-1].rsplit(".", 1)[0]
    return lexicon.read_tokens(f"{file} {table.sheet}", language)


def _without_totals(column: Column) -> tuple[str, ...]:
    return tuple(each for each in column.examples if each.casefold() not in lexicon.data()["totals"])
