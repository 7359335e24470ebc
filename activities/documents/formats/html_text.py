"""Reads an HTML file as a reader sees it, with the line numbers of its source."""

import re
from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Final

from activities.documents.formats.grid import Cell, Grid, span
from activities.documents.formats.plain_text import read_text
from activities.documents.parsed import Block, BlockKind, HeadingPath, Parsed, Part, Source, UnreadableError
from activities.processes.limits import Allowance

NEVER_SHOWN: Final = frozenset({"script", "style", "template", "noscript", "svg", "iframe"})
_BESIDE_THE_TEXT: Final = frozenset({"nav", "footer", "aside", "form", "button", "select"})
_INLINE: Final = frozenset(
    """
    a abbr b bdi bdo cite code data del dfn em font i img input ins kbd label mark q s samp small span strong sub sup
    time tt u var wbr
    """.split()  # noqa: SIM905 - a list of words reads best as text
)
_WITHOUT_END: Final = frozenset("area base br col embed hr img input link meta source track wbr".split())  # noqa: SIM905 - as above
_ENDS_UNSAID: Final = frozenset({"p", "li", "dt", "dd", "tr", "td", "th", "option"})
_HIDING: Final = re.compile(r"(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_BLOCKS_A_PIECE: Final = 100
_HEADINGS: Final = {f"h{level}": level for level in range(1, 7)}
_ENDS_ROW: Final = frozenset({"table", "thead", "tbody", "tfoot", "tr", "caption", "pre", *_HEADINGS})
"""Any other element in a row belongs to the current cell."""
_REMEMBERED: Final = frozenset({"title", "a", "sup"})
_RAISED: Final = re.compile(r"\s*[-+−]?\d")


def parse(source: Source, allowance: Allowance) -> Parsed:
    """Split a page into blocks under its headings, without menus and scripts."""
    text, doubt = read_text(source.path)
    blocks, headings = read_blocks(text, allowance, NEVER_SHOWN | _BESIDE_THE_TEXT)
    if not blocks:
        raise UnreadableError("The page has no text.")
    parts = [Part(block.first, block.last, block.text) for block in blocks]
    return Parsed("line", text.count("\n") + 1, blocks, parts, headings, unread=doubt)


def read_blocks(text: str, allowance: Allowance, skipped: frozenset[str]) -> tuple[list[Block], list[str]]:
    """Read the blocks and headings of a page, skipping some elements unless nothing else is left."""
    for left_out in (skipped, NEVER_SHOWN):
        reader = _Reader(left_out, allowance)
        reader.feed(text)
        reader.close()
        reader.end_block()
        if reader.blocks:
            return reader.blocks, reader.path.all
    return [], []


def _is_hidden(attributes: list[tuple[str, str | None]]) -> bool:
    return any(name == "hidden" or (name == "style" and _HIDING.search(value or "")) for name, value in attributes)


class _Reader(HTMLParser):
    def __init__(self, skipped: frozenset[str], allowance: Allowance) -> None:
        super().__init__(convert_charrefs=True)
        self._allowance = allowance
        self._skipped = skipped
        self._skipping: list[str] = []
        self._heading: int | None = None
        self._in_pre = self._in_item = False
        self._inside = set[str]()
        self._grids = [Grid()]
        """The grids of the current table and its enclosing tables, innermost last."""
        self._text: list[str] = []
        self._cells: list[tuple[Cell, list[str]]] = []
        """Cells of the current row with their text; `_text` is the last one's."""
        self._plain_characters = 0
        """Number of characters outside links: a list item without any is a menu."""
        self._first = self._last = 0
        self.blocks: list[Block] = []
        self.path = HeadingPath()

    def parse_html_declaration(self, i: int) -> int:
        """Skip `<![…>` as browsers do; the standard parser raises `AssertionError` for an unknown one."""
        if self.rawdata.startswith("<![", i):
            return self.parse_bogus_comment(i)
        return super().parse_html_declaration(i)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if (self._skipping == [tag] and tag in _ENDS_UNSAID) or (self._skipping == ["p"] and tag not in _INLINE):
            self._skipping.clear()
        if self._skipping or tag in self._skipped or _is_hidden(attrs):
            self._skipping += [] if tag in _WITHOUT_END else [tag]
        elif tag in _REMEMBERED:
            self._inside.add(tag)
        elif tag == "br":
            self._text.append("\n" if self._in_pre else " ")
        elif tag in {"td", "th"}:
            self._begin_cell(dict(attrs))
        elif self._cells and tag not in _INLINE | _ENDS_ROW:
            self._text.append(" ")
        elif tag not in _INLINE:
            self.end_block()
            self._grids += [Grid()] if tag == "table" else []
            self._in_pre = tag == "pre"
            self._heading = _HEADINGS.get(tag)
            self._in_item = tag == "li"
            if self._in_item:
                self._text.append("- ")

    def _begin_cell(self, said: Mapping[str, str | None]) -> None:
        if not self._cells:
            self.end_block()
        self._text = []
        self._cells.append((Cell("", span(said.get("colspan")), span(said.get("rowspan"))), self._text))

    def handle_endtag(self, tag: str) -> None:
        if self._skipping and tag not in self._skipping and self._skipping[0] in _ENDS_UNSAID:
            self._skipping.clear()
        if tag in self._skipping:
            while self._skipping.pop() != tag:
                pass
        elif tag in _REMEMBERED:
            self._inside.discard(tag)
        elif self._cells and tag not in _INLINE | _ENDS_ROW:
            self._text.append(" ")
        elif tag not in _INLINE | {"td", "th", "br"}:
            self.end_block()
            if tag == "table" and len(self._grids) > 1:
                self._grids.pop()

    def handle_data(self, data: str) -> None:
        if self._skipping or "title" in self._inside:
            return
        stripped = data.strip()
        if stripped:
            line = self.getpos()[0] + data[: data.index(stripped[0])].count("\n")
            self._first = self._first or line
            self._last = line + stripped.count("\n")
            if "a" not in self._inside:
                self._plain_characters += len(stripped)
        if "sup" in self._inside and _RAISED.match(data) and "".join(self._text[-1:])[-1:].isdigit():
            # A superscript after a figure is an exponent or, if it is a link, a footnote.
            data = f" [{stripped}]" if "a" in self._inside else f"^{stripped}"
        self._text.append(data)

    def end_block(self) -> None:
        """Close the current block, if it has text."""
        cells = (cell._replace(text="".join(words)) for cell, words in self._cells)
        text = self._grids[-1].row(cells) if self._cells else "".join(self._text)
        text = text.strip("\n").rstrip() if self._in_pre else " ".join(text.split())
        if self._first and text.strip("- "):
            if self._heading is not None:
                self.path.enter(self._heading, text.rstrip("¶# "))
            elif self._plain_characters or not self._in_item:
                kind: BlockKind = "code" if self._in_pre else "table" if self._cells else "text"
                self.blocks.append(Block(text, self._first, self._last, str(self.path), kind))
                if not len(self.blocks) % _BLOCKS_A_PIECE:
                    self._allowance.note()
        self._text.clear()
        self._cells.clear()
        self._first = self._last = 0
        self._heading = None
        self._in_pre = self._in_item = False
        self._plain_characters = 0
