"""Put lines that run across the columns of a page into the order in which they are read."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

_LEAST_LINES: Final = 3
_LEAST_CHARACTERS: Final = 25
"""Of a column's longest line; the cells of tables are mostly shorter."""
_FULL: Final = 0.7
"""Share of its longest line that most lines of a column have."""
_WIDE: Final = 0.7
"""The least space between columns, as a share of the height of their letters; words stand closer."""
BoxAt = Callable[[int], tuple[float, float, float, float]]
"""Where a character stands: its left, lower, right and upper edge, in points from the page's lower left corner."""


class Span(NamedTuple):
    """Where a line begins and ends in the text of its page."""

    start: int
    end: int


def reading_order(text: str, lines: Sequence[Span], box_at: BoxAt) -> list[Span]:
    """Cut lines that run across columns, and order them column by column; rows of tables stay as they are."""
    ordered, first = list[Span](), 0
    while first < len(lines):
        pairs = [*_beside(text, lines[first:], box_at)]
        left, right = ([pair[side] for pair in pairs if pair[side].end] for side in (0, 1))
        after = first + (len(pairs) or 1)
        is_prose = _is_prose(left) and _is_prose(right)
        ordered += [*left, *reading_order(text, right, box_at)] if is_prose else lines[first:after]
        first = after
    return ordered


def _is_prose(lines: Sequence[Span]) -> bool:
    lengths = [line.end - line.start for line in lines]
    full = sum(length >= _FULL * max(lengths) for length in lengths)
    return len(lines) >= _LEAST_LINES and max(lengths) >= _LEAST_CHARACTERS and 2 * full >= len(lines)


def _beside(text: str, lines: Sequence[Span], box_at: BoxAt) -> Iterator[tuple[Span, Span]]:
    """Part lines at the gap of the first, as long as they follow each other on either side of it."""
    low, high, below, nothing = 0.0, float("inf"), float("inf"), Span(0, 0)
    for line in lines:
        left, bottom, _, top = box_at(line.start)
        right, height = box_at(line.end - 1)[2], top - bottom
        spaces = (at for at in range(line.start + 1, line.end - 1) if text[at] == " ")
        gaps = ((at, box_at(at - 1)[2], box_at(at + 1)[0]) for at in spaces)
        gap = next(
            (each for each in gaps if each[2] - each[1] > _WIDE * height and each[1] < high and low < each[2]), None
        )
        if gap is not None:
            low, high = max(low, gap[1]), min(high, gap[2])
            yield Span(line.start, gap[0]), Span(gap[0] + 1, line.end)
        elif below - top > height or (left <= low and right >= high):
            return
        else:
            yield (line, nothing) if right < high else (nothing, line)
        below = bottom
