"""Reports as self-contained HTML pages: nothing to run, nothing to load, safe to share."""

import json
import re
from collections.abc import Iterable, Sequence
from datetime import timedelta
from html import escape
from pathlib import Path
from typing import Final

from chargehand import Artifact, Claim, Contradiction, LimitUse, Report, Source, SubtaskRecord, Trace, Usage
from chargehand_cli.rendering.escaping import is_web_address, one_safe_line, safe_text
from chargehand_cli.rendering.svg import plan_graph, timeline
from chargehand_cli.rendering.text import answer_below_notice, dollars, duration, session_facts, size, wasted_words

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
# fmt: off
_TAGS: Final = frozenset({
    "p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code",
    "em", "strong", "del", "a", "table", "thead", "tbody", "tr", "th", "td",
})
# fmt: on
_MARKS: Final = {
    True: '<span class="state state-success">met</span>',
    False: '<span class="state state-failure">not met</span>',
}
"""Of criteria, by whether they are met."""
_STYLE: Final = Path(__file__).with_name("page.css")
_CITATION: Final = re.compile(r"\[(S\d+(?:,\s*S\d+)*)\]")


def report_page(report: Report, trace: Trace | None = None) -> str:
    """Render the report, its sources and gaps, the plan, a timeline, usage and limits."""
    sections = [
        _section("Answer", _answer(report)),
        _section("Output", _output(report)),
        _section("Contradictions", _contradictions(report)),
        _section("Not found or not done", _list(report.gaps)),
        _section("Sources", _sources(report.sources)),
        _section("Claims", _claims(report)),
        _section("Criteria", _grades(report)),
        _section("Files", _files(report.artifacts)),
        _section("Plan", _plan(report.subtasks)),
        _section("Timeline", _time(report, trace)),
        _section("Usage", _usage(report)),
        _section("Limits", _limits(report.limits)),
    ]
    title = escape(one_safe_line(report.goal, 80))
    style = _STYLE.read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        f"<title>{title}</title><style>{style}</style></head>\n<body><main>{_header(report)}\n"
        + "\n".join(sections)
        + f"\n<footer>Written by Chargehand · {_text(report.session)}</footer></main></body></html>\n"
    )


def _header(report: Report) -> str:
    ending, *others = map(_text, session_facts(report))
    css = "completed" if report.stop_reason == "completed" else "stopped"
    items = f'<li class="{css}">{ending}</li>' + "".join(f"<li>{fact}</li>" for fact in others)
    started = report.timing.started_at.strftime("%Y-%m-%d %H:%M UTC")
    notice = f'<p class="notice">{_text(report.notice)}</p>' if report.notice else ""
    return (
        f'<header><p class="eyebrow">{_text(report.session)} · {started}</p>'
        f'<h1>{_text(report.goal)}</h1><ul class="facts">{items}</ul>{notice}</header>'
    )


def _answer(report: Report) -> str:
    disclaimer = f'<p class="disclaimer">{_text(report.disclaimer)}</p>' if report.disclaimer else ""
    return f'<div class="answer">{_markdown(answer_below_notice(report), report.sources)}</div>{disclaimer}'


def _section(title: str, content: str) -> str:
    return f"<section><h2>{title}</h2>{content}</section>" if content else ""


def _markdown(text: str, sources: Sequence[Source]) -> str:
    """Render Markdown without raw HTML and images; links lead to sources, citations to the list of sources."""
    import nh3
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    known = {form for source in sources if source.url for form in (source.url, markdown.normalizeLink(source.url))}
    rendered = markdown.render(safe_text(text))
    clean = nh3.clean(
        rendered,
        tags=set(_TAGS),
        attributes={"a": {"href"}, "ol": {"start"}},
        attribute_filter=lambda tag, name, value: (
            None if (tag, name) == ("a", "href") and value not in known else value
        ),
        url_schemes={"http", "https"},
        link_rel="noopener noreferrer",
    )
    scrolling = clean.replace("<table>", '<div class="scroll"><table>').replace("</table>", "</table></div>")
    return _CITATION.sub(lambda match: _cited(match, len(sources)), scrolling)


def _cited(match: re.Match[str], known: int) -> str:
    labels = [label.strip() for label in match[1].split(",")]
    if any(not 1 <= int(label[1:]) <= known for label in labels):
        return match[0]
    return "".join(f'<a class="cite" href="#{label}">{label}</a>' for label in labels)


def _output(report: Report) -> str:
    if report.output_problems or report.output is None:
        return _list(report.output_problems)
    return f"<pre>{_text(json.dumps(report.output, indent=2, ensure_ascii=False))}</pre>"


def _contradictions(report: Report) -> str:
    return "".join(
        f"<p><strong>{_text(each.about)}</strong></p>{_list(each.positions)}"
        + (f'<p class="soft">{_text(each.resolution)}{_confidence(each)}</p>' if each.resolution else "")
        for each in report.contradictions
    )


def _confidence(contradiction: Contradiction) -> str:
    return f" · confidence {contradiction.confidence} of 100" if contradiction.confidence else ""


def _grades(report: Report) -> str:
    listed = "".join(
        f'<li>{_MARKS[each.met]} {_text(each.criterion)}<br><span class="soft">{_text(each.reason)}</span></li>'
        for each in report.grades
    )
    return f'<ul class="plain">{listed}</ul>' if listed else ""


def _files(artifacts: Iterable[Artifact]) -> str:
    """List files by name; links would only work within the installation, and a page loads nothing."""
    listed = "".join(
        f"<li><strong>{_text(each.name)}</strong> "
        f'<span class="soft">{_text(each.media_type)}, {size(each.bytes)}</span>'
        + (f"<br>{_text(each.title)}" if each.title else "")
        + "</li>"
        for each in artifacts
    )
    return f'<ul class="plain">{listed}</ul>' if listed else ""


def _list(items: Iterable[str]) -> str:
    listed = "".join(f"<li>{_text(item)}</li>" for item in items)
    return f'<ul class="plain">{listed}</ul>' if listed else ""


def _sources(sources: Iterable[Source]) -> str:
    listed = "".join(_source(number, source) for number, source in enumerate(sources, start=1))
    return f'<ol class="sources">{listed}</ol>' if listed else ""


def _source(number: int, source: Source) -> str:
    name = _text(source.ref)
    if source.url and is_web_address(source.url):
        name = f'<a href="{_text(source.url)}" rel="noopener noreferrer">{name}</a>'
    title = f' <span class="soft">{_text(source.title)}</span>' if source.title and source.title != source.ref else ""
    quote = f"<blockquote>{_text(source.quote)}</blockquote>" if source.quote else ""
    return f'<li id="S{number}"><span class="label">S{number}</span>{name}{title}{quote}</li>'


def _claims(report: Report) -> str:
    numbers = {source.ref: number for number, source in enumerate(report.sources, start=1)}
    rows = "".join(_claim(claim, [numbers[ref] for ref in claim.sources if ref in numbers]) for claim in report.claims)
    return f'<ul class="plain claims">{rows}</ul>' if rows else ""


def _claim(claim: Claim, numbers: Iterable[int]) -> str:
    cited = "".join(f' <a class="cite" href="#S{number}">S{number}</a>' for number in numbers)
    status = f'<span class="verification verification-{claim.verification}">{claim.verification}</span>'
    return f"<li>{status} {_text(claim.text)}{cited}</li>"


def _plan(records: tuple[SubtaskRecord, ...]) -> str:
    if not records:
        return ""
    return f'<div class="scroll">{plan_graph(records)}</div>' + "".join(
        f"<details><summary><strong>{_text(record.id)}</strong> {_text(record.agent)} "
        f'<span class="state state-{record.state}">{_state(record)}</span></summary>'
        f"<p>{_text(record.instruction)}</p></details>"
        for record in records
    )


def _state(record: SubtaskRecord) -> str:
    facts = [record.state, record.reason if record.reason != record.state else ""]
    facts += [f"confidence {record.confidence}"] if record.state in ("success", "partial") else []
    facts += [f"{record.attempts} attempts"] if record.attempts > 1 else []
    facts += [wasted_words(record.wasted)]
    return " · ".join(_text(fact) for fact in facts if fact)


def _time(report: Report, trace: Trace | None) -> str:
    drawn = timeline(trace) if trace else ""
    timing = report.timing
    facts = [
        ("start to report", timing.wall),
        ("subtasks in sequence", timing.subtasks_one_after_another),
        ("longest chain", timing.critical_path),
    ]
    words = " · ".join(f"{name} {duration(length)}" for name, length in facts if length > timedelta(0))
    key = (
        '<p class="soft key"><span style="background:var(--turn)"></span>model turn'
        '<span style="background:var(--tool)"></span>tool<span style="background:var(--track)"></span>agent'
        '<span style="background:var(--failure)"></span>failed</p>'
    )
    return (f'<div class="scroll">{drawn}</div>{key}' if drawn else "") + f'<p class="soft">{words}</p>'


def _usage(report: Report) -> str:
    total = report.usage
    numbers = ("Turns", "Tools", "Input", "Cached", "Output", "Cost")
    heads = "<th>Agent</th><th>Model</th><th>Purpose</th>" + "".join(
        f'<th class="number">{each}</th>' for each in numbers
    )
    rows = "".join(
        f"<tr><td>{_text(line.agent)}</td><td>{_text(line.model)}</td><td>{_text(line.purpose)}</td>{_amounts(line.usage)}</tr>"
        for line in report.spend
    )
    facts: list[str] = []
    if total.possibly_billed_twice_usd:
        charged = dollars(float(total.possibly_billed_twice_usd))
        facts.append(f"{charged} of it is the worst case of calls with an unknown outcome.")
    if wasted := wasted_words(report.wasted):
        facts.append(f"{wasted}: unused attempts, rejected plans and lost calls.")
    if report.reserved_usd:
        facts.append(f"{dollars(float(report.reserved_usd))} was still reserved when the report was written.")
    notes = "".join(f'<p class="soft">{fact}</p>' for fact in facts)
    foot = f"<tfoot><tr><td>Total</td><td></td><td></td>{_amounts(total)}</tr></tfoot>"
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody>{foot}</table>"
    return f'<div class="scroll">{table}</div>{notes}'


def _amounts(usage: Usage) -> str:
    counts = (usage.turns, usage.tool_calls, usage.input_tokens, usage.cached_input_tokens, usage.output_tokens)
    cells = "".join(f'<td class="number">{count:,}</td>' for count in counts)
    return f'{cells}<td class="number">{dollars(float(usage.cost_usd))}</td>'


def _limits(limits: Iterable[LimitUse]) -> str:
    rows = "".join(
        f'<span>{_text(use.limit.replace("_", " "))}</span><span class="bar"><span style="width:{_percent(use)}%">'
        f'</span></span><span class="soft number">{use.used:,.6g} of {use.allowed:,.6g}</span>'
        for use in limits
    )
    return f'<div class="meters">{rows}</div>' if rows else ""


def _percent(use: LimitUse) -> int:
    return round(100 * min(1.0, use.used / use.allowed)) if use.allowed > 0 else 0


def _text(text: str) -> str:
    return escape(safe_text(text))
