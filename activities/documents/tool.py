"""Tools that search and read a session's documents."""

from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from activities.contracts.quotations import PASSAGE_GAP
from activities.contracts.rounds import MOST_PICTURES
from activities.contracts.tool import (
    READING_CHARACTERS,
    READS_DOCUMENTS,
    ToolAnswer,
    ToolContext,
    ToolSpec,
    object_schema,
)
from activities.documents.library import DocumentLibrary, Reading
from activities.documents.names import UnknownDocumentError
from activities.documents.ranking import Passage
from chargehand.contracts import Source
from chargehand.tools import failed

_MOST_PASSAGES: Final = 6
_LONGEST_QUERY: Final = 1_000
_LARGEST: Final = 1 << 40


class SearchDocuments:
    """Finds passages in the session's documents by words."""

    capabilities = READS_DOCUMENTS
    spec = ToolSpec(
        name="search_documents",
        needs_documents=True,
        description=(
            f"Search the user's documents by words: the {_MOST_PASSAGES} best passages, word for word, each under the "
            "ref to cite it by. `coverage` is the share of the query's words that each passage has, 0 to 1, in the "
            "order of the passages. Low coverage, or `words_found_nowhere`: search again with other words."
        ),
        parameters=object_schema(
            query={"type": "string", "description": "A few telling words that the documents may use."},
            document={"type": "string", "description": "Name or ref of the one document to search; empty for all."},
        ),
    )

    def __init__(self, library: DocumentLibrary) -> None:
        self._library = library

    async def use(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> ToolAnswer:
        query, document = arguments.get("query"), arguments.get("document") or ""
        if not isinstance(query, str) or not query.strip() or len(query) > _LONGEST_QUERY:
            return failed(f"`query` must be a text of 1 to {_LONGEST_QUERY:,} characters.")
        if not isinstance(document, str):
            return failed("`document` must be the name of a document, or an empty string for all of them.")
        library = await self._library.open(context.documents)
        searched = sum(not entry.problem for entry in library.catalog.documents)
        if not searched:
            return failed("This session has no documents that can be read. Answer without them.")
        try:
            result = await library.search(query, _MOST_PASSAGES, document or None)
        except UnknownDocumentError as error:
            return failed(f"`document`: {error}.")
        places: dict[str, list[Passage]] = {}
        for passage in result.passages:
            places.setdefault(passage.ref, []).append(passage)
        output: dict[str, JsonValue] = {
            "coverage": [round(max(part.coverage for part in parts), 2) for parts in places.values()],
            "documents_searched": 1 if document else searched,
        }
        if result.missing:
            output["words_found_nowhere"] = list(result.missing)
        if not places:
            output["note"] = "Nothing was found. Search again with other or fewer words."
        return ToolAnswer(output=output, sources=tuple(_source(ref, parts) for ref, parts in places.items()))


def _source(ref: str, parts: Sequence[Passage]) -> Source:
    """Combine the passages of one place, such as a page, into a source titled after the best passage."""
    return Source(
        ref=ref, title=parts[0].heading or parts[0].document, quote=PASSAGE_GAP.join(part.text for part in parts)
    )


class ReadDocument:
    """Reads a section of one document."""

    capabilities = READS_DOCUMENTS
    spec = ToolSpec(
        name="read_document",
        needs_documents=True,
        description=(
            f"Read one of the user's documents, up to {READING_CHARACTERS:,} characters at once: pages of a PDF (each "
            "under a ref of its own), lines of a text, paragraphs of a DOCX, rows of a sheet. If there is more, `next` "
            "is the `first` to continue with. Pictures and scanned pages are shown."
        ),
        parameters=object_schema(
            document={
                "type": "string",
                "description": "Name, such as `q3.pdf` or `prices.xlsx#Sheet1`, or a ref, at which reading begins.",
            },
            first={
                "type": "integer",
                "description": "First page, line, paragraph or row, from 1; 0 for the start, or the ref.",
            },
            last={"type": "integer", "description": "Last one, or 0 for as many as fit."},
        ),
    )

    def __init__(self, library: DocumentLibrary) -> None:
        self._library = library

    async def use(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> ToolAnswer:
        document = arguments.get("document")
        first, last = (0 if arguments.get(name) is None else arguments[name] for name in ("first", "last"))
        if not isinstance(document, str) or not document.strip():
            return failed("`document` must be the name of a document, or a ref that you were shown.")
        if isinstance(first, bool) or not isinstance(first, int) or not 0 <= first < _LARGEST:
            return failed("`first` must be a whole number: 1 or more, or 0 for where the ref points.")
        if isinstance(last, bool) or not isinstance(last, int) or not (last == 0 or max(first, 1) <= last < _LARGEST):
            return failed("`last` must be a whole number, not smaller than `first`, or 0 for as many as fit.")
        library = await self._library.open(context.documents)
        try:
            reading = await library.read(document, first or None, last or None)
            pictures = library.pictures_of(reading)
            if len(pictures) > MOST_PICTURES:
                end = int(pictures[MOST_PICTURES - 1].rpartition("=")[2])
                reading = await library.read(document, reading.first, end)
        except UnknownDocumentError as error:
            return failed(f"`document`: {error}.")
        if not reading.sources:
            return failed(_nothing(reading, last))
        return _answer(reading).replace(pictures=pictures[:MOST_PICTURES])


def _nothing(reading: Reading, last: int) -> str:
    if last and reading.first > last:
        return f"The ref begins at {reading.unit} {reading.first}: `last` must not be smaller."
    if reading.first <= reading.total:
        return f"There is no text at {reading.unit} {reading.first}: leave `last` at 0 to read on."
    return f"{reading.document} ends at {reading.unit} {reading.total}: `first` must not be larger."


def _answer(reading: Reading) -> ToolAnswer:
    output: dict[str, JsonValue] = {
        "unit": reading.unit,
        "first": reading.first,
        "last": reading.last,
        "total": reading.total,
    }
    if reading.next is not None:
        output["next"] = reading.next
    if reading.is_cut:
        output["note"] = f"This {reading.unit} is cut: search the document for what you need of the rest."
    return ToolAnswer(output=output, sources=reading.sources)
