"""The interface of a search engine: its query and its results.

A new engine is one module with an adapter, and one registry row.
"""

from typing import Annotated, Final, Protocol, runtime_checkable
from urllib.parse import urlsplit

from pydantic import AfterValidator

from chargehand.contracts import Contract

EXCERPT_CHARACTERS: Final = 4_000
"""Maximum of a title or snippet, which is compared with the query's words; a model is given less."""
_Excerpt = Annotated[str, AfterValidator(lambda text: text[:EXCERPT_CHARACTERS])]


class SearchHit(Contract):
    """A search hit."""

    title: _Excerpt
    snippet: _Excerpt
    """The text of the hit as returned by the engine, shortened."""
    url: str
    """Names the place: a web address, or the `ref` of a passage in the session's documents."""
    published: str | None = None
    """Date of publication in ISO 8601, in the precision that the engine states, if it does."""

    @property
    def web_address(self) -> str | None:
        """The `url` if it is a web address."""
        return self.url if self.url.startswith(("https://", "http://")) else None

    @property
    def host(self) -> str | None:
        """The host, without `www.`; None for the session's own documents."""
        try:
            host = urlsplit(self.web_address or "").hostname
        except ValueError:
            return None
        return host.removeprefix("www.").rstrip(".") if host else None


class SearchResults(Contract):
    """The results of a search, best first."""

    query: str
    """The query as it was sent."""
    results: tuple[SearchHit, ...]
    confidence: int
    """0 (nothing found) to 100: how well the results answer the query, by the engine's own scores if it has any."""
    note: str = ""
    """What the agent should know about the search itself, such as engines that did not answer."""


@runtime_checkable
class SearchBackend(Protocol):
    """A search engine.

    Finding nothing is an answer; only faults of the engine raise `temporalio.exceptions.ApplicationError`.
    """

    name: str
    """Shown to agents and in reports."""
    reaches_out: bool
    """Whether queries leave this installation, and results are untrusted."""

    async def search(self, query: str, limit: int, documents: tuple[str, ...]) -> SearchResults:
        """Find at most `limit` places; `documents` are the session's, for engines that search those."""
        ...
