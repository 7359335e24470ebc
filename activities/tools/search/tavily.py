"""Web search by Tavily, over its own API."""

from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, Field

from activities.tools.search.engine import QUERY_CHARACTERS, JsonEngine, web_hit
from activities.tools.search.protocol import SearchResults

if TYPE_CHECKING:
    from httpx2 import AsyncClient

_TAVILY_RESULTS: Final = 20
"""Tavily's own maximum."""
_REFUSALS: Final = {
    401: "Tavily does not accept the API key; check TAVILY_API_KEY",
    403: "Tavily does not allow this key to search",
    432: "the usage limit of the Tavily plan is reached; raise it or use another key",
    433: "the Tavily pay-as-you-go limit is reached; raise it or use another key",
}


class TavilySearch:
    """Searches the web; raises `ApplicationError` of type `RateLimited` or `ToolUnavailable`."""

    name = "tavily"
    reaches_out = True

    def __init__(
        self, api_key: str, http_client: "AsyncClient | None" = None, base_url: str = "https://api.tavily.com"
    ) -> None:
        # Without a key Tavily searches anonymously, with other limits.
        if not api_key.strip():
            raise ValueError("a Tavily search needs an API key")
        self._headers = {"Authorization": f"Bearer {api_key.strip()}"}
        self._url = f"{base_url.rstrip('/')}/search"
        self._engine = JsonEngine("Tavily", _REFUSALS, http_client, trust_env=True)

    async def search(self, query: str, limit: int, documents: tuple[str, ...]) -> SearchResults:  # noqa: ARG002  # searches the web only
        query = query[:QUERY_CHARACTERS]
        request = {"query": query, "search_depth": "basic", "max_results": max(1, min(limit, _TAVILY_RESULTS))}
        answer = await self._engine.ask(_Answer, self._url, "POST", json=request, headers=self._headers)
        hits = answer.results[:limit]
        best = max((hit.score for hit in hits), default=0.0)
        return SearchResults(
            query=query,
            results=tuple(web_hit(hit.url, hit.title, hit.content, hit.published_date) for hit in hits),
            confidence=round(100 * max(0.0, min(best, 1.0))),
        )

    async def close(self) -> None:
        await self._engine.close()


class _Hit(BaseModel):
    title: str | None = None
    url: str
    content: str | None = None
    score: float = Field(default=0, allow_inf_nan=False)
    published_date: str | None = None


class _Answer(BaseModel):
    results: list[_Hit]
