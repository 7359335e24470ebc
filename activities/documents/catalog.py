"""A short description of a session's documents, used for planning and shown to models."""

from collections.abc import Iterable, Iterator
from urllib.parse import unquote

from chargehand.contracts import Contract, left_out


class Column(Contract):
    """A column of a table."""

    name: str
    """The column's name in SQL, unquoted."""
    title: str = ""
    """The column's title in the document."""
    type: str
    """DuckDB type: VARCHAR, BIGINT, DOUBLE, DATE, …"""
    examples: tuple[str, ...] = ()
    """Distinct values as text, most frequent first, at most 20; all values if `distinct` is not larger."""
    distinct: int = 0


class Table(Contract):
    """A table for `query_data`."""

    name: str
    """The table's name in SQL, unquoted; unique in the session: letters, digits and `_`."""
    document: str
    """Name of the document that contains the table."""
    sheet: str = ""
    rows: int = 0
    columns: tuple[Column, ...] = ()


class DocumentEntry(Contract):
    """A document that was read."""

    name: str
    """Relative path, unique in the session."""
    kind: str
    """The type according to `activities.documents.formats.registry`: pdf, docx, csv, picture, txt, …"""
    bytes: int = 0
    units: int = 0
    """Pages of a PDF, lines of a text, rows of a table."""
    headings: tuple[str, ...] = ()
    """Titles in reading order, at most 40."""
    opening: str = ""
    """The document's first words, at most 200 characters."""
    pictures: tuple[int, ...] = left_out(())
    """Pages or paragraphs that are pictures, which only a vision model can read."""
    problem: str = ""
    """Why it could not be read, worded for the user; empty if it could."""


class Catalog(Contract):
    """All documents of a session."""

    documents: tuple[DocumentEntry, ...] = ()
    tables: tuple[Table, ...] = ()
    skipped: tuple[str, ...] = ()
    """`name: reason` for files, or parts of them, that were left out."""

    def outline(self, addresses: Iterable[str]) -> "Catalog":
        """Describe the documents by the names in the request's addresses alone, without their content."""
        named = {unquote(address).rpartition("/")[2] for address in addresses}
        entries = (
            DocumentEntry(
                name=entry.name if entry.name in named else f"document {number}",
                kind=entry.kind,
                bytes=entry.bytes,
                units=entry.units,
            )
            for number, entry in enumerate(self.documents, start=1)
        )
        return Catalog(documents=tuple(entries))

    def own_words(self) -> Iterator[str]:
        """List the words in this description that are the user's own."""
        for entry in self.documents:
            yield from (entry.name, entry.opening, *entry.headings)
        for table in self.tables:
            yield from (table.document, table.sheet)
            for column in table.columns:
                yield from (column.title, *column.examples)
