"""Web search by a SearXNG of the operator's own. Runs in the activity; its client is imported at the first search."""

import asyncio
from datetime import timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from activities.search.dates import iso_date
from activities.search.failures import fault_of_status, lasting_fault, passing_fault
from activities.search.protocol import SearchHit, SearchResults

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Response

_TIMEOUT: Final = timedelta(seconds=30)
_QUERY_CHARACTERS: Final = 400
_LONGEST_ANSWER_BYTES: Final = 4_000_000
_REFUSED: Final = {
    401: "SearXNG asks for a sign-in; use an instance that agents may search without one",
    403: "SearXNG does not answer in JSON; add `json` to `search: formats:` in its settings.yml",
    404: "there is no SearXNG at CHARGEHAND_SEARXNG_URL; it is the instance's address, without /search",
}


class SearxngSearch:
    """Searches the web; raises `ApplicationError` of type `RateLimited` or `ToolUnavailable`.

    The address is the operator's, so it may be an internal one. Proxies of the environment are not used.
    """

    name = "searxng"
    reaches_out = True

    def __init__(self, url: str, http_client: "AsyncClient | None" = None) -> None:
        parts = urlsplit(url.strip())
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
            raise ValueError("the address of a SearXNG instance starts with http:// or https:// and has no ? or #")
        self._url = url.strip().rstrip("/") + "/search"
        self._http_client = http_client
        self._owns_http_client = http_client is None
        self._connecting = asyncio.Lock()

    async def search(self, query: str, limit: int, documents: tuple[str, ...]) -> SearchResults:  # noqa: ARG002  # the web holds none of them
        asked = query[:_QUERY_CHARACTERS]
        client = await self._connected()
        from httpx2 import HTTPError, TimeoutException  # imported already, by the client

        try:
            async with asyncio.timeout(_TIMEOUT.total_seconds()):
                body = await self._ask(client, asked)
        except (TimeoutError, TimeoutException) as error:
            raise passing_fault(f"SearXNG did not answer within {_TIMEOUT.total_seconds():g} seconds") from error
        except HTTPError as error:
            raise passing_fault(f"SearXNG could not be reached: {type(error).__name__}") from error
        return await asyncio.to_thread(_results, asked, limit, body)

    async def close(self) -> None:
        """Close the connections; a client that was handed in is its owner's to close."""
        if self._owns_http_client and self._http_client is not None:
            await self._http_client.aclose()
            self._http_client = None

    async def _connected(self) -> "AsyncClient":
        async with self._connecting:
            if self._http_client is None:
                self._http_client = await asyncio.to_thread(_make_client)
            return self._http_client

    async def _ask(self, client: "AsyncClient", query: str) -> bytes:
        parameters = {"q": query, "format": "json"}
        async with client.stream("GET", self._url, params=parameters, follow_redirects=False) as response:
            if response.status_code != HTTPStatus.OK:
                raise _refusal(response)
            body = bytearray()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > _LONGEST_ANSWER_BYTES:
                    raise lasting_fault(f"SearXNG's answer is longer than {_LONGEST_ANSWER_BYTES // 1_000_000} MB")
            return bytes(body)


def _make_client() -> "AsyncClient":
    from httpx2 import AsyncClient  # 0.2 s, and needed only with an instance

    return AsyncClient(trust_env=False, timeout=_TIMEOUT.total_seconds(), headers={"Accept": "application/json"})


def _refusal(response: "Response") -> Exception:
    if response.is_redirect:
        return lasting_fault("SearXNG sends searches elsewhere; set CHARGEHAND_SEARXNG_URL to where it really is")
    return fault_of_status("SearXNG", response.status_code, response.headers.get("retry-after", ""), _REFUSED)


class _Hit(BaseModel):
    model_config = ConfigDict(extra="ignore")

    url: str | None = None
    title: str | None = None
    content: str | None = None
    score: float = Field(default=0, allow_inf_nan=False)
    publishedDate: str | None = None  # noqa: N815  # SearXNG's own name


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore")

    results: list[_Hit]
    unresponsive_engines: list[tuple[str | None, ...]] = []
    """Name and error of each."""


def _results(query: str, limit: int, body: bytes) -> SearchResults:
    try:
        answer = _Answer.model_validate_json(body)
    except ValidationError as error:
        raise passing_fault("SearXNG's answer does not have the shape that its documentation says") from error
    # Calculators and converters are listed too, without a place.
    hits = [hit for hit in answer.results if hit.url][:limit]
    silent = ", ".join(sorted({engine[0] for engine in answer.unresponsive_engines if engine and engine[0]}))
    return SearchResults(
        query=query,
        results=tuple(
            SearchHit(
                title=hit.title or "",
                snippet=hit.content or "",
                url=hit.url or "",
                published=iso_date(hit.publishedDate),
            )
            for hit in hits
        ),
        confidence=_confidence(max((hit.score for hit in hits), default=0.0)),
        note=f"Engines that did not answer: {silent}." if silent else "",
    )


def _confidence(score: float) -> int:
    """Read SearXNG's score: 1 is the first place at one engine, and it grows with each engine that agrees."""
    return round(100 * score / (score + 1)) if score > 0 else 0
