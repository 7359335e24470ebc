"""Reports as Word documents, by python-docx."""

import io
import re
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast
from unicodedata import bidirectional

import docx as word
from docx.enum.text import WD_ALIGN_PARAGRAPH
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.oxml import OxmlElement  # pyright: ignore[reportUnknownVariableType]  # python-docx's own types
from docx.oxml.ns import qn
from docx.text.font import Font
from markdown_it.token import Token

from chargehand import Artifact, Report, Source
from chargehand_cli.rendering.attachments import Attachments
from chargehand_cli.rendering.escaping import is_web_address, safe_text
from chargehand_cli.rendering.markdown import numeric_columns, parse_markdown, source_addresses
from chargehand_cli.rendering.text import answer_below_notice, moment, session_facts, size

if TYPE_CHECKING:
    from docx.document import Document
    from docx.text.paragraph import Paragraph
    from docx.text.run import Run

_DEEPEST_LIST: Final = 3
"""List styles of the template: `List Bullet`, `List Bullet 2`, `List Bullet 3`."""
_INCHES: Final = 6
_LONG_GOAL: Final = 300
_LABEL: Final = re.compile(r"(?<=[\[,\s])(S[1-9]\d{0,3})(?=[,\]])")
"""The label of a source within a citation."""
_OWN_LANGUAGE: Final = "en"
"""Language of headings and facts not written by agents."""
_UNKNOWN_LANGUAGE: Final = "x-none"
"""Word's code for no spell checking."""


def docx(_: str, report: Report | None, attachments: Attachments) -> bytes | None:
    """Build a Word document of the answer, its gaps, sources and pictures; None without a report."""
    if report is None:
        return None
    document = word.Document()
    _set_language(
        cast("Any", document.styles.element).find(f".//{qn('w:rPrDefault')}//{qn('w:lang')}"), report.language
    )
    properties = document.core_properties
    properties.title, properties.author = safe_text(report.goal)[:255], "Chargehand"
    properties.language = report.language or _UNKNOWN_LANGUAGE
    document.add_paragraph(safe_text(report.goal), style="Title" if len(report.goal) <= _LONG_GOAL else "Subtitle")
    facts = safe_text(f"{moment(report.timing.ended_at)} · {' · '.join(session_facts(report))}")
    _in_language(document.add_paragraph(facts), _OWN_LANGUAGE)
    if report.notice:
        notice = document.add_paragraph(style="Intense Quote")
        notice.add_run(safe_text(report.notice)).bold = True
        _in_language(notice, _OWN_LANGUAGE)
    _Markdown(document, report.sources).add(parse_markdown(answer_below_notice(report)))
    if report.disclaimer:
        disclaimer = document.add_paragraph()
        disclaimer.add_run(safe_text(report.disclaimer)).italic = True
        _in_language(disclaimer, _UNKNOWN_LANGUAGE)
    _add_pictures(document, report.artifacts, attachments.pictures)
    _add_list(document, "Not found or not done", report.gaps, len(report.sources))
    _add_list(
        document,
        "Contradictions",
        [". ".join(filter(None, (each.about, *each.positions, each.resolution))) for each in report.contradictions],
        len(report.sources),
    )
    _add_sources(document, report)
    _set_directions(document)
    written = io.BytesIO()
    document.save(written)
    return written.getvalue()


def _in_language(paragraph: "Paragraph", language: str) -> None:
    for run in _all_runs(paragraph):
        stated = _element("w:lang")
        _set_language(stated, language)
        run.get_or_add_rPr().append(stated)


def _all_runs(paragraph: "Paragraph") -> list[Any]:
    """Return the elements of a paragraph's runs, including those of links."""
    return cast("Any", paragraph)._p.xpath(".//w:r")  # noqa: SLF001  # python-docx has no name for it


def _set_language(stated: Any, language: str) -> None:
    for script in ("val", "eastAsia", "bidi"):
        stated.set(qn(f"w:{script}"), language or _UNKNOWN_LANGUAGE)


def _set_directions(document: "Document") -> None:
    for table in document.tables:
        if _is_leftward("".join(cell.text for cell in table.rows[0].cells)):
            cast("Any", table)._tbl.tblPr.insert_element_before(_element("w:bidiVisual"), "w:tblW")  # noqa: SLF001  # as above
    cells = (cell for table in document.tables for row in table.rows for cell in row.cells)
    for paragraph in [*document.paragraphs, *(each for cell in cells for each in cell.paragraphs)]:
        if _is_leftward(paragraph.text):
            style = cast("Any", paragraph)._p.get_or_add_pPr()  # noqa: SLF001  # python-docx has no name for it
            style.insert_element_before(_element("w:bidi"), "w:spacing", "w:ind", "w:jc")
            if paragraph.alignment == WD_ALIGN_PARAGRAPH.RIGHT:
                paragraph.alignment = WD_ALIGN_PARAGRAPH.LEFT  # for right-to-left text, this is the paragraph's end
            for run in _all_runs(paragraph):
                Font(run).rtl = True


def _is_leftward(text: str) -> bool:
    """Return whether a text is right-to-left, judging by its first letter."""
    letters = (bidirectional(character) for character in text)
    return next((each for each in letters if each in {"L", "R", "AL"}), "L") != "L"


def _link(paragraph: "Paragraph", run: "Run", *, url: str = "", anchor: str = "") -> None:
    outside = {"r:id": paragraph.part.relate_to(url, RELATIONSHIP_TYPE.HYPERLINK, is_external=True)} if url else None
    link = _element("w:hyperlink", outside or {"w:anchor": anchor})
    run.font.underline = True
    link.append(cast("Any", run)._r)  # noqa: SLF001  # as above
    cast("Any", paragraph)._p.append(link)  # noqa: SLF001


def _element(name: str, attributes: Mapping[str, str] | None = None) -> Any:
    return cast("Any", OxmlElement)(name, {qn(each): value for each, value in (attributes or {}).items()})


def _add_pictures(document: "Document", artifacts: Sequence[Artifact], pictures: Mapping[str, str]) -> None:
    from docx.shared import Inches

    if artifacts:
        _in_language(document.add_heading("Pictures and files", 1), _OWN_LANGUAGE)
    for artifact in artifacts:
        head, _, content = pictures.get(artifact.uri, "").partition(",")
        if content and "svg" not in head:  # python-docx cannot embed it; it is named below
            with suppress(Exception):  # python-docx parses the picture's header; a damaged one is named below
                document.add_picture(io.BytesIO(b64decode(content)), width=Inches(_INCHES))
        facts = f"{artifact.name}, {size(artifact.bytes)}"
        document.add_paragraph(safe_text(f"{artifact.title} ({facts})" if artifact.title else facts), style="Caption")


def _add_list(document: "Document", heading: str, items: Iterable[str], sources: int) -> None:
    for number, item in enumerate(items):
        if number == 0:
            _in_language(document.add_heading(heading, 1), _OWN_LANGUAGE)
        _add_text(document.add_paragraph(style="List Bullet"), item, sources)


def _add_sources(document: "Document", report: Report) -> None:
    if report.sources:
        _in_language(document.add_heading("Sources", 1), _OWN_LANGUAGE)
    for number, source in enumerate(report.sources, start=1):
        paragraph = document.add_paragraph()
        target = {"w:id": str(number), "w:name": f"S{number}"}
        marks = _element("w:bookmarkStart", target), _element("w:bookmarkEnd", {"w:id": str(number)})
        cast("Any", paragraph)._p.extend(marks)  # noqa: SLF001  # as above
        paragraph.add_run(f"S{number}  ").bold = True
        names = [source.about] if source.about else filter(None, dict.fromkeys((source.ref, source.title)))
        paragraph.add_run(safe_text(" · ".join(names)))
        if source.url and is_web_address(source.url):
            paragraph.add_run(" ")
            _link(paragraph, paragraph.add_run(safe_text(source.url)), url=source.url)
        _in_language(paragraph, _UNKNOWN_LANGUAGE)
        if source.quote:
            _in_language(document.add_paragraph(safe_text(source.quote), style="Quote"), _UNKNOWN_LANGUAGE)


class _Markdown:
    """Writes Markdown, with links to sources: of citations to their list, and others only to their addresses."""

    def __init__(self, document: "Document", sources: Sequence[Source]) -> None:
        self._document = document
        self._sources = len(sources)
        self._addresses = source_addresses(sources)
        self._lists: list[bool] = []
        """For each open list, whether it is numbered."""
        self._item: str | None = None
        """The number of the current item; empty if it has none."""
        self._quotes = 0

    def add(self, tokens: Sequence[Token]) -> None:
        at = 0
        while at < len(tokens):
            token = tokens[at]
            if token.type == "table_open":
                end = next(number for number in range(at, len(tokens)) if tokens[number].type == "table_close")
                self._add_table(tokens[at:end])
                at = end
            else:
                self._take(token, tokens[at - 1] if at else token)
            at += 1

    def _take(self, token: Token, before: Token) -> None:
        match token.type:
            case "bullet_list_open" | "ordered_list_open":
                self._lists.append(token.type.startswith("ordered"))
            case "bullet_list_close" | "ordered_list_close":
                self._lists.pop()
            case "list_item_open":
                self._item = token.info
            case "blockquote_open" | "blockquote_close":
                self._quotes += token.nesting
            case "inline" if before.type == "heading_open":
                self._add_runs(self._document.add_heading(level=min(6, int(before.tag[1]))), token.children or [])
            case "inline":
                self._add_paragraph(token.children or [])
            case "fence" | "code_block":
                _add_code(self._document.add_paragraph(), token.content.rstrip("\n"))
            case _:
                pass

    def _add_paragraph(self, children: Sequence[Token]) -> None:
        style = "Quote" if self._quotes else "Normal"
        number = ""
        if self._lists:
            level = min(len(self._lists), _DEEPEST_LIST)
            # Word would continue the previous list's numbers, so numbers are written as text.
            bullet = self._item is not None and not self._lists[-1]
            number = f"{self._item}. " if self._item and self._lists[-1] else ""
            style = f"List {'Bullet' if bullet else 'Continue'}{f' {level}' if level > 1 else ''}"
        self._item = None
        paragraph = self._document.add_paragraph(number, style=style)
        self._add_runs(paragraph, children)

    def _add_table(self, tokens: Sequence[Token]) -> None:
        rows: list[list[Sequence[Token]]] = []
        for token in tokens:
            if token.type == "tr_open":
                rows.append([])
            elif token.type == "inline":
                rows[-1].append(token.children or [])
        numeric = numeric_columns([*tokens, Token("table_close", "table", -1)])
        table = self._document.add_table(len(rows), max(map(len, rows)), style="Table Grid")
        for row, cells in zip(table.rows, rows, strict=True):
            for cell, children in zip(row.cells, cells, strict=False):
                self._add_runs(cell.paragraphs[0], children)
                if next(numeric):
                    cell.paragraphs[0].alignment = WD_ALIGN_PARAGRAPH.RIGHT
        for cell in table.rows[0].cells:
            for run in _all_runs(cell.paragraphs[0]):
                Font(run).bold = True

    def _add_runs(self, paragraph: "Paragraph", children: Iterable[Token]) -> None:
        bold = italic = struck = 0
        url = ""
        for token in children:
            bold += token.nesting if token.type.startswith("strong_") else 0
            italic += token.nesting if token.type.startswith("em_") else 0
            struck += token.nesting if token.type.startswith("s_") else 0
            if token.type in ("link_open", "link_close"):
                url = str(token.attrs.get("href", ""))
            if token.type in ("softbreak", "hardbreak"):
                paragraph.add_run(" " if token.type == "softbreak" else "\n")
            elif token.content:
                is_link = is_web_address(url) and url in self._addresses
                cited = 0 if url or token.type == "code_inline" else self._sources
                for run in _add_text(paragraph, token.content, cited):
                    run.bold, run.italic, run.font.strike = bool(bold), bool(italic), bool(struck)
                    if token.type == "code_inline":
                        run.font.name = "Consolas"
                    if is_link:
                        _link(paragraph, run, url=url)


def _add_text(paragraph: "Paragraph", text: str, sources: int) -> "list[Run]":
    """Add text whose citations of that many sources are links; return its runs."""
    runs: list[Run] = []
    for at, part in enumerate(_LABEL.split(safe_text(text))):
        runs.append(paragraph.add_run(part))
        if at % 2 and int(part[1:]) <= sources:
            _link(paragraph, runs[-1], anchor=part)
    return runs


def _add_code(paragraph: "Paragraph", code: str) -> None:
    run = paragraph.add_run(safe_text(code))
    run.font.name = "Consolas"
