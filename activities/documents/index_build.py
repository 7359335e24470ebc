"""Builds the index of one set of documents: fetch, parse, index, load tables, describe."""

import asyncio
import contextlib
import errno
import hashlib
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack, aclosing
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import Final

from activities.documents.artifacts import ArtifactError
from activities.documents.catalog import Catalog, Column, DocumentEntry, Table
from activities.documents.formats.registry import Format, format_of, size_problem
from activities.documents.index import IndexWriter
from activities.documents.locations import DocumentSources, Listing
from activities.documents.parsed import NotADocumentError, Result, Sheet, read_result
from activities.documents.parsing import Answer, Job, parse_in_child
from activities.documents.sql_names import sql_name
from activities.processes.child import ChildError, ChildProcess, ChildTimeoutError

INDEX_FILE: Final = "index.sqlite"
TABLES_FILE: Final = "tables.duckdb"
CATALOG_FILE: Final = "catalog.json"

_MOST_TABLES: Final = 200
_SECONDS_A_TABLE: Final = 30
"""Processor time for one table."""
_LEAST_FREE_BYTES: Final = 1 << 20
"""A disk with less free space counts as full."""
_BUSY: Final = 4
"""Wall-clock time per second of processor time; a table that times out on a busy machine stays lost."""


def picture_file(document: str, page: int) -> str:
    """Name the file of a page or paragraph that is a picture."""
    return f"picture-{hashlib.sha256(f'{page}:{document}'.encode()).hexdigest()}"


class LibraryBuild:
    """A single build, into an empty directory."""

    def __init__(self, directory: Path, sources: DocumentSources, listing: Listing) -> None:
        self._directory = directory
        self._inputs = directory / "inputs"
        """Copies of the documents and the files parsed from them; removed at the end."""
        self._sources = sources
        self._files = listing.files
        self._skipped = list(listing.skipped)
        self._stopped = threading.Event()
        self._formats: dict[int, Format] = {}
        self._jobs: list[Job] = []
        self._entries: dict[int, DocumentEntry] = {}
        self._tabular: dict[int, Result] = {}

    async def run(self) -> Catalog:
        """Build everything; the catalog is written last."""
        self._inputs.mkdir()
        self._formats = dict(self._readable())
        async with AsyncExitStack() as stack:
            child = None
            if any(document.has_tables for document in self._formats.values()):
                # Started first: it imports DuckDB while the documents are parsed.
                child = await stack.enter_async_context(ChildProcess(f"{__package__}.table_process"))
            await self._index()
            if self._tabular and child is None:
                child = await stack.enter_async_context(ChildProcess(f"{__package__}.table_process"))
            tables = await self._load_tables(child) if child is not None else []
        catalog = Catalog(
            documents=tuple(self._entries[number] for number in sorted(self._entries)),
            tables=tuple(tables),
            skipped=tuple(self._skipped),
        )
        await asyncio.to_thread(self._finish, catalog)
        return catalog

    def _readable(self) -> Iterator[tuple[int, Format]]:
        for number, file in enumerate(self._files):
            try:
                document = format_of(file.name)
            except NotADocumentError as error:
                self._skipped.append(f"{file.name}: {error}")
                continue
            if problem := file.problem or size_problem(document, file.bytes):
                self._describe(number, document, Result(problem=problem))
            else:
                yield number, document

    async def _index(self) -> None:
        writer = await asyncio.to_thread(IndexWriter, self._directory / INDEX_FILE)
        # Threads cannot be cancelled: each is asked to stop, and awaited since it writes into the directory.
        taking: asyncio.Future[None] = asyncio.ensure_future(asyncio.to_thread(self._fetch_all))
        try:
            await asyncio.shield(taking)
            async with aclosing(parse_in_child(self._jobs, self._inputs)) as results:
                # While some documents are added to the index, the child parses the next ones.
                async for answers in results:
                    await asyncio.shield(taking)
                    taking = asyncio.ensure_future(asyncio.to_thread(self._take_all, answers, writer))
            await asyncio.shield(taking)
        except BaseException:
            self._stopped.set()
            with contextlib.suppress(Exception):
                await asyncio.shield(taking)
            writer.abandon()
            raise
        await asyncio.to_thread(writer.close)

    def _take_all(self, answers: list[Answer], writer: IndexWriter) -> None:
        for job, answer in answers:
            if not self._stopped.is_set():
                self._take(job, answer, writer)

    def _take(self, job: Job, answer: Path | str, writer: IndexWriter) -> None:
        result = Result(problem=answer) if isinstance(answer, str) else read_result(answer)
        if result.unsupported:
            self._skipped.append(f"{job.name}: {result.unsupported}")
            return
        for picture in result.pictures:
            Path(picture.path).rename(self._directory / picture_file(job.name, picture.page))
        if result.problem:
            _require_space(self._inputs)
        else:
            rows = takewhile(lambda _: not self._stopped.is_set(), result.rows())
            writer.add(job.number, job.name, result.unit, rows)
        if result.path is not None:
            result.path.unlink()
        self._describe(job.number, job.format, result)
        if result.unread:
            self._skipped.append(f"{job.name}: {result.unread}")
        if result.sheets:
            self._tabular[job.number] = result

    def _describe(self, number: int, document: Format, result: Result) -> None:
        file = self._files[number]
        self._entries[number] = DocumentEntry(
            name=file.name,
            kind=document.kind,
            bytes=file.bytes,
            units=result.units,
            headings=result.headings,
            opening=result.opening,
            pictures=tuple(picture.page for picture in result.pictures),
            problem=result.problem,
        )

    def _fetch_all(self) -> None:
        for number, document in self._formats.items():
            if self._stopped.is_set():
                return
            if (path := self._fetch(number)) is not None:
                file = self._files[number]
                self._jobs.append(Job(document, file.name, path, file.bytes, number))

    def _fetch(self, number: int) -> Path | None:
        file = self._files[number]
        try:
            return self._sources.fetch(file, self._inputs / str(number))
        except ArtifactError as error:
            problem = f"It was not found: {error}."
        except OSError:
            _require_space(self._inputs)
            problem = "It cannot be read: it is gone, it is not a regular file, or the worker has no permission."
        self._describe(number, self._formats[number], Result(problem=problem))
        return None

    async def _load_tables(self, child: ChildProcess) -> list[Table]:
        tables: list[Table] = []
        database = self._directory / TABLES_FILE
        used_names: set[str] = set()
        for number in sorted(self._tabular):
            document, sheets = self._files[number].name, self._tabular[number].sheets
            stem = PurePosixPath(document).stem
            for sheet in sheets:
                table = sql_name(f"{stem} {sheet.name}" if len(sheets) > 1 else stem, used_names, "data")
                if len(tables) >= _MOST_TABLES:
                    self._skipped.append(f"{document} {sheet.name}: a session has {_MOST_TABLES} tables at most")
                    continue
                loaded = await _load_table(child, database, table, document, sheet)
                if isinstance(loaded, Table):
                    tables.append(loaded)
                else:
                    self._skipped.append(f"{document}{f' ({sheet.name})' if sheet.name else ''}: {loaded}")
            self._count_rows(number, tables)
        # From now on, the database is opened read-only.
        await child.ask({"database": str(database), "close": True}, _BUSY * _SECONDS_A_TABLE)
        return tables

    def _count_rows(self, number: int, tables: list[Table]) -> None:
        entry = self._entries[number]
        rows = sum(table.rows for table in tables if table.document == entry.name)
        if rows:
            self._entries[number] = entry.replace(units=rows)

    def _finish(self, catalog: Catalog) -> None:
        shutil.rmtree(self._inputs)
        (self._directory / CATALOG_FILE).write_text(catalog.model_dump_json(), encoding="utf-8")


async def _load_table(child: ChildProcess, database: Path, table: str, document: str, sheet: Sheet) -> Table | str:
    """Load one table; return its problem if it cannot be loaded."""
    question = {
        "database": str(database),
        "table": table,
        "path": sheet.path,
        "delimiter": sheet.delimiter,
        "header": sheet.header,
        "processor_seconds": _SECONDS_A_TABLE,
    }
    try:
        answer = await child.ask(question, _BUSY * _SECONDS_A_TABLE)
    except ChildTimeoutError:
        return f"the table takes longer than {_BUSY * _SECONDS_A_TABLE} s to load: split it"
    except ChildError:
        return "the table needs more memory or time than a table may: split it"
    if problem := answer.get("problem"):
        return f"the table cannot be loaded: {problem}"
    return Table(
        name=table,
        document=document,
        sheet=sheet.name,
        rows=answer["rows"],
        columns=tuple(Column.model_validate(column) for column in answer["columns"]),
    )


def _require_space(directory: Path) -> None:
    """Attribute failures on a full disk to the worker and not to a document, so that they are retried."""
    if shutil.disk_usage(directory).free < _LEAST_FREE_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(directory))
