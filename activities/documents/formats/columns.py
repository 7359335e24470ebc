"""Reading order of pages whose text is set in several columns."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

_LEAST_LINES: Final = 3
_LEAST_CHARACTERS: Final = 25
"""Minimum length of a column's longest line; table cells are mostly shorter."""
_FULL: Final = 0.7
"""Share of the longest line's length that at least half of a column's lines reach."""
_WIDE: Final = 0.7
"""Minimum gap between columns, relative to the height of the letters; gaps between words are smaller."""
BoxAt = Callable[[int], tuple[float, float, float, float]]
"""Bounding box of a character by its index: left, bottom, right, top, in points from the page's lower left corner."""


class Span(NamedTuple):
    """Start and end of a line in the text of its page."""

    start: int
    end: int


def reading_order(text: str, lines: Sequence[Span], box_at: BoxAt) -> list[Span]:
    """Split lines that run across columns of prose, and order them by column; table rows are unchanged."""
    ordered, first = list[Span](), 0
    while first < len(lines):
        pairs = [*_split_at_gap(text, islice(lines, first, None), box_at)]
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


def _split_at_gap(text: str, lines: Iterable[Span], box_at: BoxAt) -> Iterator[tuple[Span, Span]]:
    """Split consecutive lines at the gap of the first one, up to the first line that crosses the gap."""
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
