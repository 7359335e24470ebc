"""A session's documents, ready to be searched, read and queried: indexed once per set of documents."""

import asyncio
import hashlib
import json
import secrets
import shutil
import time
from collections import OrderedDict
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from activities.contracts.tool import READING_CHARACTERS
from activities.documents.artifacts import Artifacts
from activities.documents.catalog import Catalog
from activities.documents.cleanup import mark_used
from activities.documents.downloads import Downloads
from activities.documents.index import IndexReader, open_index
from activities.documents.index_build import CATALOG_FILE, INDEX_FILE, TABLES_FILE, LibraryBuild, picture_file
from activities.documents.locations import DocumentSources, Listing
from activities.documents.names import Named, UnknownDocumentError, resolve
from activities.documents.parsed import Part, Unit
from activities.documents.passages import Place, reference
from activities.documents.ranking import SearchResult, search
from activities.single_flight import SingleFlight
from chargehand.contracts import Contract, Source

_FORMAT: Final = 9
"""Raise this when indexes made by older code must be rebuilt."""
_OPEN_LIBRARIES: Final = 16
_MOST_SHEETS: Final = 30
_STALE_AFTER_SECONDS: Final = 24 * 3_600


class Reading(Contract):
    """A section of a document."""

    document: str
    unit: Unit
    """What `first` and `last` count: page, line, paragraph or row."""
    first: int
    last: int
    total: int
    """Number of the document's last page, line, paragraph or row."""
    next: int | None
    """Where to continue; None at the end."""
    sources: tuple[Source, ...] = ()
    """One for each page, or one for everything that was read."""
    is_cut: bool = False
    """Whether a single page, line, paragraph or row was too long to fit; the rest of it cannot be read."""


class OpenLibrary:
    """The documents of one session."""

    def __init__(self, directory: Path, catalog: Catalog) -> None:
        self.catalog = catalog
        self.database: Path | None = directory / TABLES_FILE if catalog.tables else None
        """All tables of the catalog, for DuckDB."""
        self._directory = directory
        self._index = directory / INDEX_FILE

    async def search(self, query: str, limit: int = 6, document: str | None = None) -> SearchResult:
        """Find passages, and the words of the question that no document contains. Raises `UnknownDocumentError`."""
        name = self._resolve(document).document if document is not None else None
        return await asyncio.to_thread(self._find, query, limit, name)

    async def read(self, document: str, first: int | None = None, last: int | None = None) -> Reading:
        """Read pages, lines, paragraphs or rows `first` to `last`, as many as fit; `next` states where to continue.

        The document is named as in `resolve`; a place in that name is the start if `first` is missing. Raises
        `UnknownDocumentError`.
        """
        named = self._resolve(document)
        return await asyncio.to_thread(self._read, named, first or named.first, last)

    async def picture(self, name: str) -> bytes | None:
        """Read a picture by its place, such as `photo.png#page=1` or `plan.docx#paragraph=7`; None if gone."""
        document, _, place = name.rpartition("#")
        path = self._directory / picture_file(document, int(place.partition("=")[2]))
        try:
            return await asyncio.to_thread(path.read_bytes)
        except FileNotFoundError:
            return None

    def pictures_of(self, reading: Reading) -> tuple[str, ...]:
        """Name the pages or paragraphs of a reading that are pictures."""
        entry = next(entry for entry in self.catalog.documents if entry.name == reading.document)
        return tuple(
            reference(entry.name, reading.unit, page, page)
            for page in entry.pictures
            if reading.first <= page <= reading.last
        )

    async def text_at(self, named: Place) -> str:
        """Read the whole text of a place, however long. Raises `UnknownDocumentError`."""
        self._require(named.document)
        return await asyncio.to_thread(self._text_at, named)

    def _text_at(self, named: Place) -> str:
        texts: list[str] = []
        with open_index(self._index) as index:
            first = named.first
            while first <= named.last:
                answer = index.parts(named.document, named.place, first, named.last)
                if answer is None or answer[0] != named.unit:
                    raise UnknownDocumentError(f"{named.document} has no {named.unit} to look at")
                pieces = [piece for part in answer[1] for piece in _pieces(part, named.unit)]
                if not pieces:
                    break
                texts += [piece.text for piece in pieces if piece.last >= first and piece.first <= named.last]
                first = pieces[-1].last + 1
        return "\n".join(texts)

    def _find(self, query: str, limit: int, document: str | None) -> SearchResult:
        with open_index(self._index) as index:
            return search(index, query, limit, document)

    def _read(self, named: Named, first: int, last: int | None) -> Reading:
        name = named.document
        with open_index(self._index) as index:
            place = _place(index, named)
            answer = index.parts(name, place, first, last)
            if answer is None:
                raise UnknownDocumentError(f"{name} has no text to read")
            unit, parts = answer
            total = index.extent(name, place)
        pieces = [piece for part in parts for piece in _pieces(part, unit) if piece.last >= first]
        if last is not None:
            pieces = [piece for piece in pieces if piece.first <= last]
        if not pieces:
            return Reading(document=name, unit=unit, first=first, last=first, total=total, next=None)
        selected, is_cut = _fit(pieces)
        end = selected[-1].last
        groups = [[piece] for piece in selected] if unit == "page" else [selected]
        return Reading(
            document=name,
            unit=unit,
            first=selected[0].first,
            last=end,
            total=total,
            next=end + 1 if end < total else None,
            sources=tuple(
                Source(
                    ref=reference(name, unit, group[0].first, group[-1].last, place),
                    title=name,
                    quote="\n".join(piece.text for piece in group),
                )
                for group in groups
            ),
            is_cut=is_cut,
        )

    def _resolve(self, document: str) -> Named:
        named = resolve(document, self.catalog)
        self._require(named.document)
        return named

    def _require(self, document: str) -> None:
        entry = next((entry for entry in self.catalog.documents if entry.name == document), None)
        if entry is None:
            raise UnknownDocumentError(f"there is no document '{document}'")
        if entry.problem:
            raise UnknownDocumentError(f"{document} could not be read. {entry.problem.removesuffix('.')}")


class DocumentLibrary:
    """All sets of documents that this worker has indexed, below one directory that workers may share."""

    def __init__(
        self,
        artifacts: Artifacts,
        index_root: Path,
        allowed_roots: tuple[Path, ...] = (),
        downloads: Downloads | None = None,
    ) -> None:
        self.sources = DocumentSources(artifacts, allowed_roots, downloads)
        """Where the documents themselves come from."""
        self._index_root = index_root
        self._opened: OrderedDict[str, OpenLibrary] = OrderedDict()
        self._builds = SingleFlight[OpenLibrary]()

    async def open(self, documents: tuple[str, ...]) -> OpenLibrary:
        """Open the documents of these URIs, and index them if no worker has done so yet.

        The catalog lists documents that cannot be read, each with its problem.
        """
        listing = await self.sources.find(documents)
        key = await asyncio.to_thread(_key, listing)
        opened = self._opened.get(key)
        if opened is None or not await asyncio.to_thread(mark_used, self._index_root / key):
            opened = await self._builds.run(key, lambda: self._open(key, listing))
        self._opened[key] = opened  # other sessions may have closed it meanwhile
        self._opened.move_to_end(key)
        while len(self._opened) > _OPEN_LIBRARIES:
            self._opened.popitem(last=False)
        return opened

    async def _open(self, key: str, listing: Listing) -> OpenLibrary:
        directory = self._index_root / key
        await asyncio.to_thread(mark_used, directory)
        catalog = await asyncio.to_thread(_read_catalog, directory)
        if catalog is None:
            catalog = await self._build(directory, listing)
        return OpenLibrary(directory, catalog)

    async def _build(self, directory: Path, listing: Listing) -> Catalog:
        building = self._index_root / f".building-{directory.name[:8]}-{secrets.token_hex(8)}"
        await asyncio.to_thread(_remove_stale, self._index_root)
        # Not in a thread, which outlives a cancellation and would move the folder while it is removed.
        building.mkdir(parents=True)
        try:
            catalog = await LibraryBuild(building, self.sources, listing).run()
            try:
                building.rename(directory)
            except OSError:
                # Another worker may have finished first; its index is as good as this one.
                finished = await asyncio.to_thread(_read_catalog, directory)
                if finished is None:
                    raise
                return finished
            return catalog
        finally:
            await asyncio.shield(asyncio.to_thread(shutil.rmtree, building, ignore_errors=True))


def _key(listing: Listing) -> str:
    identity = {
        "format": _FORMAT,
        "duckdb": _duckdb_version(),
        "files": [(file.name, file.identity) for file in listing.files],
        "skipped": listing.skipped,
    }
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()


@cache
def _duckdb_version() -> str:
    """Return DuckDB's version, which is part of the key since only later versions can read its files."""
    from importlib import metadata

    return metadata.version("duckdb")


def _remove_stale(index_root: Path) -> None:
    """Remove the unfinished builds of killed workers."""
    for stale in index_root.glob(".building-*"):
        with suppress(OSError):
            if time.time() - stale.stat().st_mtime > _STALE_AFTER_SECONDS:
                shutil.rmtree(stale, ignore_errors=True)


def _read_catalog(directory: Path) -> Catalog | None:
    try:
        return Catalog.model_validate_json((directory / CATALOG_FILE).read_bytes())
    except FileNotFoundError:
        return None
    except ValueError:
        # The disk was full or the machine lost power, so the index has to be built again.
        shutil.rmtree(directory, ignore_errors=True)
        return None


def _pieces(part: Part, unit: Unit) -> list[Part]:
    """Split a part into lines if each has its own number; otherwise return the part."""
    lines = part.text.split("\n")
    if unit == "page" or len(lines) != part.last - part.first + 1:
        return [part]
    return [Part(at, at, line, part.place) for at, line in enumerate(lines, part.first)]


def _place(index: IndexReader, named: Named) -> str:
    """Find a sheet, ignoring case; without a name, the first sheet."""
    places = index.places(named.document)
    if named.sheet is None or named.sheet in places:
        return named.sheet or (places[0] if places else "")
    sheet_name = named.sheet.partition("!")[0].casefold()
    matches = [place for place in places if place and place.casefold() == sheet_name]
    if len(matches) == 1:
        return matches[0]
    sheets = ", ".join(filter(None, places[:_MOST_SHEETS]))
    there = f"its sheets are: {sheets}" if sheets else "read it by its name alone"
    raise UnknownDocumentError(f"{named.document} has no part '{named.sheet[:100]}'; {there}")


def _fit(pieces: list[Part]) -> tuple[list[Part], bool]:
    """Take as many pieces as fit into one reading; if the first alone is too long, return its beginning and True."""
    length = 0
    count = 0
    for piece in pieces:
        length += len(piece.text) + 1
        if length > READING_CHARACTERS and count:
            break
        count += 1
    selected = pieces[:count]
    is_cut = len(selected[0].text) > READING_CHARACTERS
    return [selected[0]._replace(text=selected[0].text[:READING_CHARACTERS]), *selected[1:]], is_cut
