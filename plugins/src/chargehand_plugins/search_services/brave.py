"""Web search by Brave's own index, over its Search API."""

import html
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel

from activities.tools.search.engine import QUERY_CHARACTERS, JsonEngine, confidence_by_words, web_hit
from activities.tools.search.protocol import EXCERPT_CHARACTERS, SearchResults

if TYPE_CHECKING:
    from httpx2 import AsyncClient

_BRAVE_RESULTS: Final = 20
"""Brave's own maximum."""
_MOST_WORDS: Final = 50
"""Brave refuses longer queries."""
_KEY_REFUSED: Final = "Brave does not accept the API key; check BRAVE_API_KEY"
_REFUSALS: Final = {
    401: _KEY_REFUSED,
    402: "the usage limit of the Brave plan is reached; raise it or use another key",
    403: "Brave does not allow this key to search the web; its plan has to include web search",
    422: f"{_KEY_REFUSED}. Brave answers the same to a query that it cannot read",
}


class BraveSearch:
    name = "brave"
    reaches_out = True

    def __init__(
        self, api_key: str, http_client: "AsyncClient | None" = None, base_url: str = "https://api.search.brave.com"
    ) -> None:
        self._api_key = api_key.strip()
        self._url = f"{base_url.rstrip('/')}/res/v1/web/search"
        self._engine = JsonEngine("Brave", _REFUSALS, http_client, trust_env=True)

    async def search(self, query: str, limit: int, documents: tuple[str, ...]) -> SearchResults:  # noqa: ARG002  # searches the web only
        query = " ".join(query.split()[:_MOST_WORDS])[:QUERY_CHARACTERS]
        parameters = {
            "q": query,
            "count": str(max(1, min(limit, _BRAVE_RESULTS))),
            "result_filter": "web",
            "text_decorations": "false",
        }
        token = {"X-Subscription-Token": self._api_key}
        answer = await self._engine.ask(_Answer, self._url, params=parameters, headers=token)
        hits = tuple(
            web_hit(hit.url, _unescape(hit.title), _unescape(hit.description), hit.page_age)
            for hit in answer.web.results[:limit]
        )
        return SearchResults(query=query, results=hits, confidence=confidence_by_words(query, hits))

    async def close(self) -> None:
        await self._engine.close()


def _unescape(text: str | None) -> str:
    return html.unescape((text or "")[:EXCERPT_CHARACTERS])


class _Hit(BaseModel):
    url: str
    title: str | None = None
    description: str | None = None
    page_age: str | None = None


class _Web(BaseModel):
    results: list[_Hit]


class _Answer(BaseModel):
    web: _Web = _Web(results=[])
    """Absent if nothing was found."""
