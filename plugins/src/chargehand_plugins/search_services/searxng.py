"""Web search by the operator's own SearXNG."""

from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, Field

from activities.tools.search.engine import QUERY_CHARACTERS, JsonEngine, web_hit
from activities.tools.search.protocol import SearchResults

if TYPE_CHECKING:
    from httpx2 import AsyncClient

_REDIRECTED: Final = "SearXNG redirects searches; set CHARGEHAND_SEARXNG_URL to the address that it redirects to"
_REFUSALS: Final = dict.fromkeys((301, 302, 303, 307, 308), _REDIRECTED) | {
    401: "SearXNG requires authentication; use an instance that agents may search without signing in",
    403: "SearXNG does not answer in JSON; add `json` to `search: formats:` in its settings.yml",
    404: "there is no SearXNG at CHARGEHAND_SEARXNG_URL; set it to the address of the instance, without /search",
}


class SearxngSearch:
    """Searches the web; raises `ApplicationError` of type `RateLimited` or `ToolUnavailable`.

    The operator chooses the address, so it may be an internal one. Proxies of the environment are not used.
    """

    name = "searxng"
    reaches_out = True

    def __init__(self, url: str, http_client: "AsyncClient | None" = None) -> None:
        self._url = f"{url.strip().rstrip('/')}/search"
        self._engine = JsonEngine("SearXNG", _REFUSALS, http_client, trust_env=False)

    async def search(self, query: str, limit: int, documents: tuple[str, ...]) -> SearchResults:  # noqa: ARG002  # searches the web only
        query = query[:QUERY_CHARACTERS]
        answer = await self._engine.ask(_Answer, self._url, params={"q": query, "format": "json"})
        # Results of calculators and converters are also listed, without an address.
        hits = [hit for hit in answer.results if hit.url][:limit]
        score = max([0.0, *(hit.score for hit in hits)])
        silent = ", ".join(sorted({engine[0] for engine in answer.unresponsive_engines if engine and engine[0]}))
        return SearchResults(
            query=query,
            results=tuple(web_hit(hit.url or "", hit.title, hit.content, hit.publishedDate) for hit in hits),
            # A first place at one engine scores 1, and each agreeing engine adds to it.
            confidence=round(100 * score / (score + 1)),
            note=f"Engines that did not answer: {silent}." if silent else "",
        )

    async def close(self) -> None:
        await self._engine.close()


class _Hit(BaseModel):
    url: str | None = None
    title: str | None = None
    content: str | None = None
    score: float = Field(default=0, allow_inf_nan=False)
    publishedDate: str | None = None  # noqa: N815  # SearXNG's own name


class _Answer(BaseModel):
    results: list[_Hit]
    unresponsive_engines: list[tuple[str | None, ...]] = []
    """Name and error of each."""
