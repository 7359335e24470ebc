"""Web search by Tavily's SDK, whose requests go through the shared HTTP client and its limits."""

import asyncio
from typing import TYPE_CHECKING, Final, Protocol, cast

from pydantic import BaseModel, Field

from activities.tools.search.engine import QUERY_CHARACTERS, JsonEngine, iso_date
from activities.tools.search.protocol import SearchHit, SearchResults

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


class _Client(Protocol):
    """The used part of `tavily.AsyncTavilyClient`, whose own types are incomplete."""

    async def search(self, query: str, *, search_depth: str, max_results: int) -> object: ...


class TavilySearch:
    """Searches the web; raises `ApplicationError` of type `RateLimited` or `ToolUnavailable`."""

    name = "tavily"
    reaches_out = True

    def __init__(
        self, api_key: str, http_client: "AsyncClient | None" = None, base_url: str = "https://api.tavily.com"
    ) -> None:
        # The SDK would search anonymously, with other limits.
        if not api_key.strip():
            raise ValueError("a Tavily search needs an API key")
        self._api_key = api_key.strip()
        self._base_url = base_url
        self._engine = JsonEngine("Tavily", _REFUSALS, http_client, trust_env=True)
        self._client: _Client | None = None

    async def search(self, query: str, limit: int, documents: tuple[str, ...]) -> SearchResults:  # noqa: ARG002  # searches the web only
        query = query[:QUERY_CHARACTERS]
        client = await self.warm_up()
        try:
            answer = await client.search(query, search_depth="basic", max_results=max(1, min(limit, _TAVILY_RESULTS)))
            hits = _Answer.model_validate(answer).results[:limit]
        except (ValueError, AttributeError) as error:  # the SDK assumes that the answer is a JSON object
            raise self._engine.invalid_answer() from error
        best = max((hit.score for hit in hits), default=0.0)
        return SearchResults(
            query=query,
            results=tuple(
                SearchHit(
                    title=hit.title or "",
                    snippet=hit.content or "",
                    url=hit.url,
                    published=iso_date(hit.published_date),
                )
                for hit in hits
            ),
            confidence=round(100 * max(0.0, min(best, 1.0))),
        )

    async def warm_up(self) -> _Client:
        """Return the SDK's client; import the SDK the first time."""
        if self._client is None:
            self._client = await asyncio.to_thread(_make_client, self._api_key, self._base_url, self._engine)
        return self._client

    async def close(self) -> None:
        await self._engine.close()


def _make_client(api_key: str, base_url: str, engine: JsonEngine) -> _Client:
    from httpx import AsyncBaseTransport, AsyncClient, Request, Response  # with tavily 0.7 s, and needed only here
    from tavily import AsyncTavilyClient

    class Transport(AsyncBaseTransport):
        """Sends the SDK's requests, so that size, time and error statuses are treated as for every engine."""

        async def handle_async_request(self, request: Request) -> Response:
            body = await engine.request(
                request.method, str(request.url), content=request.content, headers=dict(request.headers)
            )
            return Response(200, content=body)

    http_client = AsyncClient(transport=Transport(), headers={"Accept-Encoding": "identity"})
    sdk = AsyncTavilyClient(api_key, api_base_url=base_url, client=http_client)
    return cast("_Client", sdk)  # the SDK's annotations leave type arguments out


class _Hit(BaseModel):
    title: str | None = None
    url: str
    content: str | None = None
    score: float = Field(default=0, allow_inf_nan=False)
    published_date: str | None = None


class _Answer(BaseModel):
    results: list[_Hit]
