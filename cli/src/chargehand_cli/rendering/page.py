"""Reports and traces as HTML: an embeddable body, and a self-contained page that runs and loads nothing.

A session without a report (running, waiting, failed or cancelled) has such a page as well.
"""

import json
from collections.abc import Sequence
from datetime import timedelta
from functools import cache
from importlib import resources
from typing import Final

from markupsafe import Markup

from chargehand import LimitUse, Report, Source, Status, Step, SubtaskRecord, Trace
from chargehand.contracts import Verification
from chargehand.state_words import ENDED, NO_REPORT, STOP_REMEDIES
from chargehand_cli.rendering.attachments import Attachments
from chargehand_cli.rendering.cited_passages import Passage
from chargehand_cli.rendering.escaping import is_web_address, one_safe_line
from chargehand_cli.rendering.markdown import marked, safe_html, text_fragment
from chargehand_cli.rendering.svg import plan_graph, timeline
from chargehand_cli.rendering.templating import UNKNOWN_LANGUAGE, render
from chargehand_cli.rendering.text import answer_below_notice, claim_counts, crew_words, dollars, duration, edit_words

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
        remedy=STOP_REMEDIES.get(report.stop_reason, ""),
        attachments=attachments,
        answer=safe_html(answer_below_notice(report), report.sources, files),
        edits=edit_words(report),
        output="" if report.output is None else json.dumps(report.output, indent=2, ensure_ascii=False),
        numbers={source.ref: number for number, source in enumerate(report.sources, start=1)},
        sources=[_source(each, report, attachments) for each in report.sources],
        limits=[_limit(use) for use in report.limits],
        claims=claim_counts(report),
        verification_states=_VERIFICATION_STATES,
        timeline=timeline(trace) if trace else "",
        crew=crew_words(report).removeprefix("crew "),
        work=report,
        graph=_graph(report.subtasks),
    )


def unfinished_page(status: Status, trace: Trace | None = None, *, problem: str = "", action: str = "") -> str:
    """Render a session's progress, why it has no report, and what to do.

    `problem` describes its failure, `action` what it needs from its user.
    """
    body = render(
        "unfinished.html",
        status=status,
        ended=status.state in ENDED,
        problem=problem or (status.failure.cause if status.failure else NO_REPORT[status.state]),
        remedy=action or _remedy(status),
        timeline=timeline(trace) if trace else "",
        work=status,
        graph=_graph(status.subtasks),
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


def _graph(subtasks: Sequence[SubtaskRecord]) -> Markup | str:
    """Draw the dependencies of subtasks, if there are any; of a large plan, only dependent ones."""
    needed = {before for record in subtasks for before in record.depends_on}
    linked = [record for record in subtasks if record.depends_on or record.id in needed]
    return plan_graph(subtasks if linked and len(subtasks) <= _SMALL_PLAN else linked) if linked else ""


def _remedy(status: Status) -> str:
    if status.failure:
        return status.failure.remedy
    if status.state in ENDED:
        return f"To see every step that it took: `chargehand trace {status.session}`"
    return f"To wait for the report: `chargehand watch {status.session}`"


def trace_page(trace: Trace) -> str:
    depths: dict[str, int] = {}
    for step in trace.steps:  # parents come before children
        depths[step.id] = depths.get(step.parent or "", -1) + 1
    name = trace.steps[0].name if trace.steps else trace.session
    body = render(
        "trace.html",
        name=name,
        trace=trace,
        timeline=timeline(trace),
        steps=[(step, min(depths[step.id], _MOST_DEPTH)) for step in _in_order(trace)],
        colours=_COLOURS,
    )
    return page(name, body, session=trace.session)


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
