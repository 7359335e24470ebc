"""Reports and traces as HTML: an embeddable body, and a self-contained page that runs and loads nothing.

A session without a report (running, waiting, failed or cancelled) has such a page as well.
"""

import json
from collections.abc import Iterable
from datetime import timedelta
from decimal import Decimal
from functools import cache
from importlib import resources
from typing import Any, Final

from markupsafe import Markup
from pydantic_core import to_json

from chargehand import LimitUse, Report, Source, Status, Step, SubtaskRecord, Trace
from chargehand.contracts import Recorded, Verification
from chargehand.failure_causes import error_words
from chargehand.state_words import ENDED, NO_REPORT
from chargehand_cli.rendering.attachments import Attachments
from chargehand_cli.rendering.cited_passages import Passage
from chargehand_cli.rendering.escaping import is_web_address, one_safe_line
from chargehand_cli.rendering.markdown import marked, safe_html, text_fragment
from chargehand_cli.rendering.progress import record_reason
from chargehand_cli.rendering.svg import plan_graph, timeline
from chargehand_cli.rendering.templating import UNKNOWN_LANGUAGE, render
from chargehand_cli.rendering.text import (
    answer_below_notice,
    claim_counts,
    count,
    crew_words,
    dollars,
    duration,
    edit_words,
    moment,
    size,
    took,
    wasted_words,
)

_POLICY: Final = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_VERIFICATION_STATES: Final[dict[Verification, str]] = {
    "contradicted": "state-failure",
    "unsupported": "state-failure",
    "cited": "state-partial",
    "computed": "state-success",
    "supported": "state-success",
}
_NOTHING: Final = Attachments()
_LONGEST_SOURCE_NAME: Final = 100
_LONGEST_TITLE: Final = 160
_SMALL_PLAN: Final = 12
"""Maximum subtasks of a plan that is drawn completely."""
_COLOURS: Final = {"completed": "success", "running": "running"}
_MOST_DEPTH: Final = 6
"""Maximum levels of indentation."""

Facts = list[tuple[str, str]]
"""Pairs of name and value."""


def report_page(report: Report, trace: Trace | None = None, attachments: Attachments = _NOTHING) -> str:
    body = report_body(report, trace, attachments)
    return page(report.goal, body, session=report.session, language=report.language)


def report_body(report: Report, trace: Trace | None = None, attachments: Attachments = _NOTHING) -> Markup:
    """Render a report as an `article` of safe HTML for a page that has `report_style()`."""
    shown = [artifact for artifact in report.artifacts if artifact.uri in attachments.pictures]
    files = {artifact.name: number for number, artifact in enumerate(shown, start=1)}
    return render(
        "report.html",
        report=report,
        attachments=attachments,
        ending=report.ending,
        header=_header(report),
        answer=safe_html(answer_below_notice(report), report.sources, files),
        edits=edit_words(report),
        output="" if report.output is None else json.dumps(report.output, indent=2, ensure_ascii=False),
        others=[artifact for artifact in report.artifacts if artifact.uri not in attachments.pictures],
        download=f"chargehand artifacts {report.session} --to DIR",
        numbers={source.ref: number for number, source in enumerate(report.sources, start=1)},
        sources=[_source(each, report, attachments) for each in report.sources],
        limits=[_limit(use) for use in report.limits],
        claims=claim_counts(report),
        verification_states=_VERIFICATION_STATES,
        timeline=timeline(trace) if trace else "",
        timing=_timing(report),
        notes=_notes(report),
        about=_about(report),
        **plan_parts(report.subtasks),
        routes=report.routes,
    )


def unfinished_page(status: Status, trace: Trace | None = None, *, problem: str = "", action: str = "") -> str:
    """Render a session's progress, why it has no report, and what to do.

    `problem` is how it failed, `action` what it needs from its user.
    """
    body = render(
        "unfinished.html",
        status=status,
        standing=status.standing,
        ended=status.state in ENDED,
        facts=_status_facts(status),
        problem=problem or (status.failure.cause if status.failure else NO_REPORT[status.state]),
        remedy=action or _remedy(status),
        timeline=timeline(trace) if trace else "",
        **plan_parts(status.subtasks),
        routes=status.routes,
    )
    return page(status.goal, body, session=status.session)


def report_style() -> str:
    """Return the style sheet of `report_body`, scoped to the class `report`."""
    return _style("report.css")


def page(name: str, body: Markup, *, session: str = "", language: str = "") -> str:
    """Wrap safe HTML in a page that loads and runs nothing, with a title in a language."""
    values = {"policy": _POLICY, "title": one_safe_line(name, 80), "body": body, "session": session}
    style = Markup(_style("page.css") + report_style())  # noqa: S704  # our own files
    return render("page.html", style=style, language=language or UNKNOWN_LANGUAGE, **values)


def _known(*facts: tuple[str, str]) -> Facts:
    return [(name, value) for name, value in facts if value]


def _header(report: Report) -> Facts:
    usage = report.usage
    tools = f", {count(usage.tool_calls, 'tool call')}" if usage.tool_calls else ""
    return _known(
        ("Confidence", f"{report.confidence} of 100"),
        ("Claims", claim_counts(report)),
        ("Time", duration(report.timing.wall)),
        ("Work", count(usage.turns, "turn") + tools),
        ("Cost", dollars(usage.cost_usd)),
        ("Model", report.brain),
    )


def _source(source: Source, report: Report, attachments: Attachments) -> dict[str, str]:
    quotes = [claim.quote for claim in report.claims if claim.quote and source.ref in claim.sources]
    is_short = len(source.title) <= _LONGEST_TITLE
    passage = attachments.passages.get(source.ref) or Passage("", source.quote, "")
    words = quotes or ([source.quote] if passage.before or passage.after else [])
    url = source.url or ""
    return {
        "name": one_safe_line(source.about or source.ref, _LONGEST_SOURCE_NAME),
        "title": source.title if is_short and source.title != source.ref.partition("#")[0] else "",
        "more": "" if is_short else source.title,
        "link": text_fragment(url, (quotes or [source.quote])[0]) if is_web_address(url) else "",
        **passage._asdict(),
        "quoted": marked(passage.quoted, words),
    }


def plan_parts(records: Iterable[SubtaskRecord]) -> dict[str, Any]:
    """List all subtasks, and draw their dependencies; of a large plan, only dependent ones."""
    subtasks = list(records)
    needed = {before for record in subtasks for before in record.depends_on}
    linked = [record for record in subtasks if record.depends_on or record.id in needed]
    if linked and len(subtasks) <= _SMALL_PLAN:
        linked = subtasks
    return {
        "graph": plan_graph(linked) if linked else "",
        "records": [(record, took(record.started_at, record.ended_at), _subtask_facts(record)) for record in subtasks],
    }


def _subtask_facts(record: SubtaskRecord) -> list[str]:
    usage = record.usage
    facts = (
        record_reason(record),
        f"after {', '.join(record.depends_on)}" if record.depends_on else "",
        f"confidence {record.confidence} of 100" if record.state in ("success", "partial") else "",
        count(record.attempts, "attempt") if record.attempts > 1 else "",
        f"{count(usage.turns, 'turn')}, {dollars(usage.cost_usd)}" if usage.turns else "",
        wasted_words(record.wasted),
    )
    return list(filter(None, facts))


def _timing(report: Report) -> Facts:
    timing = report.timing
    is_parallel = timing.speed_up >= 1.05
    lengths = {"Start to report": timing.wall}
    if is_parallel:
        lengths["Subtasks one after another"] = timing.subtasks_one_after_another
        lengths["Longest chain of subtasks"] = timing.critical_path
    facts = [(name, duration(length)) for name, length in lengths.items() if length > timedelta(0)]
    return [*facts, ("Speed-up by parallel work", f"{timing.speed_up:.1f}×")] if is_parallel else facts


def _notes(report: Report) -> list[str]:
    notes: list[str] = []
    if report.usage.possibly_billed_twice_usd:
        charged = dollars(report.usage.possibly_billed_twice_usd)
        notes.append(f"{charged} of it is the worst case of calls with an unknown outcome.")
    if wasted := wasted_words(report.wasted):
        notes.append(f"{wasted}: unused attempts, rejected plans and lost calls.")
    if report.reserved_usd:
        notes.append(f"{dollars(report.reserved_usd)} was still reserved when the report was written.")
    return notes


def _about(report: Report) -> Facts:
    return _known(
        ("Session", report.session),
        ("Started", moment(report.timing.started_at)),
        ("Ended", moment(report.timing.ended_at)),
        ("Crew", crew_words(report).removeprefix("crew ")),
        ("Models", ", ".join(sorted(set(report.crew.models.values()))) if report.crew else ""),
    )


def _remedy(status: Status) -> str:
    if status.failure:
        return status.failure.remedy
    if status.state in ENDED:
        return f"To see every step that it took: `chargehand trace {status.session}`"
    return f"To wait for the report: `chargehand watch {status.session}`"


def _status_facts(status: Status) -> Facts:
    turns, spent = f"{status.turns:,}", dollars(status.spent_usd)
    if status.max_turns:  # otherwise it was read without a worker, which knows the limits
        turns, spent = f"{turns} of {status.max_turns:,}", f"{spent} of {dollars(status.budget_usd)}"
    has_spent = bool(status.turns or status.max_turns)
    return _known(
        ("Session", status.session),
        ("Started", moment(status.started_at) if status.started_at else ""),
        ("Deadline", moment(status.deadline_at) if status.deadline_at and status.state not in ENDED else ""),
        ("Turns", turns if has_spent else ""),
        ("Cost", spent if has_spent else ""),
    )


def trace_page(trace: Trace) -> str:
    depths: dict[str, int] = {}
    for step in trace.steps:  # parents come before children
        depths[step.id] = depths.get(step.parent or "", -1) + 1
    name = trace.steps[0].name if trace.steps else trace.session
    body = render(
        "trace.html",
        name=name,
        facts=_trace_facts(trace),
        timeline=timeline(trace),
        steps=[(step, min(depths[step.id], _MOST_DEPTH), _step_facts(step)) for step in _in_order(trace)],
        colours=_COLOURS,
        recorded=recorded_text,
    )
    return page(name, body, session=trace.session)


def _trace_facts(trace: Trace) -> Facts:
    turns = [step for step in trace.steps if step.kind == "turn"]
    spent = sum((step.usage.cost_usd for step in trace.steps), start=Decimal(0))
    return [
        ("Session", trace.session),
        ("Read", moment(trace.exported_at)),
        ("Work", f"{count(len(turns), 'turn')}, {count(sum(s.kind == 'tool' for s in trace.steps), 'tool call')}"),
        ("Cost", dollars(spent)),
    ]


def _in_order(trace: Trace) -> list[Step]:
    """Order steps below their parents by start time."""
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
    facts = (
        took(step.started_at, step.ended_at),
        count(step.attempts, "attempt") if step.attempts > 1 else "",
        dollars(step.usage.cost_usd) if step.usage.turns else "",
        error_words(step.error),
        f"task {step.task_hash}" if step.task_hash else "",
    )
    return list(filter(None, facts))


def recorded_text(value: Recorded | None) -> str:
    """Render a tool's input or result, or its location if it is large."""
    if value is None:
        return ""
    if value.reference:
        return f"{size(value.bytes)}: {value.reference}"
    return to_json(value.value, indent=2, inf_nan_mode="null").decode()


def _limit(use: LimitUse) -> tuple[str, str, int]:
    name = use.limit.removeprefix("max_").removesuffix("_usd").removesuffix("_seconds").replace("_", " ")
    amounts = (use.used, use.allowed)
    if use.limit.endswith("_usd"):
        shown = [dollars(amount) for amount in amounts]
    elif use.limit.endswith("_seconds"):
        shown = [duration(timedelta(seconds=amount)) for amount in amounts]
    else:
        shown = [f"{amount:,.6g}" for amount in amounts]
    return name, " of ".join(shown), round(100 * min(1.0, use.used / use.allowed)) if use.allowed > 0 else 0


@cache
def _style(name: str) -> str:
    return resources.files("chargehand_cli.rendering").joinpath(name).read_text(encoding="utf-8")
