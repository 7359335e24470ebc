"""Web search by Tavily. Runs in the activity; its SDK is imported when the first search is made."""

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Protocol, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from temporalio.exceptions import ApplicationError

from activities.search.dates import iso_date
from activities.search.failures import fault_of_status, passing_fault
from activities.search.protocol import SearchHit, SearchResults

if TYPE_CHECKING:
    from httpx import AsyncClient, Response

_TIMEOUT: Final = timedelta(seconds=30)
_MOST_RESULTS: Final = 20
"""Tavily's own maximum."""
_QUERY_CHARACTERS: Final = 400
"""Tavily refuses longer queries."""
_REFUSED: Final = {
    401: "Tavily does not accept the API key; check TAVILY_API_KEY",
    403: "Tavily does not allow this key to search",
    432: "the Tavily plan's limit is used up; raise it or use another key",
    433: "the Tavily pay-as-you-go limit is used up; raise it or use another key",
}


@dataclass
class _Seen:
    """What the SDK does not pass on about the response of the search that is under way."""

    status: int | None = None
    retry_after: str = ""


_seen: ContextVar[_Seen | None] = ContextVar("seen", default=None)


class _Client(Protocol):
    """What is used of `tavily.AsyncTavilyClient`, whose own types are partial."""

    async def search(self, query: str, *, search_depth: str, max_results: int, timeout: float) -> object: ...  # noqa: ASYNC109  # the SDK's own parameter


class TavilySearch:
    """Searches the web; raises `ApplicationError` of type `RateLimited` or `ToolUnavailable`."""

    name = "tavily"
    reaches_out = True

    def __init__(
        self, api_key: str, http_client: "AsyncClient | None" = None, base_url: str = "https://api.tavily.com"
    ) -> None:
        # Without a key the SDK would not fail but search anonymously.
        if not api_key.strip():
            raise ValueError("a Tavily search needs an API key")
        self._api_key = api_key.strip()
        self._http_client = http_client
        self._owns_http_client = http_client is None
        self._base_url = base_url
        self._client: _Client | None = None
        self._connecting = asyncio.Lock()

    async def search(self, query: str, limit: int, documents: tuple[str, ...]) -> SearchResults:  # noqa: ARG002  # the web holds none of them
        asked = query[:_QUERY_CHARACTERS]
        client = await self._connected()
        seen = _Seen()
        token = _seen.set(seen)
        try:
            found = await client.search(
                asked,
                search_depth="basic",
                max_results=max(1, min(limit, _MOST_RESULTS)),
                timeout=_TIMEOUT.total_seconds(),
            )
        except Exception as error:
            if (translated := _translated(error, seen)) is None:
                raise
            raise translated from error
        finally:
            _seen.reset(token)
        return _results(asked, limit, found)

    async def close(self) -> None:
        """Close the connections; a client that was handed in is its owner's to close."""
        if self._owns_http_client and self._http_client is not None:
            await self._http_client.aclose()
            self._http_client = self._client = None

    async def _connected(self) -> _Client:
        async with self._connecting:
            if self._client is None:
                self._client = await asyncio.to_thread(self._connect)
            return self._client

    def _connect(self) -> _Client:
        from httpx import AsyncClient  # with tavily 0.7 s, and needed only with a key
        from tavily import AsyncTavilyClient

        if self._http_client is None:
            self._http_client = AsyncClient()
        hooks = self._http_client.event_hooks
        self._http_client.event_hooks = {**hooks, "response": [*hooks["response"], _remember]}
        sdk = AsyncTavilyClient(self._api_key, api_base_url=self._base_url, client=self._http_client)
        return cast("_Client", sdk)  # the SDK's annotations leave type arguments out


async def _remember(response: "Response") -> None:
    if (seen := _seen.get()) is not None:
        seen.status = response.status_code
        seen.retry_after = response.headers.get("retry-after", "")


def _translated(error: Exception, seen: _Seen) -> ApplicationError | None:
    """Say what an error of the SDK means; None if it is a fault of ours. The SDK's errors have no base class."""
    from httpx import TransportError  # imported already, by the client
    from tavily.errors import TimeoutError as TavilyTimeoutError  # shadows the builtin

    if seen.status is not None and seen.status != HTTPStatus.OK:
        return fault_of_status("Tavily", seen.status, seen.retry_after, _REFUSED)
    if isinstance(error, TavilyTimeoutError):
        return passing_fault(f"Tavily did not answer within {_TIMEOUT.total_seconds():g} seconds")
    if isinstance(error, TransportError):
        return passing_fault(f"Tavily could not be reached: {type(error).__name__}")
    if isinstance(error, ValueError | AttributeError) and seen.status is not None:
        return passing_fault("Tavily's answer is not a JSON object")  # the SDK takes it for one
    return None


class _Hit(BaseModel):
    model_config = ConfigDict(extra="ignore")

    title: str | None = None
    url: str
    content: str | None = None
    score: float = Field(default=0, allow_inf_nan=False)
    published_date: str | None = None


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore")

    results: list[_Hit]


def _results(query: str, limit: int, found: object) -> SearchResults:
    try:
        hits = _Answer.model_validate(found).results[:limit]
    except ValidationError as error:
        raise passing_fault("Tavily's answer does not have the shape that its documentation says") from error
    best = max((hit.score for hit in hits), default=0.0)
    return SearchResults(
        query=query,
        results=tuple(
            SearchHit(
                title=hit.title or "", snippet=hit.content or "", url=hit.url, published=iso_date(hit.published_date)
            )
            for hit in hits
        ),
        confidence=round(100 * max(0.0, min(best, 1.0))),
    )
