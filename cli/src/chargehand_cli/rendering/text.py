"""Reports as Markdown, for terminals and files."""

import json
import re
from collections import Counter
from datetime import datetime, timedelta
from typing import Final, get_args

from chargehand import Artifact, Claim, Contradiction, EditRecord, Grade, Report, Source, Usage
from chargehand.contracts import Verification
from chargehand_cli.rendering.escaping import is_web_address, without_links

_EDIT_WORDS: Final = {
    "add": "added",
    "drop": "dropped",
    "reword": "reworded",
    "reroute": "given to another agent",
    "reorder": "given other inputs or another place",
}
_QUOTE_CHARACTERS: Final = 240
_CLAIM_CHARACTERS: Final = 120


def report_markdown(report: Report) -> str:
    """Render a report as Markdown: the answer, its sources and gaps, and the usage."""
    known = {source.url for source in report.sources if source.url and is_web_address(source.url)}
    parts = [f"> **{_inline(report.notice)}**"] if report.notice else []
    parts.append(without_links(answer_below_notice(report), known))
    if report.disclaimer:
        parts.append(f"*{_inline(report.disclaimer)}*")
    parts += _section("Output", output_lines(report))
    parts += _section("Contradictions", [_contradiction(each) for each in report.contradictions])
    parts += _section("Not found or not done", [f"- {_inline(gap)}" for gap in further_gaps(report)])
    parts += _section("Changed in the plan", [f"- {_inline(each)}" for each in edit_words(report)])
    parts += _section(
        "Sources", [_source(number, each) for number, each in enumerate(unquoted_sources(report), start=1)]
    )
    parts += _section("Claims", claim_lines(report))
    parts += _section("Criteria", [_grade(each) for each in report.grades])
    parts += _section("Files", [_file(each) for each in report.artifacts])
    parts.append("---")
    parts.append(summary_line(report))
    return "\n\n".join(parts) + "\n"


def unquoted_sources(report: Report) -> list[Source]:
    """List the sources, those without their quotation that the answer quotes."""
    answer = _bare(report.answer)
    return [
        source.model_copy(update={"quote": ""}) if _bare(source.quote)[:_QUOTE_CHARACTERS] in answer else source
        for source in report.sources
    ]


def further_gaps(report: Report) -> list[str]:
    """List the gaps that the answer does not state itself."""
    answer = _bare(report.answer)
    return [gap for gap in report.gaps if _bare(gap) not in answer]


def _bare(text: str) -> str:
    return " ".join(re.sub(r"[*_>]", " ", text).split())


def edit_words(report: Report) -> list[str]:
    """List what people changed in the plan while it was carried out."""
    return [f"{edit.subtask}: {_EDIT_WORDS[edit.edit]}{_what_was(edit)}" for edit in report.edits]


def _what_was(edit: EditRecord) -> str:
    text = edit.before if len(edit.before) <= _CLAIM_CHARACTERS else edit.before[: _CLAIM_CHARACTERS - 1] + "…"
    return f" ({'' if edit.edit == 'drop' else 'before: '}{text})" if text else ""


def output_lines(report: Report) -> list[str]:
    """Show the output as JSON, or list why there is none; nothing if none was asked for."""
    if report.output_problems or report.output is None:
        return [f"- {_inline(problem)}" for problem in report.output_problems]
    return ["```json", json.dumps(report.output, indent=2, ensure_ascii=False), "```"]


def answer_below_notice(report: Report) -> str:
    """Return the answer without the notice that it begins with, which is shown above it."""
    return report.answer.removeprefix(f"*{report.notice}*").strip() if report.notice else report.answer


def summary_line(report: Report) -> str:
    """Summarise in one line how the session ended and what it used."""
    return " · ".join(map(_inline, session_facts(report)))


def session_facts(report: Report) -> list[str]:
    """List how the session ended and what it used."""
    usage = report.usage
    facts = [
        report.ending.words,
        f"confidence {report.confidence} of 100",
        f"claims: {claim_counts(report)}",
        report.brain,
        crew_words(report),
        f"follows session {report.follows}" if report.follows else "",
        f"{usage.turns} {'turn' if usage.turns == 1 else 'turns'}",
        f"{usage.tool_calls} {'tool call' if usage.tool_calls == 1 else 'tool calls'}",
        dollars(float(usage.cost_usd)) + (f" ({wasted})" if (wasted := wasted_words(report.wasted)) else ""),
        duration(report.timing.wall),
        f"speed-up {report.timing.speed_up:.1f}×" if report.timing.speed_up >= 1.05 else "",
    ]
    return [fact for fact in facts if fact]


def crew_words(report: Report) -> str:
    """Name the version of the crew that worked on it."""
    crew = report.crew
    return " ".join(["crew", crew.name, *([crew.version] if crew.version else []), f"({crew.digest})"]) if crew else ""


def claim_counts(report: Report) -> str:
    """Count the claims of a report by how well they are verified, the best first."""
    counts = Counter(claim.verification for claim in report.claims)
    kinds: tuple[Verification, ...] = tuple(reversed(get_args(Verification)))
    return ", ".join(f"{counts[kind]} {kind}" for kind in kinds if counts[kind]) or "none"


def claim_lines(report: Report) -> list[str]:
    """List the claims of a report, each with what it rests on."""
    labels = {source.ref: f"[S{number}]" for number, source in enumerate(report.sources, start=1)}
    return [f"- {claim.verification}{_cited(claim, labels)}: {_shortened(claim.text)}" for claim in report.claims]


def _cited(claim: Claim, labels: dict[str, str]) -> str:
    return "".join(f" {labels[ref]}" for ref in claim.sources if ref in labels)


def _shortened(text: str) -> str:
    line = _inline(text)
    return line if len(line) <= _CLAIM_CHARACTERS else line[: _CLAIM_CHARACTERS - 1] + "…"


def text_end(text: str, most: int) -> str:
    """Return the end of a text that is still being written."""
    return text if len(text) <= most else "…" + text[-most:]


def dollars(amount: float) -> str:
    """Format an amount with as many digits as it needs."""
    return f"${amount:.2f}" if amount >= 1 or amount == 0 else f"${amount:.4f}"


def duration(length: timedelta) -> str:
    """Format a duration."""
    seconds = length.total_seconds()
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def clock_time(moment: datetime, now: datetime) -> str:
    """Format a moment in local time, with its date if it is more than a day away."""
    is_near = abs(moment - now) < timedelta(days=1)
    return f"{moment.astimezone():%H:%M:%S}" if is_near else f"{moment.astimezone():%Y-%m-%d %H:%M}"


def wasted_words(wasted: Usage) -> str:
    """Describe wasted money; empty if there is none: turns that cost nothing are no loss."""
    return f"{dollars(float(wasted.cost_usd))} of it wasted" if wasted.cost_usd else ""


def size(count: int) -> str:
    """Format a number of bytes."""
    if count < 1_000:
        return f"{count} bytes"
    return f"{count / 1_000:.0f} kB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"


def _section(title: str, lines: list[str]) -> list[str]:
    return [f"## {title}", "\n".join(lines)] if lines else []


def _contradiction(contradiction: Contradiction) -> str:
    positions = "".join(f"\n  - {_inline(position)}" for position in contradiction.positions)
    resolution = (
        f"\n  - *{_inline(contradiction.resolution)}*{_confidence(contradiction)}" if contradiction.resolution else ""
    )
    return f"- {_inline(contradiction.about)}{positions}{resolution}"


def _confidence(contradiction: Contradiction) -> str:
    return f" (confidence {contradiction.confidence} of 100)" if contradiction.confidence else ""


def _grade(grade: Grade) -> str:
    state = "met" if grade.met else "not met"
    return f"- **{state}** · {_inline(grade.criterion)}" + (f"\n  - {_inline(grade.reason)}" if grade.reason else "")


def _file(artifact: Artifact) -> str:
    title = f": {_inline(artifact.title)}" if artifact.title else ""
    return f"- **{_inline(artifact.name)}**{title} ({_inline(artifact.media_type)}, {size(artifact.bytes)})"


def _source(number: int, source: Source) -> str:
    title = f": {_inline(source.title)}" if source.title and source.title != source.ref else ""
    url = f" <{source.url}>" if source.url and source.url != source.ref and is_web_address(source.url) else ""
    title += f" (read by session {_inline(source.session)})" if source.session else ""
    quote = _inline(source.quote)
    if len(quote) > _QUOTE_CHARACTERS:
        quote = quote[: _QUOTE_CHARACTERS - 1] + "…"
    return f"- **[S{number}]** {_inline(source.about or source.ref)}{title}{url}" + (f"\n  > {quote}" if quote else "")


def _inline(text: str) -> str:
    return without_links(" ".join(text.split()))
