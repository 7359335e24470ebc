"""Figures of a claim about a table: whether each is from the row and column that it names, or computed from them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise, product
from typing import Final

from chargehand_plugins.claim_checks.periods import period_words
from chargehand_plugins.claim_checks.quantities import Quantity, all_units, is_derived, quantities
from chargehand_plugins.claim_checks.steps import BY, FROM, TO, steps_of
from chargehand_plugins.claim_checks.tables import Cell, ResultTable, plain, words_in
from chargehand_plugins.claim_checks.words import clauses_of, is_each_time, is_negated, phrase_in, sides_of
from workflows.rules.citation_checks import Objection
from workflows.rules.claim_words import spoken_in

TOGETHER: Final = re.compile(
    r"\b(?:together|combined|zusammen|insgesamt|ensemble|junt[oa]s|insieme|samen|razem|łącznie|tillsammans"
    r"|(?:in|au|en) totale?)\b",
    re.IGNORECASE,
)
_MEAN: Final = re.compile(
    r"(?<![^\W_])(?:averag\w+|mean|durchschn\w+|mittel|moyenn\w+|medi[ao]|médi[ao]|gemiddeld\w*|średni\w*)(?![^\W_])",
    re.IGNORECASE,
)
_YEAR: Final = re.compile(r"(?:1[89]|20)\d\d")
_MOST_PAIRED: Final = 8
"""Maximum figures that are combined in pairs; with more, any figure would arise by chance."""
_MOST_REPEATED: Final = 60
"""Maximum cells of a table for which all possible computations are made."""
_STEM: Final = 5
_EITHER: Final = frozenset({2, 3})
"""Positions, in the list of extremes, of words for either end of a column."""
_ALL, _NONE = 0, 2
"""Positions in the list of extents."""
BOUND: Final = 20
"""Number of characters before a figure in which `exceeds` or `less than` makes it a bound."""
_CLAUSES: Final = re.compile(r"[,;:](?!\d)")
_PART_END: Final = re.compile(r"[,;:](?!\d)|(?<![\d.,])(?!(?:1[89]|20)\d\d\b)\d[\d.,]*")
_RATE: Final = re.compile(rf"\b(?:per|pro|je|par|por|na|al)\W+(?:{all_units()})(?!\w)", re.IGNORECASE)


def misplaced(figure: Quantity, claim: str, table: ResultTable) -> tuple[Objection, ...] | None:
    """Describe the row or column of a figure, if a claim names others; None if the figure is absent."""
    at = [cell for cell in table.cells if figure.is_in((cell.quantity,))]
    if not at or (figure.noun[:_STEM] and _counts_rows_of(figure, table)):
        return () if at else None
    if figure.unit and any(cell.quantity.unit == figure.unit for cell in table.cells):
        at = [cell for cell in at if cell.quantity.unit == figure.unit] or at
        if at[0].quantity.unit != figure.unit:
            return (Objection(f"{figure.written} is in another column: {table.header[at[0].column]}."),)
    rows, columns = table.named_rows(claim), table.named_columns(claim)
    if (figure, FROM) in steps_of(claim):
        rows |= table.at_other_times(rows)
    in_rows = [cell for cell in at if not rows or cell.row in rows]
    of_rows = ([cell for cell in table.cells if (cell.row in rows, cell.column) == (True, each)] for each in columns)
    if not in_rows and not any(figure.is_in(_totals(part)) for part in of_rows if len(rows) > 1):
        reason = f"{figure.written} is in another row: {' | '.join(table.rows[at[0].row])}."
        return (Objection(reason, is_certain=len(rows) == 1),)
    return (*_of_other_column(figure, claim, table, in_rows), *_of_one_row(figure, claim, table))


def _of_other_column(figure: Quantity, claim: str, table: ResultTable, at: Sequence[Cell]) -> Iterator[Objection]:
    """Yield the column of a figure if a claim names others, and not for other figures."""
    rows, columns = table.named_rows(claim), table.named_columns(claim)
    others = [each for each in quantities(claim) if each.start != figure.start]
    part = [cell for cell in table.cells if cell.column in columns and (not rows or cell.row in rows)]
    taken = {cell.column for cell in part if any(each.is_in((cell.quantity,)) for each in others)}
    is_named = any(plain(figure.noun)[:_STEM] in table.stems(each) for each in columns)
    if at and not any(cell.column in columns for cell in at) and (is_named or not columns <= taken):
        is_of_other_year = table.in_time(columns).issuperset(cell.column for cell in at)
        is_one = len(columns) == len(at) == 1
        reason = f"{figure.written} is in another column: {table.header[at[0].column]}."
        yield Objection(reason, is_certain=is_of_other_year or is_one)


def _of_one_row(figure: Quantity, claim: str, table: ResultTable) -> Iterator[Objection]:
    """Object to a figure of one row that a claim has as the mean or sum of several."""
    around = _around(figure, claim)
    is_of_all = TOGETHER.search(around) or (_MEAN.search(around) and not any(map(_MEAN.search, table.header)))
    scope = table.in_scope(claim, around)
    if is_of_all and len(scope) > 1 and not figure.is_in(_compute(claim, table, scope)[0]):
        yield Objection(f"{figure.written} is the figure of a single row.")


def table_objections(claim: str, tables: Sequence[ResultTable]) -> Iterator[Objection]:
    """Yield what all tables contradict: an extreme, a trend, a statement on all rows, a count or a label."""
    if all(any(_extreme_of(part, table) is False for part in _superlatives(claim, table)) for table in tables):
        is_clear = all(table.named_columns(claim) for table in tables)  # otherwise it may be about something else
        yield Objection("Another row has the highest or lowest value.", is_certain=is_clear)
    for fails, reason in (
        (_runs_against, "The figures run the other way."),
        (_differs_by_none, "It is what a figure becomes, not what it differs by."),
        (_fails_in_rows, "It is not so in each row, or in that row only."),
        (_miscounts_rows, "Another number of rows is so."),
    ):
        if all(fails(claim, table) for table in tables):
            yield Objection(reason, is_certain=True)
    if all(_is_of_other_year(claim, table) for table in tables):
        yield Objection("The row that it names is for another year.")
    if labels := [label for table in tables if (label := _wrong_label(claim, table))]:
        yield Objection(f"The row that it names has “{labels[0]}”.", is_certain=len(labels) == len(tables))


def _superlatives(claim: str, table: ResultTable) -> list[str]:
    """Split a claim that has several: `most in spring and fewest in autumn`, each with the row that it names."""
    parts = [part for part in clauses_of(claim) if sides_of("extremes", part)]
    rows = table.key_rows(claim)
    label = " ".join(table.rows[row][column] for row in rows for column in table.keys if len(rows) == 1)
    return [part if table.named_rows(part) else f"{label} {part}" for part in parts] or [claim]


def _extreme_of(claim: str, table: ResultTable) -> bool | None:
    """Whether the one row that a claim names has the most or the least; None if it does not name one row."""
    rows, columns = table.named_rows(claim), table.named_columns(claim)
    sides, speeds = (
        sides_of("extremes", claim),
        frozenset(n for n, words in enumerate(period_words("speed")) if words.search(claim)),
    )
    if len(speeds) == 1 and (times := frozenset(filter(table.is_duration, columns or table.columns))):
        sides, columns = frozenset(1 - side for side in speeds), times  # the fastest takes the least time
    if len(rows) != 1 or len(table.rows) == 1 or not sides:
        return None
    there = table.in_scope(claim, "").intersection(table.body)
    there = there if len(there) > 1 else table.body
    by_column = ([each for each in table.columns[at] if each.row in there] for at in columns or table.columns)
    # In a table of years or seasons, it may be the maximum of the row: `Bute had its best score in autumn`.
    by_row = [cell for cell in table.cells if cell.row in rows and table.are_alternatives(cell.column, columns)]
    ends = [end for side, end in enumerate((max, min)) if side in sides or sides <= _EITHER]
    return any(
        not cells or end(cells, key=lambda cell: cell.value).row in rows for cells in by_column for end in ends
    ) or any(by_row and end(by_row, key=lambda cell: cell.value).column in columns for end in ends)


def _runs_against(claim: str, table: ResultTable) -> bool:
    """Whether figures that a claim compares in time differ in the opposite direction, in any row."""
    rows = table.named_rows(claim)
    is_of_all = _counts_rows(claim, table) or sides_of("extent", claim) == frozenset({_ALL})
    parts = [frozenset({row}) for row in table.body] if is_of_all and not rows else []
    return any(_runs_in_rows(claim, table, part) for part in (rows, *parts)) or _runs_back(claim, table)


def _runs_back(claim: str, table: ResultTable) -> bool:
    """Whether a claim goes from a later figure to an earlier one: `from 31 in 2024 to 24 in 2023`."""
    rows = table.at_other_times(table.named_rows(claim)) or frozenset(range(len(table.rows)))
    for (one, first), (other, second) in pairwise(each for each in steps_of(claim) if each[1] in {FROM, TO}):
        start, end = (one, other) if first == FROM else (other, one)
        ends = [
            [each for each in table.cells if each.row in rows and it.is_in((each.quantity,))] for it in (start, end)
        ]
        times = [
            [table.time_of(each, is_by_row=a.column == b.column) for each in (a, b)]
            for a, b in product(*ends)
            if (a.column == b.column and b.row in table.at_other_times(frozenset({a.row}))) or a.row == b.row
        ]
        if first != second and times and all(before > after != "" for before, after in times):
            return True
    return False


def _differs_by_none(claim: str, table: ResultTable) -> bool:
    """Whether a claim has something differ by a figure that is what it becomes."""
    rows = table.at_other_times(table.named_rows(claim)) or frozenset(range(len(table.rows)))
    for figure in (each for each, step in steps_of(claim) if step == BY):
        at = [cell for cell in table.cells if figure.is_in((cell.quantity,)) and cell.row in rows]
        is_change = any(
            cell.quantity.unit in {"percent", "point"}
            or sides_of("direction", table.header[cell.column].replace("_", " "))
            for cell in at
        )
        columns = table.in_time(frozenset(cell.column for cell in at))
        alike = [cell.quantity for cell in table.cells if cell.row in rows and cell.column in columns]
        if at and not is_change and not is_derived(figure, alike):
            return True
    return False


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
    """Whether a claim states a wrong number of rows that have a label: `Three orchards grow Discovery`."""
    counts = [each for each in quantities(claim) if not each.is_year]
    rows, subjects = table.named_rows(claim), ("amount", "direction", "extremes", "order")
    is_plain = len(counts) == 1 and _counts_rows_of(counts[0], table) and not table.key_rows(claim)
    if not rows or not is_plain or is_negated(claim) or any(sides_of(each, claim) for each in subjects):
        return False
    return not table.named_columns(claim) and not counts[0].digits & {len(rows), len(table.body)}


def _wrong_label(claim: str, table: ResultTable) -> str:
    """Return the label of the one row that a claim names by its key, if the claim has another row's label."""
    rows, subjects = table.key_rows(claim), ("amount", "order", "extremes", "extent")
    is_compared = any(sides_of(each, claim) for each in subjects) or any(
        phrase_in(each, claim) for each in ("than", "only")
    )
    if len(rows) != 1 or is_compared or is_negated(claim) or _CLAUSES.search(claim):
        return ""
    [own], words = (table.rows[row] for row in rows), words_in(claim)
    for column in table.labels - table.keys:
        values = {cell for cell in {cells[column] for cells in table.rows} if table.is_said(cell, column, words, claim)}
        is_named = any(words_in(cell) <= words_in(" ".join(own)) for cell in values)
        if values and not is_named and not all(_YEAR.fullmatch(cell) for cell in values):
            return own[column]
    return ""


def _is_of_other_year(claim: str, table: ResultTable) -> bool:
    """Whether a claim names one row by its key, and only years of other rows."""
    rows, words = table.key_rows(claim), words_in(claim)
    columns = [
        [(row, cells[at]) for row, cells in enumerate(table.rows)] for at in table.labels & table.times - table.keys
    ]
    said = [(row in rows, year) for column in columns for row, year in column if year in words]
    return len(rows) == 1 and bool(said) and not any(is_own for is_own, _ in said)


def _counts_rows_of(figure: Quantity, table: ResultTable) -> bool:
    """Whether a figure precedes the title of a label column, and therefore counts what its labels name."""
    noun, titles = plain(figure.noun), {stem for column in table.labels for stem in table.stems(column)}
    return any(noun.startswith(stem) for stem in titles if len(stem) > 2)


def is_unclear(figure: Quantity, table: ResultTable) -> bool:
    """Whether a figure is from a cell with an ambiguous thousands mark, or computed from such cells."""
    at = [cell for cell in table.cells if figure.is_in((cell.quantity,))] or table.cells
    is_open = any(len(cell.quantity.digits) > 1 for cell in at)
    return is_open and not (figure.is_word or _counts_rows_of(figure, table))


def is_computed_from(figure: Quantity, claim: str, table: ResultTable) -> bool:
    """Whether a figure is the sum, mean, count, difference, ratio or share of what the claim names."""
    totals, parts = _compute(claim, table, table.in_scope(claim, _around(figure, claim)))
    if _RATE.search(claim):  # of tonnes and hectares: 3.3 tonnes per hectare
        figure, parts = _bare(figure), [[*map(_bare, each)] for each in parts]
    return figure.is_in(totals) or any(is_derived(figure, each) for each in parts)


def _around(figure: Quantity, claim: str) -> str:
    """Return what stands around a figure: behind the one before it, up to the next one or the end of its clause."""
    before = max((mark.end() for mark in _PART_END.finditer(claim, 0, figure.start) if mark[0][0].isdigit()), default=0)
    behind = _PART_END.search(claim, figure.start + len(figure.written))
    return claim[before : behind.start() if behind else len(claim)]


def _bare(figure: Quantity) -> Quantity:
    return replace(figure, unit="", size=Decimal(1), noun="")


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
def _compute(claim: str, table: ResultTable, scope: frozenset[int]) -> tuple[list[Quantity], list[list[Quantity]]]:
    """Compute the sums, means and counts of what a claim names, and list figures that it may compare."""
    rows, columns = table.named_rows(claim), table.named_columns(claim) or frozenset(table.columns)
    named = [cell for cell in table.cells if not rows or cell.row in rows]
    parts = [
        [cell for cell in part if cell.row in each]
        for part in table.columns.values()
        for each in (scope, rows or scope)
    ]
    totals = [(part[0].column, _totals(part)) for part in parts if part]
    wide = [[cell for cell in part if cell.row in table.in_scope(claim, "")] for part in table.columns.values()]
    sums = [_totals(part)[0] for part in wide if part and part[0].column in columns]
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
