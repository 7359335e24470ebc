"""The boundary to a search engine: what is asked and what it answers, whoever it is."""

from typing import Protocol

from chargehand.contracts import Contract


class SearchHit(Contract):
    """One place that a search found."""

    title: str
    snippet: str
    """The words that stand there, verbatim as the engine gave them."""
    url: str
    """Names the place: a web address, or the `ref` of a passage in the session's documents."""
    published: str | None = None
    """When it was published, as the engine says it; None if it does not."""


class SearchResults(Contract):
    """What one search found, best first."""

    query: str
    """The query as it was really asked."""
    results: tuple[SearchHit, ...]
    confidence: int
    """0 (nothing found) to 100: how well the results answer the query, by the engine's own scores."""


class SearchBackend(Protocol):
    """One search engine.

    Finding nothing is an answer; `temporalio.exceptions.ApplicationError` is raised only for faults of the engine.
    """

    name: str
    """Names the engine to agents and in reports."""

    async def search(self, query: str, limit: int, documents: tuple[str, ...]) -> SearchResults:
        """Find at most `limit` places; `documents` are the session's, for engines that search those."""
        ...
