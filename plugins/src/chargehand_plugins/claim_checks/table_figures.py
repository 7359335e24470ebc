"""Figures of a claim about a table: whether each is from the row and column that it names, or computed from them."""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property, lru_cache
from itertools import chain, islice, pairwise
from typing import Final

from chargehand_plugins.claim_checks.number_forms import DECIMAL_MARKS, decimal_marks, numbers_in
from chargehand_plugins.claim_checks.periods import PERIOD, period_words, times_of, with_periods
from chargehand_plugins.claim_checks.quantities import Quantity, factors_of, is_derived, quantities, unit_of
from chargehand_plugins.claim_checks.words import clauses_of, is_each_time, is_negated, months_of, phrase_in, sides_of
from workflows.rules.citation_checks import Objection
from workflows.rules.claim_words import TOKEN, language_of, languages, spoken_in

_DATE: Final = re.compile(r"(\d{4})-(\d\d)(?:-(\d\d))?(?:[ T].*)?")
_TOTAL: Final = re.compile(r"\btot[a-z]*|gesamt|\bsum|\bsom\b|\ball\b", re.IGNORECASE)
TOGETHER: Final = re.compile(
    r"\b(?:together|combined|zusammen|insgesamt|ensemble|junt[oa]s|insieme|samen|razem|łącznie|tillsammans"
    r"|(?:in|au|en) totale?)\b",
    re.IGNORECASE,
)
_YEAR: Final = re.compile(r"(?:1[89]|20)\d\d")
_TIMES: Final = ((_YEAR,), (PERIOD,))
_SCALED: Final = re.compile(r"([tkm])(eur|usd|gbp|chf|to?n)", re.IGNORECASE)
_SCALES: Final = {"t": Decimal(1000), "k": Decimal(1000), "m": Decimal(1_000_000)}
_PREVIOUS: Final = re.compile(r"vorjahr|previous|prior|before|anterior|précéd|preced|vorig", re.IGNORECASE)
_MOST_ROWS: Final = 200
_MOST_PAIRED: Final = 8
"""Maximum figures that are combined in pairs; with more, any figure would arise by chance."""
_MOST_REPEATED: Final = 60
"""Maximum cells of a table from which everything possible is computed."""
_STEM: Final = 5
_EITHER: Final = frozenset({2, 3})
"""Places in the list of extremes of words for either end of a column."""
_ALL, _NONE = 0, 2
"""Places in the list of extents."""
BOUND: Final = 20
"""Number of characters before a figure in which `exceeds` or `less than` makes it a bound."""
_CLAUSES: Final = re.compile(r"[,;:](?!\d)")


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
    def keys(self) -> frozenset[int]:
        """The first column of words with a different value in each row."""
        columns = [(column, [cells[column] for cells in self.rows]) for column in sorted(self.labels)]
        own = (column for column, cells in columns if len({*cells}) == len(cells) and not any(map(_YEAR.match, cells)))
        return frozenset(islice(own, 1))

    def key_rows(self, text: str) -> frozenset[int]:
        """List the rows that a text names by a key."""
        keys, words = [(row, column) for row in range(len(self.rows)) for column in self.keys], _words(text)
        return frozenset(row for row, at in keys if self.is_said(self.rows[row][at], at, words, text))

    @lru_cache(maxsize=256)  # noqa: B019  # tables are cached as well
    def named_rows(self, text: str) -> frozenset[int]:
        """List the rows with a label that a text has; the best matches if a text has several labels of one row."""
        words = _words(text)
        fits = [sum(self.is_said(cells[column], column, words, text) for column in self.labels) for cells in self.rows]
        best = max(fits, default=0)
        return frozenset(row for row, fit in enumerate(fits) if fit == best) if best else frozenset()

    @lru_cache(maxsize=256)  # noqa: B019  # as above
    def named_columns(self, text: str) -> frozenset[int]:
        """List the columns of figures whose titles share the most words with a text."""
        words = _words(text) | _words(text.replace("-", ""))  # `e-books` in a column of `ebooks`
        stems = {word[:letters] for word in words for letters in (_STEM - 1, _STEM)}
        fits = {column: len(self.stems(column) & stems) for column in self.columns}
        best = max(fits.values(), default=0)
        return frozenset(column for column, fit in fits.items() if best and fit == best)

    def stems(self, column: int) -> frozenset[str]:
        """List the beginnings of the words of a column's title."""
        return frozenset(word[:_STEM] for word in _words(self.header[column]))

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
        return time or ("" if is_by_row else "before" if _PREVIOUS.search(labels[0]) else "now")

    def are_alternatives(self, column: int, columns: frozenset[int]) -> bool:
        """Whether a column's title repeats another's, or is a year, month or season."""
        groups = (*(group for each in languages().values() for group in each.alternatives), *_TIMES)
        titles = [with_periods(self.header[each].replace("_", " ")).strip() for each in (column, *columns)]
        return any(all(any(one.fullmatch(title) for one in group) for title in titles) for group in groups)

    def in_time(self, columns: frozenset[int]) -> frozenset[int]:
        """Add the columns whose titles differ only in the year; without columns, find the only such group."""
        times = [{time[:_STEM] for time in times_of(title)} for title in self.header]
        titles = [
            frozenset(stem for stem in self.stems(each) - times[each] if not (stem.isdigit() or times_of(stem)))
            for each in range(len(self.header))
        ]
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
        label = _words(cell)
        if not any(map(_YEAR.fullmatch, words)):
            label = frozenset(word for word in label if not _YEAR.fullmatch(word)) or label
        # With another ending, or as the first part of a long word: `Technikmuseum`.
        return bool(label) and all(
            word in words or (len(word) >= _STEM and any(each.startswith(word) for each in words)) for word in label
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


def misplaced(figure: Quantity, claim: str, table: ResultTable) -> tuple[Objection, ...] | None:
    """Describe the row or column of a figure, if a claim names others; None if the figure is absent."""
    at = [cell for cell in table.cells if figure.is_in((cell.quantity,))]
    if not at:
        return None
    if figure.unit and any(cell.quantity.unit == figure.unit for cell in table.cells):
        at = [cell for cell in at if cell.quantity.unit == figure.unit] or at
        if at[0].quantity.unit != figure.unit:
            return (Objection(f"{figure.written} is of another column: {table.header[at[0].column]}."),)
    if figure.noun[:_STEM] and _counts_rows_of(figure, table):
        return ()
    rows, columns = table.named_rows(claim), table.named_columns(claim)
    in_rows = [cell for cell in at if not rows or cell.row in rows]
    of_rows = ([cell for cell in table.cells if (cell.row in rows, cell.column) == (True, each)] for each in columns)
    if not in_rows and not any(figure.is_in(_totals(part)) for part in of_rows if len(rows) > 1):
        reason = f"{figure.written} is of another row: {' | '.join(table.rows[at[0].row])}."
        return (Objection(reason, is_certain=len(rows) == 1),)
    if in_rows and columns and not any(cell.column in columns for cell in in_rows):
        is_of_other_year = table.in_time(columns).issuperset(cell.column for cell in in_rows)
        is_one = len(columns) == len(in_rows) == 1
        reason = f"{figure.written} is of another column: {table.header[in_rows[0].column]}."
        return (Objection(reason, is_certain=is_of_other_year or is_one),)
    return ()


def table_objections(claim: str, tables: Sequence[ResultTable]) -> Iterator[Objection]:
    """Yield what all tables contradict: an extreme, a trend, a statement on all rows, a count or a label."""
    if all(any(_extreme_of(part, table) is False for part in _superlatives(claim, table)) for table in tables):
        is_clear = all(table.named_columns(claim) for table in tables)  # otherwise it may be about something else
        yield Objection("Another row has the most or the least.", is_certain=is_clear)
    for fails, reason in (
        (_runs_against, "The figures run the other way."),
        (_fails_in_rows, "It is not so in each row, or in that row only."),
        (_miscounts_rows, "Another number of rows is so."),
    ):
        if all(fails(claim, table) for table in tables):
            yield Objection(reason, is_certain=True)
    if labels := [label for table in tables if (label := _mislabelled(claim, table))]:
        yield Objection(f"The row that it names has “{labels[0]}”.", is_certain=len(labels) == len(tables))


def _superlatives(claim: str, table: ResultTable) -> list[str]:
    """Split a claim that has several: `most in spring and fewest in autumn`, each with the row that it names."""
    found = [part for part in clauses_of(claim) if sides_of("extremes", part)]
    rows = table.key_rows(claim)
    label = " ".join(table.rows[row][column] for row in rows for column in table.keys if len(rows) == 1)
    return [part if table.named_rows(part) else f"{label} {part}" for part in found] if len(found) > 1 else [claim]


def _extreme_of(claim: str, table: ResultTable) -> bool | None:
    """Whether the one row that a claim names has the most or the least; None if it does not name one row."""
    rows, columns = table.named_rows(claim), table.named_columns(claim)
    sides, speeds = (
        sides_of("extremes", claim),
        frozenset(n for n, words in enumerate(period_words("speed")) if words.search(claim)),
    )
    if len(speeds) == 1 and (times := frozenset(filter(table.is_duration, columns or table.columns))):
        sides, columns = frozenset(1 - side for side in speeds), times  # who is fastest takes least time
    if len(rows) != 1 or len(table.rows) == 1 or not sides:
        return None
    by_column = ([each for each in table.columns[at] if each.row in table.body] for at in columns or table.columns)
    # In a table of years or seasons, it may be the maximum of the row: `Bute had its best score in autumn`.
    by_row = [cell for cell in table.cells if cell.row in rows and table.are_alternatives(cell.column, columns)]
    ends = [end for side, end in enumerate((max, min)) if side in sides or sides <= _EITHER]
    return any(
        not cells or end(cells, key=lambda cell: cell.value).row in rows for cells in by_column for end in ends
    ) or any(by_row and end(by_row, key=lambda cell: cell.value).column in columns for end in ends)


def _runs_against(claim: str, table: ResultTable) -> bool:
    """Whether figures that a claim compares in time differ the other way round: in any row."""
    rows = table.named_rows(claim)
    is_of_all = _counts_rows(claim, table) or sides_of("extent", claim) == frozenset({_ALL})
    parts = [frozenset({row}) for row in table.body] if is_of_all and not rows else []
    return _runs_in_rows(claim, table, rows) or any(_runs_in_rows(claim, table, part) for part in parts)


def _counts_rows(claim: str, table: ResultTable) -> bool:
    """Whether a claim counts all rows: `in the three towns`."""
    return any(len(table.body) in each.digits and each.noun for each in quantities(claim))


def _runs_in_rows(claim: str, table: ResultTable, rows: frozenset[int]) -> bool:
    columns, sides = table.in_time(table.named_columns(claim)), sides_of("direction", claim)
    is_each = is_each_time(claim) or sides_of("extent", claim) == frozenset({_ALL})
    if not sides and is_each_time(claim) and not phrase_in("than", claim):
        sides = sides_of("amount", claim)  # `less every quarter`
    rows = frozenset(range(min(rows), max(rows) + 1) if rows and is_each else rows or range(len(table.rows)))
    chosen = [cell for cell in table.cells if cell.row in rows and (not columns or cell.column in columns)]
    is_by_row = len({cell.column for cell in chosen}) == 1
    order = [table.time_of(cell, is_by_row=is_by_row) for cell in chosen]
    is_clear = len(chosen) == len({*order} - {""}) >= 2 and len(sides) == 1
    if not is_clear or is_negated(claim) or sides_of("extremes", claim):
        return False
    values = [value for _, value in sorted(zip(order, (cell.value for cell in chosen), strict=True))]
    pairs = pairwise(values) if is_each else [(values[0], values[-1])]
    return any(first > last if 0 in sides else 1 in sides and first < last for first, last in pairs)


def _fails_in_rows(claim: str, table: ResultTable) -> bool:
    """Whether rows contradict what a claim says about all of them, none, or the only one that it names."""
    rows, columns, extents = table.named_rows(claim), table.named_columns(claim), sides_of("extent", claim)
    is_only = bool(phrase_in("only", claim)) and len(rows) == 1
    is_of_all = not rows and extents in (frozenset({_ALL}), frozenset({_NONE}))
    if not (is_only or is_of_all) or sides_of("extremes", claim):
        return False
    column = {cell.row: cell.value for cell in table.cells if cell.row in table.body and cell.column in columns}
    bounds = [each for each in quantities(claim) if not (each.is_year or each.values <= {Decimal(1)})]
    before = claim[max(bounds[0].start - BOUND, 0) : bounds[0].start] if bounds else claim
    amounts = sides_of("amount", before, spoken_in(claim))
    if len(columns) != 1 or len(bounds) > 1 or len(amounts) != len(bounds) or (not bounds and all(column.values())):
        return False
    if bounds:
        bound = max((value for value in bounds[0].values if isinstance(value, Decimal)), default=Decimal(0))
        holds = frozenset(row for row, value in column.items() if (value > bound if 0 in amounts else value < bound))
    else:
        holds = frozenset(row for row, value in column.items() if (not value) == (is_only and is_negated(claim)))
    if is_only:
        return holds != rows
    return bool(holds) if _NONE in extents else not (holds == frozenset(column) or is_negated(claim))


def _miscounts_rows(claim: str, table: ResultTable) -> bool:
    """Whether a claim states a wrong number of rows with a label: `Three orchards grow Discovery`."""
    counts = [each for each in quantities(claim) if not each.is_year]
    rows, subjects = table.named_rows(claim), ("amount", "direction", "extremes", "order")
    is_plain = len(counts) == 1 and _counts_rows_of(counts[0], table) and not table.key_rows(claim)
    if not rows or not is_plain or is_negated(claim) or any(sides_of(each, claim) for each in subjects):
        return False
    return not table.named_columns(claim) and not counts[0].digits & {len(rows), len(table.body)}


def _mislabelled(claim: str, table: ResultTable) -> str:
    """Return the label of the one row that a claim names by its key, if the claim has another row's label."""
    rows, subjects = table.key_rows(claim), ("amount", "order", "extremes", "extent")
    is_compared = any(sides_of(each, claim) for each in subjects) or any(
        phrase_in(each, claim) for each in ("than", "only")
    )
    if len(rows) != 1 or is_compared or is_negated(claim) or _CLAUSES.search(claim):
        return ""
    [own], words = (table.rows[row] for row in rows), _words(claim)
    for column in table.labels - table.keys:
        said = {cell for cell in {cells[column] for cells in table.rows} if table.is_said(cell, column, words, claim)}
        is_named = any(_words(cell) <= _words(" ".join(own)) for cell in said)
        if said and not is_named and not all(_YEAR.fullmatch(cell) for cell in said):
            return own[column]
    return ""


def _counts_rows_of(figure: Quantity, table: ResultTable) -> bool:
    """Whether a figure precedes the title of labels, so that it counts what these name."""
    noun, titles = _plain(figure.noun), {stem for column in table.labels for stem in table.stems(column)}
    return any(noun.startswith(stem) for stem in titles if len(stem) > 2)


def is_unclear(figure: Quantity, table: ResultTable) -> bool:
    """Whether a figure is from a cell with an ambiguous thousands mark, or computed from such cells."""
    at = [cell for cell in table.cells if figure.is_in((cell.quantity,))] or table.cells
    is_open = any(len(cell.quantity.digits) > 1 for cell in at)
    return is_open and not (figure.is_word or _counts_rows_of(figure, table))


def is_computed_from(figure: Quantity, claim: str, table: ResultTable) -> bool:
    """Whether a figure is the sum, mean, count, difference, ratio or share of what the claim names."""
    totals, parts = _computed(claim, table)
    return figure.is_in(totals) or any(is_derived(figure, each) for each in parts)


def is_alien(figure: Quantity, claim: str, table: ResultTable) -> bool:
    """Whether a figure of rows is not a cell, sum, or difference, ratio or share of any two of a row or a column."""
    is_of_rows = table.named_rows(claim) or TOGETHER.search(claim) or _counts_rows(claim, table)
    if len(table.cells) > _MOST_REPEATED or not is_of_rows:
        return False
    lines = [[cell for cell in table.cells if cell.row == each] for each in range(len(table.rows))]
    parts = [[*(cell.quantity for cell in part), *_totals(part)] for part in (*table.columns.values(), *lines) if part]
    return all(len(cell.quantity.digits) == 1 for cell in table.cells) and not any(
        figure.is_in(each) or is_derived(figure, each) for each in parts
    )


@lru_cache(maxsize=64)
def _computed(claim: str, table: ResultTable) -> tuple[list[Quantity], list[list[Quantity]]]:
    """Compute the sums, means and counts of what a claim names, and list figures that it may compare."""
    rows, columns = table.named_rows(claim), table.named_columns(claim) or frozenset(table.columns)
    named = [cell for cell in table.cells if not rows or cell.row in rows]
    parts = [[cell for cell in part if not rows or cell.row in rows] for part in table.columns.values()]
    totals = [(part[0].column, _totals(part)) for part in (*table.columns.values(), *parts) if part]
    sums = [total for column, (total, *_) in totals if column in columns]
    whole = [each for column, total in totals for each in (total if column in columns else total[-1:])]
    if sums and TOGETHER.search(claim) and len(rows) != 1:  # a remainder of a sum is not one
        return whole, []
    chosen = [cell.quantity for cell in named if cell.column in columns][:_MOST_PAIRED]
    each_row = [[cell.quantity for cell in named if cell.row == row] for row in sorted(rows)[:_MOST_PAIRED]]
    return whole, [[*sums, *chosen], *each_row]


def _totals(cells: Sequence[Cell]) -> list[Quantity]:
    """Compute sum, mean and count of a column, in which one row may be the total of the others."""
    values = [cell.value for cell in cells]
    whole, most = sum(values, Decimal(0)), max(values)
    sums = (most, whole) if most * 2 == whole else (whole,)
    return [
        *(
            replace(cells[0].quantity, digits=frozenset({value}), scale=Decimal(1))
            for value in (*sums, whole / len(values))
        ),
        Quantity("", frozenset({Decimal(len(values))})),
    ]


def _measure(title: str) -> Quantity:
    """Read unit and scale from the title of a column: `sales_meur`, `level_cm`; for `eur_kg`, that of euros."""
    words = [word.casefold() for word in TOKEN.findall(title.replace("_", " ")) if not _YEAR.fullmatch(word)]
    scales = [(word, factor) for word in words for factor in factors_of(word) if len(word) > 1]
    words = [word for word in words if word not in dict(scales)]
    words = words[: words.index("per")] if "per" in words else words
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
def _words(text: str) -> frozenset[str]:
    return frozenset(TOKEN.findall(_plain(with_periods(text))))


def _plain(text: str) -> str:
    bare = "".join(mark for mark in unicodedata.normalize("NFD", text) if not unicodedata.combining(mark))
    return re.sub(r"(?<=[aou])e", "", bare.casefold()).replace("_", " ")  # ä is a or ae
