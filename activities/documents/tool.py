"""Tools that search and read a session's documents."""

from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from activities.contracts import PASSAGE_GAP
from activities.documents.library import DocumentLibrary, Passage, UnknownDocumentError
from activities.tools import READS_DOCUMENTS, ToolAnswer, ToolContext, ToolSpec, failed, object_schema
from chargehand.contracts import Source

_MOST_PASSAGES: Final = 6
_LONGEST_QUERY: Final = 1_000


class SearchDocuments:
    """Finds passages in the session's documents by words."""

    capabilities = READS_DOCUMENTS
    spec = ToolSpec(
        name="search_documents",
        description=(
            "Search the user's documents by words and get the best passages, quoted with file and line or page. "
            "`coverage` is the share of the query's words that a passage contains, 0 to 1. Use few, telling words; "
            "try other words when coverage is low."
        ),
        parameters=object_schema(
            query={"type": "string", "description": "What to look for, in words that the documents may use."},
            document={
                "type": "string",
                "description": "Name of the one document to search, or an empty string for all of them.",
            },
        ),
    )

    def __init__(self, library: DocumentLibrary) -> None:
        self._library = library

    async def use(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> ToolAnswer:
        query = arguments.get("query")
        document = arguments.get("document", "")
        if not isinstance(query, str) or not query.strip() or len(query) > _LONGEST_QUERY:
            return failed(f"`query` must be a text of 1 to {_LONGEST_QUERY:,} characters.")
        if not isinstance(document, str):
            return failed("`document` must be the name of a document, or an empty string for all of them.")
        library = await self._library.open(context.documents)
        searched = sum(not entry.problem for entry in library.catalog.documents)
        if not searched:
            return failed("This session has no documents that can be read.")
        try:
            found = await library.find(query, _MOST_PASSAGES, document or None)
        except UnknownDocumentError as error:
            return failed(f"`document`: {error}.")
        places: dict[str, list[Passage]] = {}
        for passage in found.passages:
            places.setdefault(passage.ref, []).append(passage)
        output: dict[str, JsonValue] = {
            "coverage": {ref: round(max(part.coverage for part in parts), 2) for ref, parts in places.items()},
            "documents_searched": 1 if document else searched,
        }
        if found.missing:
            output["words_found_nowhere"] = list(found.missing)
        return ToolAnswer(output=output, sources=tuple(_source(ref, parts) for ref, parts in places.items()))


def _source(ref: str, parts: Sequence[Passage]) -> Source:
    """Make one source of the passages of one place, such as a page; the best of them names it."""
    return Source(
        ref=ref, title=parts[0].heading or parts[0].document, quote=PASSAGE_GAP.join(part.text for part in parts)
    )


class ReadDocument:
    """Reads a stretch of one document."""

    capabilities = READS_DOCUMENTS
    spec = ToolSpec(
        name="read_document",
        description=(
            "Read a stretch of one of the user's documents: pages of a PDF, lines of a text, paragraphs of a DOCX, "
            "rows of a sheet (name it `prices.xlsx#Sheet1`). `next` in the answer states where to continue."
        ),
        parameters=object_schema(
            document={"type": "string", "description": "Name of the document, as in the list of documents."},
            first={"type": "integer", "description": "First page, line, paragraph or row, from 1."},
            last={"type": "integer", "description": "Last one, or 0 for as many as fit."},
        ),
    )

    def __init__(self, library: DocumentLibrary) -> None:
        self._library = library

    async def use(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> ToolAnswer:
        document = arguments.get("document")
        first = arguments.get("first", 1)
        last = arguments.get("last", 0)
        if not isinstance(document, str) or not document.strip():
            return failed("`document` must be the name of a document.")
        if isinstance(first, bool) or not isinstance(first, int) or not 1 <= first < 1 << 40:
            return failed("`first` must be a whole number of at least 1.")
        if isinstance(last, bool) or not isinstance(last, int) or not (last == 0 or first <= last < 1 << 40):
            return failed("`last` must be a whole number, not smaller than `first`, or 0 for as many as fit.")
        library = await self._library.open(context.documents)
        try:
            reading = await library.read(document, first, last or None)
        except UnknownDocumentError as error:
            return failed(f"`document`: {error}.")
        if not reading.text:
            return failed(f"{document} ends at {reading.unit} {reading.total}: `first` must not be larger.")
        output: dict[str, JsonValue] = {
            "unit": reading.unit,
            "first": reading.first,
            "last": reading.last,
            "total": reading.total,
            "next": reading.next,
        }
        return ToolAnswer(output=output, sources=(Source(ref=reading.ref, title=reading.document, quote=reading.text),))
