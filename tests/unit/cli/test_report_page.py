"""The report's page: what it shows, how it reads, and that it is accessible to everyone."""

import base64
import re
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest

from chargehand import Artifact, ChargehandError, Claim, Source, Status, SubtaskRecord
from chargehand.contracts import SessionState
from chargehand.shared_files import read_artifact
from chargehand.upload import store_documents
from chargehand_cli.rendering.attachments import (
    MOST_BYTES_OF_ALL_PICTURES,
    MOST_PICTURE_BYTES,
    MOST_PICTURES,
    Attachments,
    attach_pictures,
)
from chargehand_cli.rendering.cited_passages import attach_passages
from chargehand_cli.rendering.markdown import safe_html, text_fragment
from chargehand_cli.rendering.page import report_page, report_style, trace_page, unfinished_page
from chargehand_cli.rendering.svg import plan_graph
from tests.unit.cli.reports import HOSTILE_TRACE, at, report, trace
from tests.unit.cli.test_render import Page

_PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 24


def _artifact(name: str, content: bytes, number: int = 0) -> Artifact:
    return Artifact(
        uri=f"artifact:{number:064x}/{name}", name=name, media_type="image/png", bytes=len(content), title=f"<{name}>"
    )


def _reader(contents: dict[str, bytes]) -> Callable[[str], bytes]:
    def read(uri: str) -> bytes:
        try:
            return contents[uri]
        except KeyError:
            raise ChargehandError("nothing is stored there") from None

    return read


def test_pictures_made_by_agents_are_embedded_in_the_page() -> None:
    """A picture has its title; other or fake files are listed with the command that fetches them."""
    contents = {
        "chart.png": _PNG,
        "photo.png": b"\xff\xd8\xff\xe0rest",
        "page.png": b"<html><script>alert(1)</script>",
        "drawing.png": b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>",
    }
    made = tuple(_artifact(name, content, number) for number, (name, content) in enumerate(contents.items()))
    gone = _artifact("gone.png", _PNG, 99)
    read = _reader({each.uri: contents[each.name] for each in made})
    pictures = attach_pictures((*made, gone), read)
    page = Page(report_page(report(artifacts=(*made, gone)), attachments=Attachments(pictures)))

    assert [found for tag, found in page.elements if tag == "img"] == [
        {"src": f"data:image/png;base64,{base64.b64encode(_PNG).decode()}", "alt": "<chart.png>"},
        {"src": f"data:image/jpeg;base64,{base64.b64encode(contents['photo.png']).decode()}", "alt": "<photo.png>"},
    ]
    assert all(f"{name} image/png" in page.words for name in ("page.png", "drawing.png", "gone.png"))
    assert "chargehand artifacts session-1 --to DIR" in page.words


_DRAWING = """\
<?xml version="1.0"?>
<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">
<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 9 9" xml:lang="en">
<defs><style type="text/css">*{stroke-linecap: butt}</style><path id="a" d="M0 0L9 9"/>
<clipPath id="c"><rect width="9" height="9"/></clipPath></defs>
<g id="g" clip-path="url(#c)"><use xlink:href="#a"/>PART</g></svg>
"""


def test_a_safe_svg_is_embedded_in_the_page() -> None:
    content = _DRAWING.replace("PART", '<image href="data:image/png;base64,aGk="/>').encode()
    made = _artifact("chart.svg", content)
    page = Page(
        report_page(report(artifacts=(made,)), attachments=Attachments(attach_pictures((made,), lambda _: content)))
    )

    assert page.each("src", "img") == [f"data:image/svg+xml;base64,{base64.b64encode(content).decode()}"]
    assert "use" not in {tag for tag, _ in page.elements}


@pytest.mark.parametrize(
    "part",
    [
        "<script>alert(1)</script>",
        '<script href="https://collector.example/x.js"/>',
        "<foreignObject><p>x</p></foreignObject>",
        '<foreignObject><iframe xmlns="http://www.w3.org/1999/xhtml"/></foreignObject>',
        '<p xmlns="http://www.w3.org/1999/xhtml">x</p>',
        '<metadata><script>alert(1)</script></metadata>',
        '<rect onload="alert(1)"/>',
        '<rect onclick="alert(1)"/>',
        '<a href="https://collector.example/">x</a>',
        '<image href="https://collector.example/x.png"/>',
        '<image xlink:href="//collector.example/x.png"/>',
        '<image href="file:///etc/passwd"/>',
        '<image href="data:image/svg+xml;base64,PHN2Zy8+"/>',
        '<use href="https://collector.example/x.svg#a"/>',
        '<use href="data:image/png;base64,aGk="/>',
        '<g xml:base="https://collector.example/"/>',
        '<style>@import "https://collector.example/x.css";</style>',
        "<style>rect { fill: url(https://collector.example/x) }</style>",
        "<style>rect { fill: ur<![CDATA[l(https://collector.example/x)]]> }</style>",
        "<style>" + "rect{fill:red}" * 400 + "</style>",
        "<text>" + "words " * 9_000 + "</text>",
        "<style>rect { fill: \\75rl(https://collector.example/x) }</style>",
        '<rect style="background: image-set(\'https://collector.example/x\')"/>',
        '<rect fill="URL( https://collector.example/x )"/>',
        '<rect fill="url(&#104;ttps://collector.example/x)"/>',
        '<animate attributeName="href" to="x"/>',
        '<set attributeName="href" to="x"/>',
        '<?xml-stylesheet href="https://collector.example/x.css"?>',
        "<g>" * 99 + "</g>" * 99,
        "<rect/>" * 20_000,
        '<g id="b">' + "<rect/>" * 200 + "</g>" + '<use href="#b"/>' * 200,
        '<g id="b">' + '<use href="#a"/>' * 9 + "</g>" + '<use href="#b"/>' * 9,
        '<use href="#g"/>',
        '<rect ONCLICK="alert(1)"/>',
        "<style>rect{clip-path:url(#c)}</style>",
        '<g marker-end="url(#a)"><path d="M0 0L9 9"/></g>',
        '<path marker-mid="url(#a)" d="M0 0L9 9"/>',
        '<path style="marker: url(#a)" d="M0 0L9 9"/>',
        '<path id="b" d="' + "M0 0L9 9" * 9_000 + '"/>' + '<use href="#b"/>' * 200,
        '<text id="b">' + "words " * 99 + "</text>" + '<use href="#b"/>' * 99,
        '<linearGradient id="b">' + '<stop offset="0"/>' * 999 + '</linearGradient><g fill="url(#b)"/>',
        "<rect",
    ],
)  # fmt: skip
def test_an_unsafe_svg_is_not_embedded(part: str) -> None:
    """Scripts, loads, outside references or multiplication exclude it; the same drawing without them is shown."""
    plain, hostile = _DRAWING.replace("PART", "").encode(), _DRAWING.replace("PART", part).encode()
    made = _artifact("chart.svg", hostile)

    assert attach_pictures((made,), lambda _: hostile) == {}
    assert set(attach_pictures((made,), lambda _: plain)) == {made.uri}


def test_an_svg_with_entities_is_not_embedded() -> None:
    made = _artifact("chart.svg", b"<svg/>")
    hostile = [
        '<!DOCTYPE svg [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><svg xmlns="http://www.w3.org/2000/svg">&b;</svg>',
        '<!DOCTYPE svg [<!ENTITY a SYSTEM "file:///etc/passwd">]><svg xmlns="http://www.w3.org/2000/svg">&a;</svg>',
        '<!DOCTYPE svg [<!ENTITY % a SYSTEM "https://collector.example/x"> %a;]><svg xmlns="http://www.w3.org/2000/svg"/>',
        '<html xmlns="http://www.w3.org/1999/xhtml"/>',
        "<svg/>",
        "",
    ]

    assert [each for each in hostile if attach_pictures((made,), lambda _, each=each: each.encode())] == []


def test_pictures_are_bounded_in_bytes_and_number() -> None:
    large = _PNG + b"\0" * MOST_PICTURE_BYTES
    liar = _artifact("liar.png", large, 1).model_copy(update={"bytes": 9})
    many = [_artifact(f"{number}.png", _PNG, number) for number in range(2, 3 + MOST_PICTURES)]
    half = _PNG + b"\0" * (MOST_PICTURE_BYTES // 2)
    heavy = [_artifact(f"{number}.png", half, number) for number in range(2, 3 + MOST_PICTURES)]

    assert attach_pictures([liar], lambda _: large) == {}
    assert len(attach_pictures(many, lambda _: _PNG)) == MOST_PICTURES
    assert len(attach_pictures(heavy, lambda _: half)) == MOST_BYTES_OF_ALL_PICTURES // len(half)


def test_pictures_in_an_answer_become_links() -> None:
    html = safe_html(
        "See ![the <chart>](charts/chart.png), ![a pixel](https://evil.example/x.gif).", (), {"chart.png": 1}
    )

    assert html == ('<p>See <a href="#file-1" rel="noopener noreferrer">the &lt;chart&gt;</a>, a pixel.</p>\n')


def test_a_source_shows_its_quotation_in_context(tmp_path: Path) -> None:
    documents = tmp_path / "documents"
    documents.mkdir()
    (documents / "boilers.md").write_text(
        "# Rules\r\n\r\nBoilers are tested **every** six\n- months, says <law>.\n\nThe end."
    )
    store = tmp_path / "store"
    uris = store_documents([documents], store)
    source = Source(ref="boilers.md#L3-L4", quote="Boilers are tested **every** six\n- months, says <law>.")
    moved = Source(ref="boilers.md#L1", quote="words that are not there")
    claim = Claim(text="c", verification="supported", sources=(source.ref,), quote="every six months")
    passages = attach_passages((source, moved), uris, partial(read_artifact, artifact_root=store))
    page = report_page(report(sources=(source, moved), claims=(claim,)), attachments=Attachments({}, passages))

    assert set(passages) == {source.ref}
    assert (
        '<span class="soft"># Rules</span>\nBoilers are tested **<mark>every** six\n- months</mark>, says &lt;law&gt;.'
        in page
    )
    assert '<span class="soft">The end.</span>' in page
    assert "words that are not there" in page


def test_passages_are_read_only_from_uploaded_documents() -> None:
    cases: list[tuple[str, ...]] = [
        ("file:///etc/passwd",),
        ("https://example.org/boilers.md",),
        ("artifact:" + "0" * 64 + "/boilers.md",),
        ("artifact:" + "1" * 64 + "/folder/",),
    ]
    for documents in cases:
        source = Source(ref="boilers.md#L1", quote="root")
        assert attach_passages((source,), documents, _reader({f"artifact:{'1' * 64}/folder/": b"[" * 9_000})) == {}


def test_a_web_source_links_to_its_quotation() -> None:
    """The link has a text fragment whose words cannot end the link or add another directive."""
    words = 'one two, three-four & "five" <six> seven eight nine ten eleven twelve thirteen'

    assert text_fragment("https://example.org/a", "a – b\nmore") == "https://example.org/a#:~:text=a%20%E2%80%93%20b"
    assert text_fragment("https://example.org/a#b", words) == (
        "https://example.org/a#b:~:text=one%20two%2C%20three%2Dfour%20%26%20%22five%22%20%3Csix%3E,"
        "eight%20nine%20ten%20eleven%20twelve%20thirteen"
    )
    assert text_fragment("https://example.org/a", " ") == "https://example.org/a"


@pytest.mark.parametrize("answer", ["# a\n#### b\n## c\n###### d\n# e", "#### a\n# b", "a\n===\n\n- # b\n- ##### c"])
def test_headings_skip_no_level(answer: str) -> None:
    """Screen readers navigate by headings: a page has one title and no gaps below it."""
    page = Page(report_page(report(answer=answer), trace()))

    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert [pair for pair in pairwise(levels) if pair[1] > pair[0] + 1] == []


def test_a_report_in_a_notebook_runs_no_markup() -> None:
    shown, short = (
        cast("Any", each)._repr_html_()
        for each in (report(answer="<script>alert(1)</script> It is so [S1]."), report())
    )

    assert "&lt;script&gt;alert(1)&lt;/script&gt; It is so [S1]." in shown
    assert {tag for tag, _ in Page(shown).elements} == {"p", "strong", "br", "div", "ol", "li"}
    assert len(short) < 2_000


@pytest.mark.parametrize(
    ("cells", "is_numeric"),
    [
        (("1,995 [S1]", "€3.5 *(no source)*", "(unknown)"), True),
        (("(1,200)", "−20", "1.2 million EUR", "CHF 5", "–"), True),
        (("7 valves", "12 kWh/m²", "3 %", "1e6", "US$ 5"), True),
        (("12–15", "8.5/10", "12 of 20", "12.5 ± 0.3", "5 (2024: 4)"), True),
        (("٢٠", "1’995", "1\u202f995,50 €"), True),
        (("Turnstone", "12", "unknown"), False),
        (("12", "unknown"), False),
        (("1. Turnstone", "2. Dunlin"), False),
        (("2026-11-02", "2 Nov 2026"), False),
        (("12", "12 Main Street", "13"), False),
        (("", "–"), False),
    ],
)
def test_columns_of_numbers_are_aligned(*, cells: tuple[str, ...], is_numeric: bool) -> None:
    """A column is numeric if its cells are figures, with currency, unit, range or remark, and hardly any are words."""
    answer = "| a | b |\n|---|---|\n" + "".join(f"| name | {cell} |\n" for cell in cells)
    page = Page(report_page(report(answer=answer)))

    aligned = page.each("class", "td", "th")[: 2 * len(cells) + 2]
    assert aligned == [None, "number" if is_numeric else None] * (len(cells) + 1)


def test_tables_and_scrollable_sections_are_accessible() -> None:
    page = Page(report_page(report(answer="| a | b |\n|---|---|\n| 1 | 2 |"), trace()))

    heads = page.each("scope", "th")
    scrolling = [found for _, found in page.elements if (found.get("class") or "").startswith("scroll")]
    assert heads
    assert set(heads) <= {"col", "row"}
    assert [found for found in scrolling if not found.get("aria-label") or found.get("tabindex") != "0"] == []


_TEXT = ("ink", "soft", "accent", "success", "partial", "failure", "escalation", "waiting", "running")
_DRAWN = ("turn", "tool", "failure", "accent")


def test_colours_meet_wcag_aa_contrast() -> None:
    light, _, dark = report_style().partition("@media screen and (prefers-color-scheme: dark)")
    palettes = [dict(re.findall(r"--([\w-]+): (#\w{6})", part)) for part in (light, dark)]

    for colours in palettes:
        pairs = [(text, ground) for text in _TEXT for ground in ("page", "card", "quote")]
        weak = [pair for pair in (*pairs, ("mark-ink", "mark")) if _contrast(colours, *pair) < 4.5]
        faint = [(bar, ground) for bar in _DRAWN for ground in ("card", "track") if _contrast(colours, bar, ground) < 3]
        assert (weak, faint) == ([], [])


def _contrast(colours: dict[str, str], one: str, other: str) -> float:
    """Return the contrast as defined by WCAG 2."""
    lights = sorted((_luminance(colours[one]), _luminance(colours[other])))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def _luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in channels]
    return sum(each * weight for each, weight in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))


def test_subtasks_are_titled_by_the_first_sentence_of_their_instruction() -> None:
    instruction = "Compare the ferries' tide tables with the log. Then list every gap, with its date."
    records = tuple(
        SubtaskRecord(
            id=f"T{number}", agent="reader", instruction=instruction, depends_on=("T1",) if number > 1 else ()
        )
        for number in (1, 2)
    )
    page = report_page(report(subtasks=records))

    assert '<span dir="auto" lang="und">Compare the ferries&#39; tide tables with the log</span>' in page
    assert "Then list every gap" in page
    assert ">Compare the ferries&#39; tide</text>" in plan_graph(records)


def test_the_page_of_a_session_without_a_report_says_why() -> None:
    cases: list[tuple[SessionState, str, tuple[str, ...]]] = [
        ("executing", "", ("There is no report yet: its subtasks are still running.", "chargehand watch s-1")),
        ("failed", "The model <refused>.", ("There is no report: The model <refused>.", "chargehand trace s-1")),
        ("cancelled", "", ("There is no report: the session was cancelled.", "chargehand trace s-1")),
    ]
    for state, problem, said in cases:
        status = Status(
            session="s-1", goal="How <safe>?", state=state, subtasks=report().subtasks, turns=3, max_turns=20,
            started_at=at(0), deadline_at=at(0) + timedelta(minutes=10),
        )  # fmt: skip
        page = Page(unfinished_page(status, trace(), problem=problem))

        assert [part for part in (*said, "How <safe>?", "3 of 20", "no answer") if part not in page.words] == []
        assert page.each("aria-label", "section") == ["Plan", "Timeline"]
        unlimited = Page(unfinished_page(status.model_copy(update={"max_turns": 0})))
        assert "Turns3Cost$0.00" in unlimited.words


def test_a_trace_page_shows_tool_inputs_as_text_and_runs_nothing() -> None:
    page = trace_page(HOSTILE_TRACE)

    assert "<script" not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 2
    for shown in ("10 kB: s1/run#7", "task ab12", "A service that a tool needs is unavailable", "never taken up"):
        assert shown in page


@pytest.mark.parametrize(("language", "stated"), [("de", "de"), ("", "und")])
def test_page_text_declares_its_language(language: str, stated: str) -> None:
    page = report_page(report(language=language, disclaimer="No advice."))

    foreign = re.findall(r'<(\w+)[^>]* dir="auto"([^>]*)', page)
    assert {"h1", "div", "p", "blockquote", "ul"} <= {element for element, _ in foreign}
    assert all(' lang="' in attributes for _, attributes in foreign)
    assert f'<html lang="{stated}">' in page
    assert re.search(rf'<h1 dir="auto" lang="{stated}"', page)
    assert f'<div class="answer" dir="auto" lang="{stated}">' in page
    assert '<blockquote dir="auto" lang="und">' in page
    assert '<main lang="en">' in page
