"""The notation of figures in cells: their decimal mark, since `1.240` may be more than a thousand. Pure."""

import re
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Final

from chargehand_plugins.claim_checks.quantities import values_of

_FIGURE: Final = re.compile(
    r"(?P<sign>[-−]?)[$€£¥]?\s?(?P<figure>\d{1,3}(?P<mark>[.,'’ \u00a0\u202f])\d{3}(?:(?P=mark)\d{3})*(?:[.,]\d+)?"
    r"|\d+(?:[.,]\d+)?)\s?[%€]?"
)
_TWO_MEANINGS: Final = re.compile(r"[1-9]\d{0,2}[.,]\d{3}")
_OTHER: Final = {".": ",", ",": "."}
DECIMAL_MARKS: Final = {"en": frozenset(".")} | dict.fromkeys(
    ["de", "fr", "es", "it", "pt", "nl", "pl"], frozenset(",")
)
"""By language."""


def decimal_marks(cells: Iterable[str], *, is_column: bool) -> frozenset[str]:
    """Find the decimal marks of figures from their notation; none if that is unclear.

    It is the last mark in `0.875`, `1240.5` and `1,240.50`, but not in `1.240.500`, and any mark after `1'240`. In a
    column with `980`, which otherwise would have decimals too, `1.240` is more than a thousand.
    """
    figures = [match["figure"] for cell in cells if (match := _FIGURE.fullmatch(cell))]
    known, unclear = set[str](), set[str]()
    for figure in figures:
        marks = [mark for mark in figure if not mark.isdigit()]
        if marks and marks[-1] not in _OTHER:
            known |= _OTHER.keys()
        elif marks and marks.count(marks[-1]) > 1:
            known.add(_OTHER[marks[-1]])
        elif marks:
            (unclear if _TWO_MEANINGS.fullmatch(figure) else known).add(marks[-1])
    if is_column and not known and any(map(str.isdigit, figures)):
        known = {_OTHER[mark] for mark in unclear}
    return frozenset(known)


def numbers_in(cell: str, decimals: frozenset[str]) -> frozenset[Decimal]:
    """Read a cell as a number; as both possible numbers if the decimal mark is unknown; otherwise as none."""
    match = _FIGURE.fullmatch(cell)
    if match is None:
        try:
            return frozenset({Decimal(cell)})
        except InvalidOperation:
            return frozenset()
    values = sorted(value for value in values_of(match["figure"]) if isinstance(value, Decimal))
    if len(values) > 1 and (decimals or not _TWO_MEANINGS.fullmatch(match["figure"])):
        mark = next(filter(_OTHER.get, match["figure"]))
        values = values[:1] if mark in decimals or not _TWO_MEANINGS.fullmatch(match["figure"]) else values[1:]
    return frozenset(-value if match["sign"] else value for value in values)
