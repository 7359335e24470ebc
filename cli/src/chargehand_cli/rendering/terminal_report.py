"""A report on a terminal and in a pipe: how it ended, the answer, gaps, and one line per source."""

import re
from collections.abc import Callable, Iterator
from typing import Final

from rich.console import Console
from rich.markdown import Markdown
from rich.text import Text

from chargehand import Report, Source
from chargehand.state_words import STOP_REMEDIES
from chargehand_cli.rendering.escaping import is_web_address, one_safe_line, safe_text, without_links
from chargehand_cli.rendering.progress import TONES
from chargehand_cli.rendering.text import answer_below_notice, closed, dollars, duration, further_gaps, output_lines

_CITATION: Final = re.compile(r"\[S\d+(?:\.\d+)?(?:,\s*S\d+(?:\.\d+)?)*\]")
_PLACE: Final = re.compile(r"#(?:page=(?P<page>\d+)|L(?P<line>\d+)(?:-L(?P<last>\d+))?)$")
_LONGEST_TITLE: Final = 100


def put_on_screen(report: Report, screen: Console) -> None:
    ending = report.ending
    screen.print(Text(_headline(report), style=TONES[ending.tone]))
    if report.notice:
        screen.print(Text(one_safe_line(report.notice, 1_000), style="yellow"))
    # Links show their address: a hidden one could lead anywhere.
    screen.print(Markdown(safe_text(_answer(report)), hyperlinks=False))
    for line in _below(report):
        screen.print(Text(line), overflow="fold")


def short_text(report: Report) -> str:
    """Render the report for a pipe, as Markdown."""
    known = {source.url for source in report.sources if source.url and is_web_address(source.url)}
    notice = [f"> **{without_links(one_safe_line(report.notice, 1_000))}**"] if report.notice else []
    below = "\n".join(_below(report, lambda text, most: without_links(one_safe_line(text, most)))).strip("\n")
    answer = closed(without_links(_answer(report), known))
    return "\n\n".join([_headline(report), *notice, answer, *([below] if below else [])])


def _headline(report: Report) -> str:
    words = report.ending.words
    facts = [words[0].upper() + words[1:], duration(report.timing.wall), dollars(report.usage.cost_usd)]
    return " · ".join([*facts, f"confidence {report.confidence} of 100"])


def _answer(report: Report) -> str:
    """Reduce citations to source numbers."""
    return _CITATION.sub(lambda cited: cited[0].replace("S", ""), answer_below_notice(report))


def _below(report: Report, in_line: Callable[[str, int], str] = one_safe_line) -> Iterator[str]:
    if remedy := STOP_REMEDIES.get(report.stop_reason):
        yield from ("", remedy)
    if report.disclaimer:
        yield from ("", in_line(report.disclaimer, 1_000))
    if lines := output_lines(report):
        yield from ("", *map(safe_text, lines))
    missing = [
        *further_gaps(report),
        *(f"{each.about}: {' | '.join(each.positions)}" for each in report.contradictions),
    ]
    if missing:
        yield from ("", "Open:", *(f"- {in_line(each, 400)}" for each in missing))
    if report.sources:
        yield ""
        yield from (
            f"[{number}] {in_line(source_words(each), 300)}" for number, each in enumerate(report.sources, start=1)
        )


def source_words(source: Source) -> str:
    """Describe a source in one line, in everyday words."""
    title = one_safe_line(source.title.rpartition(" > ")[2], _LONGEST_TITLE)
    if source.about:
        return one_safe_line(source.about, 300)
    if source.ref.startswith(("sql:", "code:")):
        return f"computed: {title}"
    name = _PLACE.sub(_place_words, source.ref)
    return one_safe_line(f"{name}: {title}" if title and title != source.ref else name, 300)


def _place_words(place: re.Match[str]) -> str:
    if place["page"]:
        return f", page {place['page']}"
    return f", lines {place['line']}–{place['last']}" if place["last"] else f", line {place['line']}"
