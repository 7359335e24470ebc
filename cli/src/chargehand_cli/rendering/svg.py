"""Inline SVG drawings: a plan as a graph, and a trace as a timeline."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape
from typing import Final

from chargehand import Step, SubtaskRecord, Trace
from chargehand.failure_causes import error_words
from chargehand_cli.rendering.escaping import one_safe_line, safe_text
from chargehand_cli.rendering.text import duration, in_lines, title, took

_NODE_WIDTH: Final = 250
_NODE_HEIGHT: Final = 88
_NODE_CHARACTERS: Final = 27
_COLUMN_GAP: Final = 56
_ROW_GAP: Final = 16
_MARGIN: Final = 4
_LANE_WIDTH: Final = 900
_LABELS: Final = 236
_BAR: Final = 14
_LANE_PADDING: Final = 8
_AXIS: Final = 26
_MOST_LANES: Final = 200
_NICE_SECONDS: Final = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 86_400)


def plan_graph(records: Sequence[SubtaskRecord]) -> str:
    """Draw subtasks and their dependencies from left to right."""
    columns = _columns(records)
    tallest = max((len(column) for column in columns), default=0)
    height = tallest * (_NODE_HEIGHT + _ROW_GAP) - _ROW_GAP + 2 * _MARGIN
    width = len(columns) * (_NODE_WIDTH + _COLUMN_GAP) - _COLUMN_GAP + 2 * _MARGIN
    places: dict[str, tuple[float, float]] = {}
    for number, column in enumerate(columns):
        used = len(column) * (_NODE_HEIGHT + _ROW_GAP) - _ROW_GAP
        for row, record in enumerate(column):
            x = _MARGIN + number * (_NODE_WIDTH + _COLUMN_GAP)
            y = (height - used) / 2 + row * (_NODE_HEIGHT + _ROW_GAP)
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
    """Place each subtask one column right of its last dependency; members of a cycle go first."""
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
    x1, y1 = start[0] + _NODE_WIDTH, start[1] + _NODE_HEIGHT / 2
    x2, y2 = end[0], end[1] + _NODE_HEIGHT / 2
    bend = max(24, (x2 - x1) / 2)
    path = f"M{x1:.0f} {y1:.0f}C{x1 + bend:.0f} {y1:.0f} {x2 - bend:.0f} {y2:.0f} {x2:.0f} {y2:.0f}"
    return f'<path d="{path}" fill="none" style="stroke:var(--waiting)" stroke-width="1.5"/>'


def _node(record: SubtaskRecord, x: float, y: float) -> str:
    colour = "failure" if record.state == "skipped" else record.state
    name = one_safe_line(f"{record.id} · {record.agent}", 30)
    about = in_lines(title(record.instruction), _NODE_CHARACTERS, 2)
    lines = "".join(
        f'<text x="{x + 16:.0f}" y="{y + 40 + 17 * row:.0f}" font-size="13" font-weight="600">{escape(line)}</text>'
        for row, line in enumerate(about)
    )
    below = " · ".join(filter(None, (record.state, took(record.started_at, record.ended_at))))
    return (
        f'<g><title>{escape(safe_text(record.instruction))}</title><rect x="{x:.0f}" y="{y:.0f}" width="{_NODE_WIDTH}" '
        f'height="{_NODE_HEIGHT}" rx="10" style="fill:var(--quote);stroke:var(--line)"/>'
        f'<rect x="{x:.0f}" y="{y + 10:.0f}" width="4" height="{_NODE_HEIGHT - 20}" rx="2" '
        f'style="fill:var(--{colour})"/>'
        f'<text x="{x + 16:.0f}" y="{y + 21:.0f}" font-size="12" class="small">{escape(name)}</text>{lines}'
        f'<text x="{x + 16:.0f}" y="{y + 76:.0f}" font-size="12" class="small">{escape(below)}</text></g>'
    )


@dataclass(frozen=True)
class _Scale:
    start: datetime
    end: datetime
    now: datetime
    """When the trace was exported, where running steps end."""

    def x(self, moment: datetime) -> float:
        share = (moment - self.start) / (self.end - self.start)
        return _LABELS + share * (_LANE_WIDTH - _LABELS - 8)


def timeline(trace: Trace) -> str:
    """Draw one lane per agent; overlapping bars within a lane are stacked."""
    lanes = [step for step in trace.steps if step.kind in ("session", "subtask") and step.started_at][:_MOST_LANES]
    starts = [step.started_at for step in lanes if step.started_at]
    if not starts:
        return ""
    ends = [step.ended_at or trace.exported_at for step in trace.steps if step.started_at]
    scale = _Scale(min(starts), max(*ends, min(starts) + timedelta(milliseconds=1)), trace.exported_at)
    drawn: list[str] = []
    y = float(_AXIS)
    for lane in lanes:
        work = [step for step in trace.steps if step.parent == lane.id and step.kind in ("turn", "tool", "other")]
        rows = _stack(work, trace.exported_at)
        height = max(1, len(rows)) * (_BAR + 3) - 3 + 2 * _LANE_PADDING
        drawn.append(_lane(lane, rows, scale, y, height))
        y += height
    return (
        f'<svg viewBox="0 0 {_LANE_WIDTH} {y + 4:.0f}" width="{_LANE_WIDTH}" height="{y + 4:.0f}" role="img" '
        f'aria-label="Timeline">{_axis(scale, y)}{"".join(drawn)}</svg>'
    )


def _stack(work: Sequence[Step], now: datetime) -> list[list[Step]]:
    rows: list[list[Step]] = []
    for step in sorted((step for step in work if step.started_at), key=lambda step: step.started_at or now):
        for row in rows:
            if (row[-1].ended_at or now) <= (step.started_at or now):
                row.append(step)
                break
        else:
            rows.append([step])
    return rows


def _lane(lane: Step, rows: Sequence[Sequence[Step]], scale: _Scale, y: float, height: float) -> str:
    begin, end = scale.x(lane.started_at or scale.now), scale.x(lane.ended_at or scale.now)
    label, title = escape(_label(lane)), escape(safe_text(lane.name))
    parts = [
        f'<text x="0" y="{y + height / 2 + 4:.0f}" font-size="12.5"><title>{title}</title>{label}</text>',
        _rectangle(begin, y + 3, end - begin, height - 6, radius=5, colour="track", title=""),
    ]
    for number, row in enumerate(rows):
        top = y + _LANE_PADDING + number * (_BAR + 3)
        parts += [_bar(step, scale, top) for step in row]
    return "".join(parts)


def _label(lane: Step) -> str:
    if lane.parent is None:
        return "session"
    start, _, instruction = lane.name.partition(": ")
    number = start.partition(" ")[0]
    return title(f"{number} {instruction}" if instruction and len(number) <= 6 else lane.agent, 34)


def _bar(step: Step, scale: _Scale, top: float) -> str:
    started, ended = step.started_at or scale.now, step.ended_at or scale.now
    colour = "failure" if step.state in ("failed", "timed_out") else step.kind if step.kind != "other" else "waiting"
    words = [step.name, duration(ended - started), step.state.replace("_", " ")]
    words += [f"attempt {step.attempts}"] if step.attempts > 1 else []
    words += [error_words(step.error)] if step.error else []
    x = scale.x(started)
    return _rectangle(x, top, scale.x(ended) - x, _BAR, radius=3, colour=colour, title=" · ".join(words))


def _rectangle(x: float, y: float, width: float, height: float, *, radius: int, colour: str, title: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(2, width):.1f}" height="{height:.1f}" rx="{radius}" '
        f'style="fill:var(--{colour})"><title>{escape(safe_text(title))}</title></rect>'
    )


def _axis(scale: _Scale, bottom: float) -> str:
    total = (scale.end - scale.start).total_seconds()
    step = next((nice for nice in _NICE_SECONDS if total / nice <= 8), total / 8)
    marks: list[str] = []
    for number in range(int(total / step) + 1):
        x = scale.x(scale.start + timedelta(seconds=number * step))
        anchor = "start" if number == 0 else "end" if x > _LANE_WIDTH - 40 else "middle"
        mark = _mark(number * step)
        marks.append(
            f'<line x1="{x:.1f}" y1="{_AXIS - 6}" x2="{x:.1f}" y2="{bottom:.0f}" style="stroke:var(--line)"/>'
            f'<text x="{x:.1f}" y="14" font-size="11" class="small" text-anchor="{anchor}">{mark}</text>'
        )
    return "".join(marks)


def _mark(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:g} s"
    return f"{seconds / 60:g} min" if seconds < 7_200 else f"{seconds / 3600:g} h"
