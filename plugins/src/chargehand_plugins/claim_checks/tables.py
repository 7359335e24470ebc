"""The result of a query or program as a table: its figures, and the labels of rows and columns. Pure."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property, lru_cache
from itertools import chain, islice
from typing import Final

from chargehand_plugins.claim_checks.number_forms import DECIMAL_MARKS, decimal_marks, numbers_in
from chargehand_plugins.claim_checks.periods import PERIOD, months_in, times_of, with_periods
from chargehand_plugins.claim_checks.quantities import Quantity, factors_of, unit_of
from chargehand_plugins.claim_checks.words import months_of
from workflows.rules.claim_words import TOKEN, language_of, languages

_DATE: Final = re.compile(r"(\d{4})-(\d\d)(?:-(\d\d))?(?:[ T].*)?")
_TOTAL: Final = re.compile(r"\btot[a-z]*|gesamt|\bsum|\bsom\b|\ball\b", re.IGNORECASE)
_YEAR: Final = re.compile(r"(?:1[89]|20)\d\d")
_TIMES: Final = ((_YEAR,), (PERIOD,))
_SCALED: Final = re.compile(r"([tkm])(eur|usd|gbp|chf|pln|to?n)", re.IGNORECASE)
_SCALES: Final = {"t": Decimal(1000), "k": Decimal(1000), "m": Decimal(1_000_000)}
PREVIOUS: Final = re.compile(
    r"vorjahr|previous|prior|before|anterior|précéd|preced|vorig|earlier|zuvor|scorso|wcześniej|poprzedn", re.IGNORECASE
)
_MOST_ROWS: Final = 200
_STEM: Final = 5


@dataclass(frozen=True)
class Cell:
    """A figure of a table, with the unit that the title of its column names."""

    quantity: Quantity
    row: int
    column: int

    @cached_property
    def value(self) -> Decimal:
        """Its value; the larger of two possible ones."""
        return max(value for value in self.quantity.values if isinstance(value, Decimal))


@dataclass(frozen=True, eq=False)
class ResultTable:
    """The result of a query or program, as a table; compared by identity, so that lookups are cached."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    titles: str = ""
    """Other texts about it, which show how it writes numbers if it does not itself."""

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """All figures that are not labels."""
        columns = list(zip(*self.rows, strict=True))
        own = [decimal_marks(cells, is_column=True) for cells in columns]
        language = language_of(self.names) or language_of(self.titles) or ""
        others = decimal_marks(chain(*self.rows), is_column=False) or DECIMAL_MARKS.get(language, frozenset())
        measures = [_measure(title) for title in self.header]
        return tuple(
            Cell(replace(measures[column], digits=numbers), row, column)
            for row, cells in enumerate(self.rows)
            for column, text in enumerate(cells)
            if column not in self.labels and (numbers := numbers_in(text, own[column] or others))
        )

    @cached_property
    def columns(self) -> Mapping[int, Sequence[Cell]]:
        """All figures by column."""
        places = sorted({cell.column for cell in self.cells})
        return {column: [cell for cell in self.cells if cell.column == column] for column in places}

    @cached_property
    def names(self) -> str:
        cells = (row[column] for row in self.rows for column in self.labels)
        return " | ".join((*self.header, *cells)).replace("_", " ")

    @cached_property
    def label_words(self) -> frozenset[str]:
        return words_in(self.names)

    @cached_property
    def labels(self) -> frozenset[int]:
        """Columns that name their rows: words, dates, years, and numbers from one upwards in the first."""
        columns = list(zip(*self.rows, strict=True))
        return frozenset(
            number
            for number, column in enumerate(columns)
            if sum(not numbers_in(cell, frozenset()) for cell in column) * 2 > len(column)  # the others are missing
            or all(_YEAR.fullmatch(cell) for cell in column)
            or (number == 0 and len(columns) > 1 and len({*column}) == len(column) and all(len(c) < 3 for c in column))
        )

    @cached_property
    def times(self) -> frozenset[int]:
        """The columns of labels that tell when."""
        return frozenset(
            at for at in self.labels if all(_DATE.match(row[at]) or times_of(row[at]) for row in self.rows)
        )

    def at_other_times(self, rows: frozenset[int]) -> frozenset[int]:
        """List the rows that have the labels of some rows, whenever they are of."""
        places = sorted(self.labels - self.times)
        labels = [[cells[at] for at in places] for cells in self.rows]
        own = [labels[row] for row in rows if places]
        return frozenset(row for row, label in enumerate(labels) if label in own)

    def in_scope(self, claim: str, clause: str) -> frozenset[int]:
        """List the rows with the labels that a clause has, at the time that its claim names."""
        rows = frozenset(range(len(self.rows)))
        for at in self.labels:
            text = claim if at in self.times else clause
            words = words_in(text)
            named = frozenset(row for row in rows if self.is_said(self.rows[row][at], at, words, text))
            if at in self.times and len({self.rows[row][at] for row in named}) > 1:
                named = rows & {*range(min(named), max(named) + 1)}  # `from January to April`
            rows = named or rows
        return rows

    @cached_property
    def keys(self) -> frozenset[int]:
        """The first column of words with a different value in each row."""
        columns = [(column, [cells[column] for cells in self.rows]) for column in sorted(self.labels)]
        own = (column for column, cells in columns if len({*cells}) == len(cells) and not any(map(_YEAR.match, cells)))
        return frozenset(islice(own, 1))

    @lru_cache(maxsize=256)  # noqa: B019  # tables are cached as well
    def key_rows(self, text: str) -> frozenset[int]:
        """List the rows that a text names by a key."""
        keys, words = [(row, column) for row in range(len(self.rows)) for column in self.keys], words_in(text)
        return frozenset(row for row, at in keys if self.is_said(self.rows[row][at], at, words, text))

    @lru_cache(maxsize=256)  # noqa: B019  # as above
    def named_rows(self, text: str) -> frozenset[int]:
        """List the rows whose key a text has, else those with its labels; the best if it has several of one row."""
        words = words_in(text)
        said = [{at for at in self.labels if self.is_said(cells[at], at, words, text)} for cells in self.rows]
        best = max(map(len, said), default=0)
        keyed = frozenset(row for row, places in enumerate(said) if places & self.keys)
        return keyed or frozenset(row for row, places in enumerate(said) if len(places) == best > 0)

    @lru_cache(maxsize=256)  # noqa: B019  # as above
    def named_columns(self, text: str) -> frozenset[int]:
        """List the columns of figures whose titles share words with a text, and not only some of another's."""
        words = words_in(text) | words_in(text.replace("-", ""))  # `e-books` in a column of `ebooks`
        stems = {word[:letters] for word in words for letters in (_STEM - 1, _STEM)} | _month_stems(months_of(text))
        fits = {column: self.stems(column) & stems for column in self.columns}
        return frozenset(one for one, fit in fits.items() if fit and not any(fit < each for each in fits.values()))

    @lru_cache(maxsize=1024)  # noqa: B019  # as above
    def stems(self, column: int) -> frozenset[str]:
        """List the beginnings of the words of a column's title."""
        title = self.header[column]
        return frozenset(word[:_STEM] for word in words_in(title)) | _month_stems(months_in(title))

    @cached_property
    def body(self) -> list[int]:
        return [row for row in range(len(self.rows)) if not self.is_total(row)]

    def is_total(self, row: int) -> bool:
        return any(_TOTAL.search(self.rows[row][column]) for column in self.labels)

    def time_of(self, cell: Cell, *, is_by_row: bool) -> str:
        """Return what orders figures in time: date, year or period of a row or column; empty if there is none."""
        labels = [self.rows[cell.row][column] for column in self.labels] if is_by_row else [self.header[cell.column]]
        place = f"{cell.row if is_by_row else cell.column:03}"  # seasons follow each other as the table has them
        times = [label for label in labels if _DATE.fullmatch(label)][:1] or times_of(" ".join(labels))
        time = "".join(each if any(map(str.isdigit, each)) else place for each in times)
        return time or ("" if is_by_row else "before" if PREVIOUS.search(labels[0]) else "now")

    def are_alternatives(self, column: int, columns: frozenset[int]) -> bool:
        """Whether a column's title repeats another's, or is a year, month or season."""
        groups = (*(group for each in languages().values() for group in each.alternatives), *_TIMES)
        titles = [with_periods(self.header[each].replace("_", " ")).strip() for each in (column, *columns)]
        return any(all(any(one.fullmatch(title) for one in group) for title in titles) for group in groups)

    @cached_property
    def untimed_titles(self) -> list[frozenset[str]]:
        """The stems of each column's title without its year, month or season."""
        times = [{time[:_STEM] for time in times_of(title)} | _month_stems(months_in(title)) for title in self.header]
        return [
            frozenset(stem for stem in self.stems(each) - times[each] if not (stem.isdigit() or times_of(stem)))
            for each in range(len(self.header))
        ]

    def in_time(self, columns: frozenset[int]) -> frozenset[int]:
        """Add the columns whose titles differ only in the year; without columns, find the only such group."""
        titles = self.untimed_titles
        alike = {title for title in titles if titles.count(title) > 1}
        if len(columns) < 2 and (columns or len(alike) == 1):
            alike = {titles[each] for each in columns} or alike
            return columns | {each for each, title in enumerate(titles) if title in alike}
        return columns

    def is_duration(self, column: int) -> bool:
        """Whether a column tells how long something takes."""
        return any(unit_of(word)[0] == "time" for word in TOKEN.findall(self.header[column]))

    def is_said(self, cell: str, column: int, words: frozenset[str], text: str) -> bool:
        """Whether a text has a label of a column."""
        if date := _DATE.fullmatch(cell):
            months = months_of(text)
            is_year = date[1] in words or not any(map(_YEAR.fullmatch, words))
            is_day = not date[3] or bool(re.search(rf"(?<![\d.,]){int(date[3])}(?![\d,]|\.\d)", text)) or cell in text
            return is_year and is_day and (int(date[2]) in months or cell in text)
        if cell.isdigit() and not _YEAR.fullmatch(cell):
            return bool(re.search(rf"\b{re.escape(self.header[column][:_STEM])}\w* {cell}\b", text, re.IGNORECASE))
        if (said := months_of(text)) and cell.rstrip(".").isalpha() and (months := months_in(cell)):
            return months <= said
        label = words_in(cell)
        if not any(map(_YEAR.fullmatch, words)):
            label = frozenset(word for word in label if not _YEAR.fullmatch(word)) or label
        # With another ending, or as the first part of a long word: `Technikmuseum`.
        others = words - self.label_words
        return bool(label) and all(
            word in words
            or (len(word) >= _STEM and f" {word}" in f" {' '.join(words)}")  # begins one of them
            or (len(word) > _STEM and word.isalpha() and any(_is_form(each, word) for each in others))
            for word in label
        )


@lru_cache(maxsize=128)
def read_table(result: str, titles: str = "") -> ResultTable | None:
    """Read a tool's result as a table; None if it is not one."""
    lines = [line for line in result.strip().split("\n") if line.strip()]
    if len(lines) < 2:  # a header and a row
        return None
    cells = (line.strip().strip("|").split("|") for line in lines[: _MOST_ROWS + 1])
    header, *rows = (tuple(cell.strip() for cell in line) for line in cells)
    rows = [row for row in rows if len(row) == len(header)]
    return ResultTable(header, tuple(rows), titles) if rows else None


def _measure(title: str) -> Quantity:
    """Read unit and scale from the title of a column: `sales_meur`, `level_cm`; for `eur_kg`, that of euros."""
    words = [word.casefold() for word in TOKEN.findall(title.replace("_", " ")) if not _YEAR.fullmatch(word)]
    scales = [(word, factor) for word in words for factor in factors_of(word) if len(word) > 1]
    words = [word for word in words if word not in dict(scales)]
    words = words[: words.index("per")] if "per" in words else words
    if len(words) > 1 and words[-1] in {"k", "m"} and _SCALED.fullmatch(words[-1] + words[-2]):
        words[-2:] = [words[-1] + words[-2]]  # `sales_usd_m`
    if len(words) > 1 and words[-2] != "min" and all(unit_of(word)[0] for word in words[-2:]):  # otherwise the smallest
        words.pop()
    words = words or [""]
    if scaled := _SCALED.fullmatch(words[-1]):
        unit, size = unit_of(scaled[2])
        return Quantity(title, frozenset(), unit, size, scale=_SCALES[scaled[1]])
    is_named = len(words) > 1 or len(words[-1]) > 2  # m, l or h alone is ambiguous
    unit, size = unit_of(words[-1].replace("pct", "%")) if is_named else ("", Decimal(1))
    return Quantity(title, frozenset(), unit, size, scale=next((factor for _, factor in scales), Decimal(1)))


@lru_cache(maxsize=1024)
def words_in(text: str) -> frozenset[str]:
    return frozenset(TOKEN.findall(plain(with_periods(text))))


def _month_stems(months: frozenset[int]) -> frozenset[str]:
    """Return months as words that are the same in every language, and for abbreviations."""
    return frozenset(f"m{month:02}" for month in months)


def _is_form(word: str, label: str) -> bool:
    """Whether a word may be a label with another ending: `śląskim` and `śląskie`."""
    return word.startswith(label[:-2]) and abs(len(word) - len(label)) < 2


def plain(text: str) -> str:
    bare = "".join(mark for mark in unicodedata.normalize("NFD", text) if not unicodedata.combining(mark))
    return re.sub(r"(?<=[aou])e", "", bare.casefold()).replace("_", " ")  # ä is a or ae
