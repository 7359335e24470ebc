"""Reports as Markdown, and formatting of figures, dates and titles."""

import json
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final, get_args

from pydantic_core import to_json

from chargehand import Artifact, Contradiction, Grade, Report, Source, Step, SubtaskRecord, Usage
from chargehand.contracts import Recorded, Verification
from chargehand_cli.rendering.escaping import cut, is_web_address, one_safe_line, without_links

_EDIT_WORDS: Final = {
    "add": "added",
    "drop": "dropped",
    "reword": "reworded",
    "reroute": "given to another agent",
    "reorder": "given other inputs or another place",
}
_QUOTE_CHARACTERS: Final = 240
_CLAIM_CHARACTERS: Final = 120
_SENTENCE_END: Final = re.compile(r"[.!?。！？](?=\s|$)|\n")
_LONGEST_SENTENCE: Final = 2_000


def report_markdown(report: Report) -> str:
    """Render a report as Markdown: the answer, its sources and gaps, and the usage."""
    known = {source.url for source in report.sources if source.url and is_web_address(source.url)}
    parts = [f"> **{in_paragraph(report.notice)}**"] if report.notice else []
    parts.append(closed(without_links(answer_below_notice(report), known)))
    if report.disclaimer:
        parts.append(f"*{in_paragraph(report.disclaimer)}*")
    parts += _section("Output", output_lines(report))
    parts += _section("Contradictions", [_contradiction(each) for each in report.contradictions])
    parts += _section("Not found or not done", [f"- {in_paragraph(gap)}" for gap in further_gaps(report)])
    parts += _section("Changed in the plan", [f"- {in_paragraph(each)}" for each in edit_words(report)])
    parts += _section("Sources", [_source(*each) for each in enumerate(unquoted_sources(report), start=1)])
    parts += _section("Claims", claim_lines(report))
    parts += _section("Criteria", [_grade(each) for each in report.grades])
    parts += _section("Files", [_file(each) for each in report.artifacts])
    parts += ["---", " · ".join(map(in_paragraph, session_facts(report)))]
    return "\n\n".join(parts) + "\n"


def in_paragraph(text: str) -> str:
    """Fold text into one line of Markdown, without links and code blocks."""
    return without_links(" ".join(text.split()))


def closed(markdown: str) -> str:
    """Close a code block that is open at the end, so that it does not include the text that follows."""
    from chargehand_cli.rendering.markdown import parse_markdown

    last = parse_markdown(f"{markdown}\n\nEnd")[-1]
    return f"{markdown}\n{last.markup}" if last.type == "fence" else markdown


def unquoted_sources(report: Report) -> list[Source]:
    """List the sources, omitting quotations that the answer repeats."""
    answer = _bare(report.answer)
    return [
        source.model_copy(update={"quote": ""}) if _bare(source.quote)[:_QUOTE_CHARACTERS] in answer else source
        for source in report.sources
    ]


def further_gaps(report: Report) -> list[str]:
    """List the gaps that the answer itself does not state."""
    answer = _bare(report.answer)
    return [gap for gap in report.gaps if _bare(gap) not in answer]


def _bare(text: str) -> str:
    return " ".join(re.sub(r"[*_>]", " ", text).split())


def edit_words(report: Report) -> list[str]:
    """List people's changes to the running plan."""
    words: list[str] = []
    for edit in report.edits:
        before = f"{'' if edit.edit == 'drop' else 'before: '}{cut(edit.before, _CLAIM_CHARACTERS)}"
        words.append(f"{edit.subtask}: {_EDIT_WORDS[edit.edit]}{f' ({before})' if edit.before else ''}")
    return words


def output_lines(report: Report) -> list[str]:
    """Return the output as JSON, or why there is none; empty if none was requested."""
    if report.output_problems or report.output is None:
        return [f"- {in_paragraph(problem)}" for problem in report.output_problems]
    return ["```json", json.dumps(report.output, indent=2, ensure_ascii=False), "```"]


def answer_below_notice(report: Report) -> str:
    """Return the answer without its leading notice, which is shown above it."""
    return report.answer.removeprefix(f"*{report.notice}*").strip() if report.notice else report.answer


def session_facts(report: Report) -> list[str]:
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
        dollars(usage.cost_usd) + (f" ({wasted})" if (wasted := wasted_words(report.wasted)) else ""),
        duration(report.timing.wall),
        f"speed-up {report.timing.speed_up:.1f}×" if report.timing.speed_up >= 1.05 else "",
    ]
    return [fact for fact in facts if fact]


def crew_words(report: Report) -> str:
    """Return the crew's name and version."""
    crew = report.crew
    return " ".join(["crew", crew.name, *([crew.version] if crew.version else []), f"({crew.digest})"]) if crew else ""


def claim_counts(report: Report) -> str:
    """Count a report's claims by verification, best first."""
    counts = Counter(claim.verification for claim in report.claims)
    kinds: tuple[Verification, ...] = tuple(reversed(get_args(Verification)))
    return ", ".join(f"{counts[kind]} {kind}" for kind in kinds if counts[kind]) or "none"


def claim_lines(report: Report) -> list[str]:
    labels = {source.ref: f"[S{number}]" for number, source in enumerate(report.sources, start=1)}
    return [
        " ".join([f"- {claim.verification}", *(labels[ref] for ref in claim.sources if ref in labels)])
        + f": {cut(in_paragraph(claim.text), _CLAIM_CHARACTERS)}"
        + (f" ({cut(in_paragraph(claim.problem), _CLAIM_CHARACTERS)})" if claim.problem else "")
        for claim in report.claims
    ]


def text_end(text: str, most: int) -> str:
    """Return the end of a text being written."""
    return text if len(text) <= most else "…" + text[-most:]


def dollars(amount: float | Decimal) -> str:
    """Format a dollar amount with as many digits as needed."""
    if 0 < amount < Decimal("0.0001"):
        return "< $0.0001"
    return f"${amount:,.2f}" if amount >= 1 or amount == 0 else f"${amount:.4f}"


def duration(length: timedelta) -> str:
    seconds = length.total_seconds()
    if 0 < seconds < 0.05:
        return "< 0.1 s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s".removesuffix(" 0 s")
    return f"{minutes // 60} h {minutes % 60} min".removesuffix(" 0 min")


def clock_time(moment: datetime, now: datetime) -> str:
    """Format a moment in local time, with its date if that is not today's."""
    local = moment.astimezone()
    return f"{local:%H:%M:%S}" if local.date() == now.astimezone().date() else f"{local:%Y-%m-%d %H:%M}"


def wasted_words(wasted: Usage) -> str:
    """Describe wasted money; empty if no money was wasted, even if free turns were."""
    return f"{dollars(wasted.cost_usd)} of it wasted" if wasted.cost_usd else ""


def size(count: int) -> str:
    if count < 1_000:
        return f"{count} bytes"
    return f"{count / 1_000:.0f} kB" if count < 1_000_000 else f"{round(count / 1_000_000, 1):g} MB"


def count(number: int, singular: str, plural: str = "") -> str:
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def took(work: Step | SubtaskRecord) -> str:
    """Format a duration; empty unless both start and end are known."""
    return duration(work.ended_at - work.started_at) if work.started_at and work.ended_at else ""


def recorded_text(value: Recorded | None) -> str:
    """Format a tool's input or result, or its location if it is large."""
    if value is None:
        return ""
    if value.reference:
        return f"{size(value.bytes)}: {value.reference}"
    return to_json(value.value, indent=2, inf_nan_mode="null").decode()


def moment(time: datetime) -> str:
    """Format a time in UTC, with the zone."""
    at = time.astimezone(UTC)
    return f"{at.day} {at:%B %Y, %H:%M} UTC"


def title(instruction: str, most: int = 72) -> str:
    """Return a subtask's title: the first sentence of its instruction, cut between words."""
    text = instruction[:_LONGEST_SENTENCE].strip()
    end = _SENTENCE_END.search(text, 12)
    line = one_safe_line(text[: end.start()] if end else text, _LONGEST_SENTENCE).rstrip(" .:;,")
    if len(line) <= most:
        return line
    cut = line[:most].rpartition(" ")[0]
    return f"{cut if len(cut) > most // 2 else line[: most - 1]}…"


def _section(title: str, lines: list[str]) -> list[str]:
    return [f"## {title}", "\n".join(lines)] if lines else []


def _contradiction(contradiction: Contradiction) -> str:
    lines = [
        f"- {in_paragraph(contradiction.about)}",
        *(f"  - {in_paragraph(each)}" for each in contradiction.positions),
    ]
    if contradiction.resolution:
        confidence = f" (confidence {contradiction.confidence} of 100)" if contradiction.confidence else ""
        lines.append(f"  - *{in_paragraph(contradiction.resolution)}*{confidence}")
    return "\n".join(lines)


def _grade(grade: Grade) -> str:
    state = "met" if grade.met else "not met"
    return f"- **{state}** · {in_paragraph(grade.criterion)}" + (
        f"\n  - {in_paragraph(grade.reason)}" if grade.reason else ""
    )


def _file(artifact: Artifact) -> str:
    title = f": {in_paragraph(artifact.title)}" if artifact.title else ""
    return f"- **{in_paragraph(artifact.name)}**{title} ({in_paragraph(artifact.media_type)}, {size(artifact.bytes)})"


def _source(number: int, source: Source) -> str:
    title = f": {in_paragraph(source.title)}" if source.title and source.title != source.ref else ""
    url = f" <{source.url}>" if source.url and source.url != source.ref and is_web_address(source.url) else ""
    title += f" (read by session {in_paragraph(source.session)})" if source.session else ""
    quote = cut(in_paragraph(source.quote), _QUOTE_CHARACTERS)
    return f"- **[S{number}]** {in_paragraph(source.about or source.ref)}{title}{url}" + (
        f"\n  > {quote}" if quote else ""
    )
