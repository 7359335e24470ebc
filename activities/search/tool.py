"""The tool `search`: places that may answer a question, from the configured engine."""

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from activities.search.protocol import SearchBackend, SearchHit, SearchResults
from activities.tools import (
    OUTPUT_CAP_CHARACTERS,
    READS_DOCUMENTS,
    READS_THE_WEB,
    ToolAnswer,
    ToolContext,
    ToolSpec,
    failed,
    object_schema,
)
from chargehand.contracts import Capability, Source

_RESULTS: Final = 8
_TITLE_CHARACTERS: Final = 200
_SNIPPET_CHARACTERS: Final = 2_000
_NOTE_CHARACTERS: Final = 500


class Search:
    """Searches by one engine, and names it in the output and in the title of each source from the web."""

    spec = ToolSpec(
        name="search",
        description=(
            "Search for passages that answer a question. Gives the best matches with title, place and the words "
            "found there, and how confident the search engine is. Use a few specific words, not a whole sentence."
        ),
        parameters=object_schema(query={"type": "string", "description": "What to look for, in a few words"}),
    )

    def __init__(self, backend: SearchBackend) -> None:
        self._backend = backend
        self.capabilities: frozenset[Capability] = READS_THE_WEB if backend.reaches_out else READS_DOCUMENTS

    async def use(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> ToolAnswer:
        query = arguments.get("query")
        if not isinstance(query, str) or not query.strip():
            return failed("search needs `query`: what to look for, as text.")
        found = await self._backend.search(query.strip(), _RESULTS, context.documents)
        return _answer(self._backend.name, found)


def _answer(backend: str, found: SearchResults) -> ToolAnswer:
    listed: list[JsonValue] = []
    sources: list[Source] = []
    note = found.note[:_NOTE_CHARACTERS]
    room = OUTPUT_CAP_CHARACTERS - len(backend) - len(found.query) - 2 * len(note) - 200
    for hit in _unique(found.results):
        title = hit.title[:_TITLE_CHARACTERS]
        # A hit is returned twice: in the list, and as a source.
        room -= 2 * len(title) + 4 * len(hit.url) + len(hit.published or "") + len(backend) + 120
        if room <= 0:
            break
        snippet = hit.snippet[: min(room, _SNIPPET_CHARACTERS)]
        room -= len(snippet)
        listed.append({"title": title, "url": hit.url, "host": hit.host, "published": hit.published})
        sources.append(
            Source(ref=hit.url, title=_title_with_engine(title, backend, hit), url=hit.web_address, quote=snippet)
        )
    output: dict[str, JsonValue] = {
        "query": found.query,
        "backend": backend,
        "confidence": found.confidence,
        "results": listed,
    }
    if not listed:
        note = f"Nothing was found. Try other or fewer words. {note}".rstrip()
    if note:
        output["note"] = note
    return ToolAnswer(output=output, sources=tuple(sources))


def _unique(hits: tuple[SearchHit, ...]) -> tuple[SearchHit, ...]:
    """Keep the first, best hit of each place: a source is identified by its address alone."""
    best: dict[str, SearchHit] = {}
    for hit in hits:
        best.setdefault(hit.url, hit)
    return tuple(best.values())


def _title_with_engine(title: str, backend: str, hit: SearchHit) -> str:
    # The user knows the session's own documents.
    return f"{title or hit.host} (found by {backend})" if hit.web_address else title
