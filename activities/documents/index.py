"""The full-text index of one set of documents: an SQLite file that is written once and then only read."""

import sqlite3
from collections.abc import Generator, Iterable
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple, cast

from activities.documents.parsed import Block, Part, Unit
from activities.documents.words import spaced

_BATCH: Final = 500
_SCHEMA: Final = """
    CREATE TABLE documents (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, unit TEXT NOT NULL);
    CREATE TABLE passages (
        id INTEGER PRIMARY KEY, document INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
        place TEXT NOT NULL, heading TEXT NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL
    );
    CREATE TABLE parts (
        document INTEGER NOT NULL, place TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
        text TEXT NOT NULL
    );
    CREATE INDEX parts_by_document ON parts (document, place, first);
    CREATE VIRTUAL TABLE words USING fts5 (
        path, heading, body, content='', tokenize='porter unicode61 remove_diacritics 2'
    );
"""


_BEST: Final = """
    SELECT passages.id, best.rank, documents.name, documents.unit, first, last, place, heading, kind, text
    FROM (
        SELECT rowid, bm25(words, 2.0, 2.5, 1.0) AS rank FROM words
        WHERE words MATCH ?1 AND (?2 IS NULL OR rowid IN (
            SELECT id FROM passages WHERE document = (SELECT id FROM documents WHERE name = ?2)
        ))
        ORDER BY rank LIMIT ?3
    ) AS best
    JOIN passages ON passages.id = best.rowid JOIN documents ON documents.id = passages.document
    ORDER BY best.rank, passages.document, passages.first
"""


class IndexWriter:
    """Fills a new index. Not for use by two threads at once."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        # The file is moved into place when it is complete, so a journal would protect nothing.
        self._connection.executescript("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;" + _SCHEMA + "BEGIN;")
        self._passages = 0

    def add(self, number: int, name: str, unit: Unit, rows: Iterable[Part | Block]) -> None:
        """Add one document; from then on its passages can be found."""
        self._connection.execute("INSERT INTO documents VALUES (?, ?, ?)", (number, name, unit))
        remaining = iter(rows)
        while batch := list(islice(remaining, _BATCH)):
            parts = [(number, row.place, row.first, row.last, row.text) for row in batch if isinstance(row, Part)]
            self._connection.executemany("INSERT INTO parts VALUES (?, ?, ?, ?, ?)", parts)
            self._add_passages(number, name, [row for row in batch if isinstance(row, Block)])

    def _add_passages(self, number: int, name: str, batch: list[Block]) -> None:
        spans = list(enumerate(batch, self._passages + 1))
        self._connection.executemany(
            "INSERT INTO passages VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            ((at, number, span.first, span.last, span.place, span.heading, span.kind, span.text) for at, span in spans),
        )
        path = spaced(name)
        self._connection.executemany(
            "INSERT INTO words (rowid, path, heading, body) VALUES (?, ?, ?, ?)",
            ((at, path, spaced(span.heading), spaced(span.text)) for at, span in spans),
        )
        self._passages += len(spans)

    def close(self) -> None:
        """Finish the index."""
        self._connection.execute("INSERT INTO words (words) VALUES ('optimize')")
        self._connection.execute("COMMIT")
        self._connection.close()

    def abandon(self) -> None:
        """Stop writing; the file is incomplete."""
        self._connection.close()


class Row(NamedTuple):
    """A stored passage."""

    id: int
    rank: float
    """BM25 rank: the more negative, the better."""
    document: str
    unit: Unit
    first: int
    last: int
    place: str
    heading: str
    kind: str
    text: str


class IndexReader:
    """A connection to a finished index, for use by one thread."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def passages(self) -> int:
        """Count the passages."""
        return int(self._connection.execute("SELECT max(id) FROM passages").fetchone()[0] or 0)

    def matching(self, expression: str) -> set[int]:
        """Find the passages that match an FTS5 expression."""
        rows = self._connection.execute("SELECT rowid FROM words WHERE words MATCH ?", (expression,))
        return {int(rowid) for (rowid,) in rows}

    def best(self, expression: str, document: str | None, limit: int) -> list[Row]:
        """Rank passages by BM25; titles and names weigh more than the text."""
        rows = self._connection.execute(_BEST, (expression, document, limit))
        return [Row(*row) for row in rows]

    def places(self, document: str) -> list[str]:
        """List the sheets of a workbook in order; any other document with text has one with an empty name."""
        rows = self._connection.execute(
            "SELECT place FROM parts JOIN documents ON documents.id = parts.document WHERE name = ?"
            " GROUP BY place ORDER BY min(parts.rowid)",
            (document,),
        )
        return [str(place) for (place,) in rows]

    def parts(self, document: str, place: str, first: int, last: int | None) -> tuple[Unit, list[Part]] | None:
        """Read the parts of a document, starting at `first`; None if the document is not indexed."""
        entry = self._connection.execute("SELECT id, unit FROM documents WHERE name = ?", (document,)).fetchone()
        if entry is None:
            return None
        rows = self._connection.execute(
            "SELECT first, last, text, place FROM parts WHERE document = ? AND place = ? AND last >= ? AND first <= ?"
            " ORDER BY first LIMIT 50",
            (entry[0], place, first, last if last is not None else 1 << 60),
        )
        return cast("Unit", entry[1]), [Part(*row) for row in rows]

    def extent(self, document: str, place: str) -> int:
        """Return the number of the last page, line, paragraph or row that can be read."""
        row = self._connection.execute(
            "SELECT max(last) FROM parts JOIN documents ON documents.id = parts.document WHERE name = ? AND place = ?",
            (document, place),
        ).fetchone()
        return int(row[0] or 0)


@contextmanager
def open_index(path: Path) -> Generator[IndexReader]:
    """Open a finished index for one thread."""
    # The file never changes again, so SQLite needs no locks and no journal.
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        yield IndexReader(connection)
