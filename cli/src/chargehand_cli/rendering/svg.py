"""Inline SVG drawings: a plan as a graph, and a trace as a timeline. Their markup is in the templates."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from markupsafe import Markup

from chargehand import Step, SubtaskRecord, Trace
from chargehand.failure_causes import error_words
from chargehand_cli.rendering.templating import render
from chargehand_cli.rendering.text import duration, title

_NODE_WIDTH: Final = 250
_NODE_HEIGHT: Final = 88
_COLUMN_STEP: Final = _NODE_WIDTH + 56
_ROW_GAP: Final = 16
_ROW_STEP: Final = _NODE_HEIGHT + _ROW_GAP
_MARGIN: Final = 4
_LANE_WIDTH: Final = 900
_LABELS: Final = 236
_BAR: Final = 14
_BAR_STEP: Final = _BAR + 3
_LANE_PADDING: Final = 8
_AXIS: Final = 26
_MOST_LANES: Final = 200
_NICE_SECONDS: Final = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 86_400)


def plan_graph(records: Sequence[SubtaskRecord]) -> Markup:
    """Draw subtasks and their dependencies from left to right."""
    columns = _columns(records)
    height = max(map(len, columns), default=0) * _ROW_STEP - _ROW_GAP + 2 * _MARGIN
    places: dict[str, tuple[int, int]] = {}
    for number, column in enumerate(columns):
        top = (height - len(column) * _ROW_STEP + _ROW_GAP) // 2
        for row, record in enumerate(column):
            places[record.id] = _MARGIN + number * _COLUMN_STEP, top + row * _ROW_STEP
    edges = [
        (places[before], places[record.id]) for record in records for before in record.depends_on if before in places
    ]
    return render(
        "plan.svg",
        width=len(columns) * _COLUMN_STEP - _COLUMN_STEP + _NODE_WIDTH + 2 * _MARGIN,
        height=height,
        node_width=_NODE_WIDTH,
        node_height=_NODE_HEIGHT,
        nodes=[(record, *places[record.id]) for record in records],
        edges=edges,
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


@dataclass(frozen=True)
class _Scale:
    start: datetime
    end: datetime
    now: datetime
    """When the trace was exported, where running steps end."""

    def x(self, moment: datetime) -> float:
        share = (moment - self.start) / (self.end - self.start)
        return _LABELS + share * (_LANE_WIDTH - _LABELS - 8)

    def span(self, step: Step) -> dict[str, float]:
        """Return the left edge and the width of a step."""
        left = self.x(step.started_at or self.now)
        return {"x": left, "width": self.x(step.ended_at or self.now) - left}


def timeline(trace: Trace) -> Markup:
    """Draw one lane per agent; overlapping bars within a lane are stacked. Empty if nothing has started."""
    lanes = [step for step in trace.steps if step.kind in ("session", "subtask") and step.started_at][:_MOST_LANES]
    starts = [step.started_at for step in lanes if step.started_at]
    if not starts:
        return Markup()
    ends = [step.ended_at or trace.exported_at for step in trace.steps if step.started_at]
    scale = _Scale(min(starts), max(*ends, min(starts) + timedelta(milliseconds=1)), trace.exported_at)
    drawn: list[dict[str, Any]] = []
    y = _AXIS
    for lane in lanes:
        work = [step for step in trace.steps if step.parent == lane.id and step.kind in ("turn", "tool", "other")]
        rows = _stack(work, trace.exported_at)
        bars = [
            {
                "y": y + _LANE_PADDING + number * _BAR_STEP,
                **scale.span(step),
                "step": step,
                "title": _words(step, scale),
            }
            for number, row in enumerate(rows)
            for step in row
        ]
        height = max(1, len(rows)) * _BAR_STEP - 3 + 2 * _LANE_PADDING
        drawn.append({"y": y, "height": height, **scale.span(lane), "step": lane, "label": _label(lane), "bars": bars})
        y += height
    return render("timeline.svg", width=_LANE_WIDTH, height=y, bar_height=_BAR, lanes=drawn, marks=[*_marks(scale)])


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


def _label(lane: Step) -> str:
    if lane.parent is None:
        return "session"
    start, _, instruction = lane.name.partition(": ")
    number = start.partition(" ")[0]
    return title(f"{number} {instruction}" if instruction and len(number) <= 6 else lane.agent, 34)


def _words(step: Step, scale: _Scale) -> str:
    length = (step.ended_at or scale.now) - (step.started_at or scale.now)
    words = [step.name, duration(length), step.state.replace("_", " ")]
    words += [f"attempt {step.attempts}"] if step.attempts > 1 else []
    return " · ".join([*words, *([error_words(step.error)] if step.error else [])])


def _marks(scale: _Scale) -> Iterator[tuple[float, str, str]]:
    """Yield the place of each mark of the axis, how its text is aligned, and the text."""
    total = (scale.end - scale.start).total_seconds()
    step = next((nice for nice in _NICE_SECONDS if total / nice <= 8), total / 8)
    for number in range(int(total / step) + 1):
        x = scale.x(scale.start + timedelta(seconds=number * step))
        yield x, "start" if number == 0 else "end" if x > _LANE_WIDTH - 40 else "middle", _mark(number * step)


def _mark(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:g} s"
    return f"{seconds / 60:g} min" if seconds < 7_200 else f"{seconds / 3600:g} h"
