"""Numbers the paragraphs and table rows of a text without pages, from 1, in reading order."""

from collections.abc import Iterable

from activities.documents.formats.plain_text import line_parts
from activities.documents.parsed import Block, BlockKind, HeadingPath, Parsed, UnreadableError


class Paragraphs:
    """The content read so far."""

    def __init__(self) -> None:
        self.headings = HeadingPath()
        self._lines: list[str] = []
        self._blocks: list[Block] = []

    def add_title(self, level: int, text: str) -> None:
        """Enter the section that a heading begins."""
        self._lines.append(text)
        self.headings.enter(level, text)

    def add(self, text: str, kind: BlockKind = "text") -> None:
        """Add a paragraph, list item or table row under the current headings."""
        self.add_under(str(self.headings), text, kind)

    def add_notes(self, notes: Iterable[str]) -> None:
        """Add a footnote below the paragraph or row that refers to it."""
        for note in filter(None, notes):
            self.add(f"Note: {note}")

    def add_under(self, heading: str, text: str, kind: BlockKind) -> None:
        """Add a paragraph whose headings were read with it."""
        self._lines.append(text)
        self._blocks.append(Block(text, len(self._lines), len(self._lines), heading, kind))

    @property
    def count(self) -> int:
        """The number of paragraphs so far."""
        return len(self._lines)

    def parsed(self) -> Parsed:
        """Finish the text. Raises `UnreadableError` if it is empty."""
        if not self._lines:
            raise UnreadableError("It has no text.")
        return Parsed("paragraph", len(self._lines), self._blocks, line_parts(self._lines), self.headings.all)
