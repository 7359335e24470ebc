"""A report on a terminal: the answer first, then a line for each gap and source; the files have the rest."""

from collections.abc import Iterator

from rich.console import Console
from rich.markdown import Markdown
from rich.text import Text

from chargehand import Report, Source
from chargehand_cli.rendering.escaping import one_safe_line, safe_text
from chargehand_cli.rendering.text import (
    answer_below_notice,
    further_gaps,
    output_lines,
    session_facts,
    unquoted_sources,
)


def put_on_screen(report: Report, screen: Console) -> None:
    """Write a report to a terminal."""
    if report.notice:
        screen.print(Text(one_safe_line(report.notice, 1_000), style="yellow"))
    # Links are shown with their address: a hidden one could lead anywhere.
    screen.print(Markdown(safe_text(answer_below_notice(report)), hyperlinks=False))
    if report.disclaimer:
        screen.print(Text(one_safe_line(report.disclaimer, 1_000), style="italic"))
    for line in output_lines(report):
        screen.print(Text(safe_text(line)))
    for line, is_folded in _facts(report):
        screen.print(Text(line), no_wrap=is_folded, overflow="ellipsis" if is_folded else "fold")
    screen.print(Text(one_safe_line(" · ".join(session_facts(report)), 1_000), style="bright_black"))


def _facts(report: Report) -> Iterator[tuple[str, bool]]:
    """List the lines below the answer, each with whether it is cut at the terminal's edge."""
    sections = {
        "Not found or not done": [f"- {gap}" for gap in further_gaps(report)],
        "Contradictions": [f"- {each.about}: {' | '.join(each.positions)}" for each in report.contradictions],
        "Sources": [_source(number, each) for number, each in enumerate(unquoted_sources(report), start=1)],
        "Files": [f"- {each.name}" for each in report.artifacts],
    }
    for title, lines in sections.items():
        if lines:
            yield "", False
            yield title, False
            yield from ((f"  {one_safe_line(line, 400)}", title == "Sources") for line in lines)
    yield "", False


def _source(number: int, source: Source) -> str:
    title = source.title if source.title != source.ref else ""
    return f"[S{number}] " + " · ".join(filter(None, (source.ref, title, source.quote and f"“{source.quote}”")))
