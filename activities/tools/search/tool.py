"""The tool `search`: places that may answer a question, from the configured engine."""

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from activities.contracts.tool import (
    OUTPUT_CAP_CHARACTERS,
    READS_DOCUMENTS,
    READS_THE_WEB,
    ToolAnswer,
    ToolContext,
    ToolSpec,
    object_schema,
)
from activities.tools.search.protocol import SearchBackend, SearchHit, SearchResults
from chargehand.contracts import Capability, Source
from chargehand.tools import failed

_RESULTS: Final = 8
_TITLE_CHARACTERS: Final = 200
_SNIPPET_CHARACTERS: Final = 2_000
_SHORT_CHARACTERS: Final = 100
"""Of each title and snippet in `results`, for readers of the trace: a model is given the sources instead."""
_NOTE_CHARACTERS: Final = 500


class Search:
    """Searches with one engine, and names the engine in the title of each web source."""

    def __init__(self, backend: SearchBackend) -> None:
        self._backend = backend
        place = "the web" if backend.reaches_out else "the user's documents"
        self.spec = ToolSpec(
            name="search",
            needs_documents=not backend.reaches_out,
            description=(
                f"Search {place}: up to {_RESULTS} places, best first, each with the words found there under the ref "
                "to cite it by. `confidence` is how well they match, 0 to 100. Excerpts: read a place before you rely "
                "on it."
            ),
            parameters=object_schema(query={"type": "string", "description": "A few specific words."}),
        )
        self.capabilities: frozenset[Capability] = READS_THE_WEB if backend.reaches_out else READS_DOCUMENTS

    async def use(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> ToolAnswer:
        query = arguments.get("query")
        if not isinstance(query, str) or not query.strip():
            return failed("`query` must be what to look for, in a few words.")
        results = await self._backend.search(query.strip(), _RESULTS, context.documents)
        return _answer(self._backend.name, results)


def _answer(backend: str, found: SearchResults) -> ToolAnswer:
    sources, results = list[Source](), list[JsonValue]()
    note = found.note[:_NOTE_CHARACTERS]
    room = OUTPUT_CAP_CHARACTERS - len(found.query) - 2 * len(note) - 200
    for hit in _unique(found.results):
        title = _title(hit, backend)
        # The address is the source's name, too.
        room -= len(title) + 3 * len(hit.url) + 60
        if room <= 0:
            break
        snippet = hit.snippet[: min(room, _SNIPPET_CHARACTERS)]
        room -= len(snippet)
        sources.append(Source(ref=hit.url, title=title, url=hit.web_address, quote=snippet))
        results.append({"title": hit.title[:_SHORT_CHARACTERS], "snippet": snippet[:_SHORT_CHARACTERS], "url": hit.url})
    output: dict[str, JsonValue] = {"query": found.query, "results": results, "confidence": found.confidence}
    if not sources:
        note = f"Nothing was found. Search again with other or fewer words. {note}".rstrip()
    if note:
        output["note"] = note
    return ToolAnswer(output=output, sources=tuple(sources))


def _unique(hits: tuple[SearchHit, ...]) -> tuple[SearchHit, ...]:
    """Keep the first, best hit of each place: a source is identified by its address alone."""
    best: dict[str, SearchHit] = {}
    for hit in hits:
        best.setdefault(hit.url, hit)
    return tuple(best.values())


def _title(hit: SearchHit, backend: str) -> str:
    """Title a web place with the engine that found and dated it; the user knows the session's own documents."""
    title = hit.title[:_TITLE_CHARACTERS]
    if not hit.web_address:
        return title
    dated = f", dated {hit.published} there" if hit.published else ""
    return f"{title or hit.host} (found by {backend}{dated})"
