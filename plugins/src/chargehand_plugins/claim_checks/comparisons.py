"""Comparisons in claims about tables: which figures a claim says are more, or less, than others. Pure."""

import re
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final, NamedTuple

from chargehand_plugins.claim_checks.periods import period_words, times_of, with_periods
from chargehand_plugins.claim_checks.quantities import quantities
from chargehand_plugins.claim_checks.table_figures import TOGETHER
from chargehand_plugins.claim_checks.tables import ResultTable
from chargehand_plugins.claim_checks.words import is_negated, sides_of
from workflows.rules.citation_checks import Objection
from workflows.rules.claim_words import languages, spoken_in

_RATIO: Final = 8
"""Number of characters after `than` in which a figure makes it a bound or a ratio."""
_NEXT_WORDS: Final = 5
"""Number of words after `exceeds` that are searched for the exceeded thing."""
_Places = frozenset[int]


class _Part(NamedTuple):
    """A part of a claim that contains one comparative word."""

    is_more: bool
    kind: str
    """`amount`; `speed`, where more means less time; or `unsure`, which may mean either."""
    before: str
    inner: str
    """The text between the comparative word and `than`."""
    behind: str | None
    """The text after `than`; None if there is none."""


def comparison_objections(claim: str, tables: Sequence[ResultTable]) -> Iterator[Objection]:
    """Object if figures that a claim compares differ in the opposite direction."""
    if is_negated(claim) or sides_of("extremes", claim) or TOGETHER.search(claim):
        return
    text, codes = with_periods(claim), spoken_in(claim)
    fails = [next(filter(None, ([*_failures(text, table, each)] for each in codes)), list[bool]()) for table in tables]
    if fails and all(fails):
        yield Objection("The figures in its source compare the other way.", is_certain=all(any(each) for each in fails))


def _failures(text: str, table: ResultTable, code: str) -> Iterator[bool]:
    """Yield, for each comparison that fails, whether the failure is certain.

    The thing compared comes before the comparative word, the other one after `than`. What a second comparison does not
    name is taken from the first: `more than A in spring, but less in summer`.
    """
    cells = {(cell.row, cell.column): cell.value for cell in table.cells}
    is_each = 0 in sides_of("extent", text, (code,))
    left, right, columns = _Places(), _Places(), _Places()
    for part in _parts(text, code, frozenset(table.names.split())):
        left = table.named_rows(f"{part.before} {'' if part.behind is None else part.inner}") or left
        next_words = " ".join(re.split("[,;:]", part.inner)[0].split()[:_NEXT_WORDS])
        others = table.named_rows(next_words if part.behind is None else part.behind) - left
        others = (table.at_other_times(left) & others) or others  # `more than in 2021`
        right = others if others or part.behind is not None else right
        there = frozenset(each for each in table.columns if part.kind != "speed" or table.is_duration(each))
        own = table.named_columns(f"{part.before} {part.inner}") & there
        other_columns = table.named_columns(part.behind or "") & there
        pairs, is_list = _pairs(own, other_columns, table, columns or there if right else _Places())
        rows = left or (frozenset(table.body) - right if is_each else left)
        compared = product(product(rows, right) if right else ((row, row) for row in rows), pairs)
        ends = [((row, one), (other, two)) for (row, other), (one, two) in compared]
        is_more = part.is_more is (part.kind != "speed")
        failures = [
            (cells[a] > cells[b]) is not is_more or cells[a] == cells[b] for a, b in ends if {a, b} <= cells.keys()
        ]
        is_all = is_each and not (left and (is_list or columns))
        if not _is_bound(part) and any(failures) and (is_list or columns or is_all or all(failures)):
            is_sure = part.kind != "unsure" and bool(own or other_columns or part.behind or not columns)
            yield is_sure and (is_all or (all(failures) and bool(is_list or columns)))
        columns = own or other_columns or columns


def _parts(text: str, code: str, names: frozenset[str]) -> Iterator[_Part]:
    phrases, marks = languages()[code].phrases, list[tuple[int, int, bool, str]]()
    words = {
        "amount": languages()[code].sides["amount"],
        "unsure": period_words("unsure"),
        "speed": period_words("speed"),
    }
    for kind, sides in words.items():
        matches = ((match, not side) for side, pattern in enumerate(sides) for match in pattern.finditer(text))
        marks += [(match.start(), match.end(), is_more, kind) for match, is_more in matches if match[0] not in names]
    clause = re.compile(rf"[,;:](?!\d)|{phrases['but'].pattern}|{phrases['also'].pattern}", re.IGNORECASE)
    marks.sort()
    before = text[: marks[0][0]] if marks else ""
    for number, (_, end, is_more, kind) in enumerate(marks, start=1):
        part, after = text[end:], ""
        if number < len(marks):
            part = text[end : marks[number][0]]
            for last in [*clause.finditer(part)][-1:]:
                part, after = part[: last.start()], part[last.end() :]
        inner, *behind = phrases["than"].split(part, maxsplit=1)
        yield _Part(is_more, kind, before, inner, behind[-1] if behind else None)
        before = after


def _is_bound(part: _Part) -> bool:
    """Whether a figure follows `than`, unless it is a ratio of the same direction: `more than twice as many`."""
    behind = part.behind or ""
    figures = [each for each in quantities(behind) if each.start < _RATIO and not each.is_year]
    is_ratio = part.is_more and all(each.unit == "times" for each in figures)
    return any(each.is_word or behind.lstrip()[:1].isdigit() for each in figures) and not is_ratio


def _pairs(own: _Places, theirs: _Places, table: ResultTable, others: _Places) -> tuple[list[tuple[int, int]], bool]:
    """Pair the columns named before and after `than`; to compare rows, pair each column with itself."""
    if not others:
        return [(one, other) for one in sorted(own - theirs) for other in _nearest(theirs - own, one, table)], True
    chosen = own & theirs or own or theirs or others
    is_list = bool(own or theirs) and all(times_of(table.header[each]) for each in chosen)
    return [(each, each) for each in sorted(chosen)], len(chosen) == 1 or is_list  # otherwise one of several is meant


def _nearest(columns: _Places, one: int, table: ResultTable) -> list[int]:
    """List the columns whose titles share most words with another's, such as the same one of another year."""
    fits = {column: len(table.stems(column) & table.stems(one)) for column in sorted(columns)}
    return [column for column, fit in fits.items() if fit == max(fits.values())]
