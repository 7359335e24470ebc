"""Build the index of one set of documents: fetch, parse, index, load tables, describe."""

import asyncio
import contextlib
import shutil
import threading
from contextlib import AsyncExitStack
from pathlib import Path, PurePosixPath
from typing import Final

from activities.data.load import TableLoader, TableSource
from activities.documents.artefacts import ArtefactError
from activities.documents.catalog import Catalog, DocumentEntry, Table
from activities.documents.index import IndexWriter
from activities.documents.parsed import Parsed, failed_parse
from activities.documents.parsing import (
    DocumentKind,
    Job,
    NotADocumentError,
    kind_of,
    needs_child,
    parse_in_child,
    parse_plain,
    size_problem,
)
from activities.documents.sources import DocumentSources, Found, Listing
from activities.documents.tables import sql_name

INDEX_FILE: Final = "index.sqlite"
TABLES_FILE: Final = "tables.duckdb"
TABLES_DIRECTORY: Final = "tables"
CATALOG_FILE: Final = "catalog.json"

_MOST_HEADINGS: Final = 40
_OPENING_CHARACTERS: Final = 200
_MOST_TABLES: Final = 200


class LibraryBuild:
    """One build into an empty directory that nobody else uses."""

    def __init__(self, directory: Path, sources: DocumentSources, listing: Listing) -> None:
        self._directory = directory
        self._sources = sources
        self._files = listing.files
        self._skipped = list(listing.skipped)
        self._stopped = threading.Event()
        self._kinds: dict[int, DocumentKind] = {}
        self._entries: dict[int, DocumentEntry] = {}
        self._tabular: dict[int, Parsed] = {}

    async def run(self) -> Catalog:
        """Build everything; the catalog is written last."""
        (self._directory / "inputs").mkdir()
        (self._directory / TABLES_DIRECTORY).mkdir()
        self._kinds = dict(self._readable())
        async with AsyncExitStack() as stack:
            loader = None
            if {"csv", "xlsx", "ods"} & set(self._kinds.values()):
                # Started first: it loads DuckDB while the documents are parsed.
                loader = await stack.enter_async_context(TableLoader(self._directory / TABLES_FILE))
            await self._index()
            tables = await self._load_tables(loader) if loader is not None else []
        catalog = Catalog(
            documents=tuple(self._entries[number] for number in sorted(self._entries)),
            tables=tuple(tables),
            skipped=tuple(self._skipped),
        )
        await asyncio.to_thread(self._finish, catalog)
        return catalog

    def _readable(self) -> list[tuple[int, DocumentKind]]:
        kinds: list[tuple[int, DocumentKind]] = []
        for number, file in enumerate(self._files):
            try:
                kind = kind_of(file.name)
            except NotADocumentError as error:
                self._skipped.append(f"{file.name}: {error}")
                continue
            if problem := file.problem or size_problem(kind, file.bytes):
                self._note(number, kind, failed_parse(problem))
            else:
                kinds.append((number, kind))
        return kinds

    async def _index(self) -> None:
        writer = await asyncio.to_thread(IndexWriter, self._directory / INDEX_FILE)
        # Threads cannot be cancelled: each is told to stop, and waited for since it writes into the directory.
        plain = asyncio.ensure_future(asyncio.to_thread(self._take_plain, writer))
        try:
            jobs = await asyncio.to_thread(self._jobs)
            parsed = await parse_in_child(jobs, self._directory / TABLES_DIRECTORY)
            await asyncio.shield(plain)
            plain = asyncio.ensure_future(asyncio.to_thread(self._take_parsed, parsed, writer))
            await asyncio.shield(plain)
        except BaseException:
            self._stopped.set()
            with contextlib.suppress(Exception):
                await asyncio.shield(plain)
            writer.abandon()
            raise
        await asyncio.to_thread(writer.close)

    def _take_plain(self, writer: IndexWriter) -> None:
        for number, kind in self._kinds.items():
            if self._stopped.is_set():
                return
            if needs_child(kind):
                continue
            file = self._files[number]
            path = self._fetch(number)
            if path is None:
                continue
            try:
                parsed = parse_plain(kind, file.name, path, self._csv_path(number))
            except NotADocumentError as error:
                self._skipped.append(f"{file.name}: {error}")
                continue
            self._take(number, parsed, writer)

    def _take_parsed(self, parsed: dict[int, Parsed], writer: IndexWriter) -> None:
        for number in sorted(parsed):
            if self._stopped.is_set():
                return
            self._take(number, parsed[number], writer)

    def _take(self, number: int, parsed: Parsed, writer: IndexWriter) -> None:
        if not parsed.problem:
            writer.add(number, self._files[number].name, parsed)
        self._note(number, self._kinds[number], parsed)
        if parsed.sheets:
            parsed.blocks.clear()
            parsed.parts.clear()
            self._tabular[number] = parsed

    def _note(self, number: int, kind: DocumentKind, parsed: Parsed) -> None:
        file = self._files[number]
        opening = next((block.text for block in parsed.blocks if block.kind == "text"), "")
        self._entries[number] = DocumentEntry(
            name=file.name,
            kind=kind,
            bytes=file.bytes,
            units=parsed.units,
            headings=tuple(dict.fromkeys(parsed.headings))[:_MOST_HEADINGS],
            opening=" ".join(opening.split())[:_OPENING_CHARACTERS],
            problem=parsed.problem,
        )

    def _jobs(self) -> list[Job]:
        jobs: list[Job] = []
        for number, kind in self._kinds.items():
            if needs_child(kind) and (path := self._fetch(number)) is not None:
                jobs.append(Job(kind, path, number))
        return jobs

    def _fetch(self, number: int) -> Path | None:
        file = self._files[number]
        try:
            return self._sources.fetch(file, self._directory / "inputs" / str(number))
        except ArtefactError as error:
            problem = f"It was not found: {error}."
        except OSError:
            problem = "It cannot be read: it is gone, it is not a regular file, or the worker has no permission."
        self._note(number, self._kinds[number], failed_parse(problem))
        return None

    def _csv_path(self, number: int) -> Path:
        return self._directory / TABLES_DIRECTORY / f"{number}-0.csv"

    async def _load_tables(self, loader: TableLoader) -> list[Table]:
        tables: list[Table] = []
        taken: set[str] = set()
        for number in sorted(self._tabular):
            for source in self._table_sources(self._files[number], self._tabular[number], taken):
                if len(tables) >= _MOST_TABLES:
                    self._skipped.append(
                        f"{source.document} {source.sheet}: a session has {_MOST_TABLES} tables at most"
                    )
                    continue
                loaded = await loader.load(source)
                if isinstance(loaded, Table):
                    tables.append(loaded)
                    # The CSV file takes the table's name, for those who want the file itself.
                    await asyncio.to_thread(source.path.rename, source.path.with_name(f"{loaded.name}.csv"))
                else:
                    self._skipped.append(f"{source.document}{f' ({source.sheet})' if source.sheet else ''}: {loaded}")
            self._count_rows(number, tables)
        await loader.finish()
        return tables

    def _table_sources(self, file: Found, parsed: Parsed, taken: set[str]) -> list[TableSource]:
        stem = PurePosixPath(file.name).stem
        several = len(parsed.sheets) > 1
        return [
            TableSource(
                table=sql_name(f"{stem} {sheet.name}" if several else stem, taken, "data"),
                document=file.name,
                sheet=sheet.name,
                path=Path(sheet.path),
                delimiter=sheet.delimiter,
                header=sheet.header,
            )
            for sheet in parsed.sheets
        ]

    def _count_rows(self, number: int, tables: list[Table]) -> None:
        entry = self._entries[number]
        rows = sum(table.rows for table in tables if table.document == entry.name)
        if rows:
            self._entries[number] = entry.model_copy(update={"units": rows})

    def _finish(self, catalog: Catalog) -> None:
        shutil.rmtree(self._directory / "inputs")
        (self._directory / CATALOG_FILE).write_text(catalog.model_dump_json(), encoding="utf-8")
