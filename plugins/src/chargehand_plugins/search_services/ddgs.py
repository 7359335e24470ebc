"""Web search without a key, by `ddgs`, which parses the result pages of public engines. Runs in the activity."""

from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

from temporalio.exceptions import ApplicationError

from activities.processes.child import ChildError, ChildProcess, ChildTimeoutError
from activities.tools.search.engine import QUERY_CHARACTERS, confidence_by_words, transient_error
from activities.tools.search.protocol import EXCERPT_CHARACTERS, SearchHit, SearchResults
from chargehand.wire import ErrorType

_TIMEOUT: Final = timedelta(seconds=40)
_ONE_ENGINE: Final = timedelta(seconds=8)
_PROBLEMS: Final = {
    "late": "the public search engines did not answer in time",
    "failed": "the public search engines could not be reached or read",
}


class DdgsSearch:
    """Searches the web; raises `ApplicationError` of type `RateLimited` or `ToolUnavailable`.

    Engines that refuse automated searches seem to return empty results, and the agent is warned of this. `addresses`
    are alternative addresses of engines by the library's names.
    """

    name = "ddgs"
    reaches_out = True

    def __init__(
        self, engines: str = "auto", addresses: Mapping[str, str] = MappingProxyType({}), timeout: timedelta = _TIMEOUT
    ) -> None:
        self._engines = engines
        self._addresses = dict(addresses)
        self._seconds = timeout.total_seconds()

    async def search(self, query: str, limit: int, documents: tuple[str, ...]) -> SearchResults:  # noqa: ARG002  # searches the web only
        query = query[:QUERY_CHARACTERS]
        question = {
            "query": query,
            "limit": limit,
            "characters": EXCERPT_CHARACTERS,
            "engines": self._engines,
            "addresses": self._addresses,
            "seconds": max(1, round(min(_ONE_ENGINE.total_seconds(), self._seconds))),
        }
        try:
            # A process per search: it has no state, and parallel searches do not wait for each other.
            async with ChildProcess(f"{__package__}.ddgs_process") as child:
                answer = await child.ask(question, self._seconds)
        except ChildTimeoutError as error:
            raise transient_error(_PROBLEMS["late"]) from error
        except ChildError as error:
            raise transient_error("the search ended without an answer; is `ddgs` installed?") from error
        return _results(query, limit, answer)


def _results(query: str, limit: int, answer: dict[str, Any]) -> SearchResults:
    if (problem := answer.get("problem")) == "rate":
        raise ApplicationError("the public search engines limit the rate of searches", type=ErrorType.RATE_LIMITED)
    if problem:
        raise transient_error(_PROBLEMS[problem])
    hits = tuple(SearchHit.model_validate(hit) for hit in answer["hits"][:limit] if hit["url"])
    return SearchResults(
        query=query,
        results=hits,
        confidence=confidence_by_words(query, hits),
        note="" if hits else "The engines may also have refused an automated search.",
    )
