"""Common code of the search engines: JSON over HTTP within limits, errors as Temporal should treat them, dates."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError
from temporalio.exceptions import ApplicationError

from activities.documents.words import content_words, words
from activities.http.response_limits import BodyRefused, describe_tls_error, limit_client
from activities.http.retry_after import retry_after
from activities.tools.search.protocol import SearchHit
from chargehand.converter import non_retryable_error
from chargehand.wire import ErrorType

if TYPE_CHECKING:
    from httpx2 import AsyncClient

_Answer = TypeVar("_Answer", bound=BaseModel)
QUERY_CHARACTERS: Final = 400
"""Longer queries are cut: Tavily refuses them, and other engines ignore the rest."""
_TIMEOUT: Final = timedelta(seconds=30)
_LONGEST_ANSWER_BYTES: Final = 4_000_000
_LONGEST_DATE: Final = 100
_MONTH: Final = re.compile(r"[12]\d{3}(-(0[1-9]|1[0-2]))?")
_MAIL_DATE: Final = re.compile(r"([A-Z][a-z]{2}, )?\d{1,2} [A-Z][a-z]{2} \d{4}\b.*")


class JsonEngine:
    """The HTTP API of one engine. Close it after use.

    Args:
        name: the engine's name in error messages.
        refusals: messages for the engine's own client error statuses.
        http_client: used instead of a client created here, and left open.
        trust_env: whether proxies from the environment are used.
    """

    def __init__(
        self, name: str, refusals: Mapping[int, str], http_client: "AsyncClient | None" = None, *, trust_env: bool
    ) -> None:
        self._name = name
        self._refusals = refusals
        self._http_client = http_client and limit_client(http_client, _LONGEST_ANSWER_BYTES)
        self._owns_http_client = http_client is None
        self._trust_env = trust_env
        self._connecting = asyncio.Lock()

    async def ask(self, shape: type[_Answer], url: str, method: str = "GET", **options: Any) -> _Answer:
        """Send one request and return the answer. Raises `ApplicationError`."""
        body = await self._request(method, url, **options)
        try:
            return await asyncio.to_thread(shape.model_validate_json, body)
        except ValidationError as error:
            raise transient_error(f"{self._name} sent an answer that does not match its documentation") from error

    async def close(self) -> None:
        """Close the connections, unless the client belongs to the caller."""
        if self._owns_http_client and self._http_client is not None:
            await self._http_client.aclose()
            self._http_client = None

    async def _request(self, method: str, url: str, **options: Any) -> bytes:
        client = await self._client()
        from httpx2 import HTTPError, TimeoutException  # already imported by the client

        try:
            async with asyncio.timeout(_TIMEOUT.total_seconds()):
                async with client.stream(method, url, **options) as response:
                    if response.status_code != HTTPStatus.OK:
                        raise self._status_error(response.status_code, retry_after(response.headers.get("retry-after")))
                    return await response.aread()
        except (TimeoutError, TimeoutException) as error:
            raise transient_error(f"{self._name} did not answer within {_TIMEOUT.total_seconds():g} seconds") from error
        except BodyRefused as refused:
            raise permanent_error(f"the answer of {self._name} was not read: {refused}") from refused
        except HTTPError as error:
            if problem := describe_tls_error(error):
                host = urlsplit(url).hostname or url
                raise permanent_error(f"{self._name} at {host} cannot be used: {problem}") from error
            raise transient_error(f"{self._name} could not be reached: {type(error).__name__}") from error

    async def _client(self) -> "AsyncClient":
        async with self._connecting:
            if self._http_client is None:
                self._http_client = await asyncio.to_thread(self._make_client)
            return self._http_client

    def _make_client(self) -> "AsyncClient":
        from httpx2 import AsyncClient  # takes 0.2 s, and is needed only if this engine is chosen

        headers = {"Accept": "application/json"}
        client = AsyncClient(trust_env=self._trust_env, timeout=_TIMEOUT.total_seconds(), headers=headers)
        return limit_client(client, _LONGEST_ANSWER_BYTES)

    def _status_error(self, status: int, wait: timedelta | None) -> ApplicationError:
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            message = f"{self._name} limits the rate of searches"
            return ApplicationError(message, type=ErrorType.RATE_LIMITED, next_retry_delay=wait)
        if status >= 500 or status == HTTPStatus.REQUEST_TIMEOUT:
            message = f"{self._name} answered {status}"
            return ApplicationError(message, type=ErrorType.TOOL_UNAVAILABLE, next_retry_delay=wait)
        return permanent_error(self._refusals.get(status, f"{self._name} refused the search with status {status}"))


def transient_error(message: str) -> ApplicationError:
    """Build an error that Temporal retries."""
    return ApplicationError(message, type=ErrorType.TOOL_UNAVAILABLE)


def permanent_error(message: str) -> ApplicationError:
    """Build an error that the operator must resolve, which is not retried."""
    return non_retryable_error(ErrorType.TOOL_UNAVAILABLE, message)


def confidence_by_words(query: str, hits: Sequence[SearchHit]) -> int:
    """Rate results by the share of the query's words in the best hit, for engines that state no scores."""
    wanted = set(content_words(query))
    shares = (len(wanted & set(words(f"{hit.title} {hit.snippet}"))) / len(wanted) for hit in hits if wanted)
    return round(100 * max(shares, default=0.0))


def web_hit(url: str, title: str | None, snippet: str | None, stated_date: str | None) -> SearchHit:
    """Build a hit from an engine's fields, any of which may be missing."""
    return SearchHit(title=title or "", snippet=snippet or "", url=url, published=iso_date(stated_date))


def iso_date(stated: str | None) -> str | None:
    """Write a date of publication as ISO 8601, in the precision stated, in UTC if its zone is known.

    Returns None unless it is ISO 8601 or the date of a mail or feed: a guess at `03/04/2026` would often be wrong.
    """
    text = (stated or "").strip()[:_LONGEST_DATE]
    if _MONTH.fullmatch(text):
        return text
    try:
        moment = parsedate_to_datetime(text) if _MAIL_DATE.fullmatch(text) else datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            moment = moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None and moment.time() == time():
        return moment.date().isoformat()
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
