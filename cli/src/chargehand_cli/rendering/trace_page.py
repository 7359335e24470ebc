"""A trace as a self-contained page: the plan, a time line, and every step with what it was given and gave back."""

from typing import Final

from markupsafe import Markup
from pydantic_core import to_json

from chargehand import Step, Trace
from chargehand.contracts import Recorded
from chargehand_cli.rendering.figures import cost, count, moment, took
from chargehand_cli.rendering.page import Facts, page, render
from chargehand_cli.rendering.svg import timeline

_COLOURS: Final = {"completed": "success", "running": "running"}
_MOST_DEPTH: Final = 6
"""Levels of indentation; deeper steps stand at the last."""


def trace_page(trace: Trace) -> str:
    """Render a trace as a page of its own."""
    depths: dict[str, int] = {}
    for step in trace.steps:  # parents come before children
        depths[step.id] = depths.get(step.parent or "", -1) + 1
    name = trace.steps[0].name if trace.steps else trace.session
    body = render(
        "trace.html",
        name=name,
        facts=_facts(trace),
        timeline=Markup(timeline(trace)),  # noqa: S704  # it escapes what it draws
        steps=[(step, min(depths[step.id], _MOST_DEPTH), _step_facts(step)) for step in _in_order(trace)],
        colours=_COLOURS,
        recorded=recorded_text,
    )
    return page(name, body, session=trace.session)


def _facts(trace: Trace) -> Facts:
    turns = [step for step in trace.steps if step.kind == "turn"]
    spent = sum((step.usage.cost_usd for step in trace.steps), start=trace.steps[0].usage.cost_usd * 0)
    return [
        ("Session", trace.session),
        ("Read", moment(trace.exported_at)),
        ("Work", f"{count(len(turns), 'turn')}, {count(sum(s.kind == 'tool' for s in trace.steps), 'tool call')}"),
        ("Cost", cost(spent)),
    ]


def _in_order(trace: Trace) -> list[Step]:
    """Put every step below its parent, in the order in which they began."""
    below: dict[str, list[Step]] = {}
    for step in trace.steps:
        below.setdefault(step.parent or "", []).append(step)
    ordered: list[Step] = []
    waiting = list(reversed(below.get("", [])))
    while waiting:
        step = waiting.pop()
        ordered.append(step)
        inner = below.pop(step.id, [])
        waiting += sorted(inner, key=lambda each: each.started_at or trace.exported_at, reverse=True)
    return ordered


def _step_facts(step: Step) -> list[str]:
    facts = [
        took(step.started_at, step.ended_at),
        count(step.attempts, "attempt") if step.attempts > 1 else "",
        cost(step.usage.cost_usd) if step.usage.turns else "",
        step.error,
        f"task {step.task_hash}" if step.task_hash else "",
    ]
    return [fact for fact in facts if fact]


def recorded_text(value: Recorded | None) -> str:
    """Show what a tool was given or gave back, or say where it stands if it is large."""
    if value is None:
        return ""
    if value.reference:
        return f"{value.bytes:,} bytes: {value.reference}"
    return to_json(value.value, indent=2, inf_nan_mode="null").decode()
