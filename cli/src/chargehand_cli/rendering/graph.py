"""A plan as an inline SVG: one column for each step of the longest way there."""

from collections.abc import Sequence
from html import escape
from typing import Final

from chargehand.contracts import SubtaskRecord
from chargehand_cli.rendering.escaping import one_safe_line, safe_text
from chargehand_cli.rendering.text import duration

_WIDTH: Final = 176
_HEIGHT: Final = 62
_BETWEEN_COLUMNS: Final = 56
_BETWEEN_ROWS: Final = 16
_MARGIN: Final = 4


def plan_graph(records: Sequence[SubtaskRecord]) -> str:
    """Draw subtasks and what they depend on, from left to right."""
    columns = _columns(records)
    tallest = max((len(column) for column in columns), default=0)
    height = tallest * (_HEIGHT + _BETWEEN_ROWS) - _BETWEEN_ROWS + 2 * _MARGIN
    width = len(columns) * (_WIDTH + _BETWEEN_COLUMNS) - _BETWEEN_COLUMNS + 2 * _MARGIN
    places: dict[str, tuple[float, float]] = {}
    for number, column in enumerate(columns):
        used = len(column) * (_HEIGHT + _BETWEEN_ROWS) - _BETWEEN_ROWS
        for row, record in enumerate(column):
            x = _MARGIN + number * (_WIDTH + _BETWEEN_COLUMNS)
            y = (height - used) / 2 + row * (_HEIGHT + _BETWEEN_ROWS)
            places[record.id] = (x, y)
    edges = [
        _edge(places[before], places[record.id])
        for record in records
        for before in record.depends_on
        if before in places
    ]
    nodes = [_node(record, *places[record.id]) for record in records]
    return (
        f'<svg viewBox="0 0 {width} {height:.0f}" width="{width}" height="{height:.0f}" role="img" '
        f'aria-label="Plan with {len(records)} subtasks">{"".join(edges)}{"".join(nodes)}</svg>'
    )


def _columns(records: Sequence[SubtaskRecord]) -> list[list[SubtaskRecord]]:
    """Put each subtask one column right of the last one that it waits for; a cycle would end up in the first."""
    depth: dict[str, int] = {}
    waiting = list(records)
    known = {record.id for record in records}
    while waiting:
        ready = [r for r in waiting if all(before in depth for before in r.depends_on if before in known)]
        for record in ready or waiting:
            before = [depth[each] for each in record.depends_on if each in depth]
            depth[record.id] = max(before, default=-1) + 1
        waiting = [record for record in waiting if record.id not in depth]
    columns: list[list[SubtaskRecord]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for record in records:
        columns[depth[record.id]].append(record)
    return columns


def _edge(start: tuple[float, float], end: tuple[float, float]) -> str:
    x1, y1 = start[0] + _WIDTH, start[1] + _HEIGHT / 2
    x2, y2 = end[0], end[1] + _HEIGHT / 2
    bend = max(24, (x2 - x1) / 2)
    path = f"M{x1:.0f} {y1:.0f}C{x1 + bend:.0f} {y1:.0f} {x2 - bend:.0f} {y2:.0f} {x2:.0f} {y2:.0f}"
    return f'<path d="{path}" fill="none" style="stroke:var(--waiting)" stroke-width="1.5"/>'


def _node(record: SubtaskRecord, x: float, y: float) -> str:
    colour = "failure" if record.state == "skipped" else record.state
    took = duration(record.ended_at - record.started_at) if record.started_at and record.ended_at else ""
    below = " · ".join(part for part in (record.state, took) if part)
    return (
        f'<g><title>{escape(safe_text(record.instruction))}</title><rect x="{x:.0f}" y="{y:.0f}" width="{_WIDTH}" '
        f'height="{_HEIGHT}" rx="10" style="fill:var(--quote);stroke:var(--line)"/>'
        f'<rect x="{x:.0f}" y="{y + 10:.0f}" width="4" height="{_HEIGHT - 20}" rx="2" style="fill:var(--{colour})"/>'
        f'<text x="{x + 16:.0f}" y="{y + 26:.0f}" font-size="14" font-weight="600">{escape(_clipped(record))}</text>'
        f'<text x="{x + 16:.0f}" y="{y + 46:.0f}" font-size="12" class="small">{escape(below)}</text></g>'
    )


def _clipped(record: SubtaskRecord) -> str:
    return one_safe_line(f"{record.id} {record.agent}", 20)
