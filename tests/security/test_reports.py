"""A report shown to people loads nothing, links only to its own sources, and stays within its lines."""

import re
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from markdown_it import MarkdownIt

from chargehand.contracts import Report, Status, SubtaskRecord
from chargehand_cli.rendering.page import report_page
from chargehand_cli.rendering.terminal_report import short_text
from chargehand_cli.rendering.text import report_markdown
from tests.security.corpus import DRESSES
from tests.security.hostile_reports import HOSTILE, READ, hostile_report, hostile_trace
from tests.unit.cli.test_render import Page
from workflows.rules.web_ui import details

_HARMLESS = {
    "html", "head", "meta", "title", "style", "body", "main", "header", "article", "section", "footer", "dl", "dt",
    "dd", "time", "mark", "h1", "h2", "h3", "h4",
    "h5", "h6", "p", "br", "hr", "pre", "code", "em", "del", "ul", "ol", "li", "div", "span", "table", "thead", "tbody",
    "tfoot", "tr", "th", "td", "strong", "a", "blockquote", "details", "summary", "svg", "g", "rect", "path", "line",
    "text",
}  # fmt: skip
_ATTRIBUTES = {"href", "rel", "class", "id", "start", "style", "lang", "dir", "charset", "name", "content",
               "http-equiv", "datetime", "scope", "colspan", "tabindex"}  # fmt: skip
_DRAWN = {"viewbox", "width", "height", "x", "y", "x1", "y1", "x2", "y2", "d", "rx", "role", "aria-label", "font-size",
          "font-weight", "text-anchor", "fill", "stroke", "stroke-width"}  # fmt: skip
_PROGRAM = re.compile(r"\\(?:href|style|let)\b|^[ >-]*:::(?!text$|$)", re.MULTILINE)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_report_page_loads_nothing_and_links_only_to_sources(text: str) -> None:
    """No element or attribute loads anything, the CSP forbids loading, and links lead only to what was read."""
    page = Page(report_page(hostile_report(text), hostile_trace(text)))

    links = [found["href"] or "" for tag, found in page.elements if tag == "a" and "href" in found]
    policies = [found["content"] for _, found in page.elements if found.get("http-equiv") == "Content-Security-Policy"]
    styles = [found["style"] or "" for _, found in page.elements if "style" in found]
    assert {tag for tag, _ in page.elements} - _HARMLESS == set()
    assert {name for _, found in page.elements for name in found} - _ATTRIBUTES - _DRAWN == set()
    assert {link.partition("#:~:text=")[0] for link in links} - {READ, "#S1", "#S2"} == set()
    assert policies == [
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    ]
    assert [style for style in styles if re.search(r"url|import|\\|expression|:/", style, re.IGNORECASE)] == []
    assert [found for _, found in page.elements if "http-equiv" in found and "refresh" in str(found).lower()] == []


@pytest.mark.parametrize("write", [report_markdown, short_text])
@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_reports_load_nothing_and_link_only_to_sources(text: str, write: Callable[[Report], str]) -> None:
    """A renderer that allows HTML gets no picture, no HTML and only links to what was read."""
    written = write(hostile_report(text))

    viewer = MarkdownIt("gfm-like", {"html": True, "linkify": False}).disable("linkify")
    shown = Page(viewer.render(written))
    blocks = [token for token in viewer.parse(written) if token.type == "fence"]
    links = {found["href"] for tag, found in shown.elements if tag == "a"}
    loading = {"img", "svg", "script", "style", "iframe", "link", "meta", "base"}
    assert {tag for tag, _ in shown.elements} & loading == set()
    assert {name for _, found in shown.elements for name in found} - {"href", "start", "class", "style"} == set()
    assert links == {READ}
    assert {block.info for block in blocks} <= {"", "text", "json", "python"}
    assert not _PROGRAM.search(written)
    assert "That is all" in written
    assert not any(each in block.content for block in blocks for each in ("confidence 1 of 100", "[S2]", "[2]"))


@pytest.mark.parametrize("dress", DRESSES)
def test_a_url_that_only_starts_like_a_source_is_not_linked(dress: str) -> None:
    """Extra characters after the address of a source make it another address."""
    text = f"[x]({READ}{DRESSES[dress].format_map(_Anything())})"

    page = Page(report_page(hostile_report(text), hostile_trace(text)))

    links = [found["href"] or "" for tag, found in page.elements if tag == "a" and "href" in found]
    assert {link.partition("#:~:text=")[0] for link in links} == {READ, "#S1", "#S2"}


class _Anything(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "CANARY"


@pytest.mark.parametrize("text", [*HOSTILE, "from $5 to $6", "w" * 5_000])
def test_the_web_ui_gets_only_plain_text(text: str) -> None:
    """Session details in the Temporal Web UI have exactly our lines, all short, without links, pictures or HTML."""

    def drawn(goal: str, instruction: str, reason: str) -> str:
        record = SubtaskRecord(id="T1", agent="reader", instruction=instruction, reason=reason, state="failure")
        return details(Status(session="s", goal=goal, state="executing", subtasks=(record,)), datetime.now(UTC))

    written = drawn(text, text, text)

    shown = Page(MarkdownIt("gfm-like", {"html": True, "linkify": False}).disable("linkify").render(written))
    assert len(written.splitlines()) == len(drawn("", "x", "y").splitlines())
    assert max(map(len, written.splitlines())) < 600
    assert not re.search(r"(?<!\\)\$", written)
    assert {tag for tag, _ in shown.elements} - {"p", "ul", "li", "strong", "em", "s"} == set()
