"""A trace as an inline SVG: one lane an agent at work, time from left to right."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape
from typing import Final

from chargehand.contracts import Step, Trace
from chargehand_cli.rendering.escaping import one_safe_line, safe_text
from chargehand_cli.rendering.text import duration

_WIDTH: Final = 900
_LABELS: Final = 190
_BAR: Final = 14
_LANE_PADDING: Final = 8
_AXIS: Final = 26
_MOST_LANES: Final = 200
_NICE_SECONDS: Final = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 86_400)


@dataclass(frozen=True)
class _Scale:
    start: datetime
    end: datetime
    now: datetime
    """When the trace was taken: what runs ends there."""

    def x(self, moment: datetime) -> float:
        share = (moment - self.start) / (self.end - self.start)
        return _LABELS + share * (_WIDTH - _LABELS - 8)


def timeline(trace: Trace) -> str:
    """Draw what each agent did when; bars that overlap within a lane are stacked."""
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
        f'<svg viewBox="0 0 {_WIDTH} {y + 4:.0f}" width="{_WIDTH}" height="{y + 4:.0f}" role="img" '
        f'aria-label="Time line">{_axis(scale, y)}{"".join(drawn)}</svg>'
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
    """Name a lane by its subtask's id, which begins the summary, and its agent."""
    if lane.parent is None:
        return "session"
    number = lane.name.partition(" ")[0]
    text = f"{number} {lane.agent}" if len(number) <= 6 else lane.agent
    return one_safe_line(text, 26)


def _bar(step: Step, scale: _Scale, top: float) -> str:
    started, ended = step.started_at or scale.now, step.ended_at or scale.now
    colour = "failure" if step.state in ("failed", "timed_out") else step.kind if step.kind != "other" else "waiting"
    words = [step.name, duration(ended - started), step.state]
    words += [f"attempt {step.attempts}"] if step.attempts > 1 else []
    words += [step.error] if step.error else []
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
        anchor = "start" if number == 0 else "end" if x > _WIDTH - 40 else "middle"
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
