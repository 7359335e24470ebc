"""The search without a web search engine: it searches the session's own documents."""

from typing import Final

from activities.documents.library import DocumentLibrary
from activities.tools.search.protocol import SearchHit, SearchResults

_LONGEST_TITLE: Final = 300


class LocalSearch:
    """Finds passages in the session's documents, as if they were the web; a hit's `url` is the passage's `ref`."""

    name = "local"
    reaches_out = False

    def __init__(self, library: DocumentLibrary) -> None:
        self._library = library

    async def search(self, query: str, limit: int, documents: tuple[str, ...]) -> SearchResults:
        library = await self._library.open(documents)
        passages = (await library.search(query, limit)).passages
        return SearchResults(
            query=query,
            results=tuple(
                SearchHit(
                    title=f"{passage.document}: {passage.heading}"[:_LONGEST_TITLE]
                    if passage.heading
                    else passage.document,
                    snippet=passage.text,
                    url=passage.ref,
                )
                for passage in passages
            ),
            confidence=round(100 * max((passage.coverage for passage in passages), default=0.0)),
        )
