"""Tavily by its real SDK over the wire, against a server on loopback."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest
from tavily_server import TavilyServer, serve_tavily
from temporalio.exceptions import ApplicationError

from activities.search.protocol import SearchHit, SearchResults
from activities.search.tavily import TavilySearch
from chargehand.wire import ErrorType


@pytest.fixture
def service() -> Iterator[TavilyServer]:
    with serve_tavily() as server:
        yield server


@pytest.fixture
async def search(service: TavilyServer) -> AsyncIterator[TavilySearch]:
    made = TavilySearch("tvly-key", base_url=service.url)
    yield made
    await made.close()


async def test_results_come_back_whole(service: TavilyServer, search: TavilySearch) -> None:
    """Title, words, place and date of each result are kept, and the best score is the confidence."""
    service.answer(
        [
            {"title": "Tides", "url": "https://a.example/1", "content": "Twice a day.", "score": 0.876},
            {
                "title": "Moon",
                "url": "https://b.example/",
                "content": "Pulls.",
                "score": 0.5,
                "published_date": "Fri, 02 Jan 2026 10:20:30 GMT",
            },
        ]
    )

    found = await search.search("why tides", 5, ())

    assert found == SearchResults(
        query="why tides",
        results=(
            SearchHit(title="Tides", snippet="Twice a day.", url="https://a.example/1"),
            SearchHit(title="Moon", snippet="Pulls.", url="https://b.example/", published="2026-01-02T10:20:30Z"),
        ),
        confidence=88,
    )
    assert (service.paths, service.authorizations) == (["/search"], ["Bearer tvly-key"])
    assert (service.asked[0]["query"], service.asked[0]["max_results"]) == ("why tides", 5)


async def test_nothing_found_is_an_answer(search: TavilySearch) -> None:
    """An empty list is no fault, and no confidence."""
    assert await search.search("nothing", 5, ()) == SearchResults(query="nothing", results=(), confidence=0)


async def test_a_long_query_is_cut_and_said_to_be(service: TavilyServer, search: TavilySearch) -> None:
    """What was really asked is what comes back as the query."""
    found = await search.search("w" * 1_000, 5, ())

    assert found.query == service.asked[0]["query"] == "w" * 400


@pytest.mark.parametrize(
    ("status", "error_type", "non_retryable"),
    [
        (204, ErrorType.TOOL_UNAVAILABLE, True),
        (302, ErrorType.TOOL_UNAVAILABLE, True),
        (400, ErrorType.TOOL_UNAVAILABLE, True),
        (401, ErrorType.TOOL_UNAVAILABLE, True),
        (403, ErrorType.TOOL_UNAVAILABLE, True),
        (404, ErrorType.TOOL_UNAVAILABLE, True),
        (408, ErrorType.TOOL_UNAVAILABLE, False),
        (429, ErrorType.RATE_LIMITED, False),
        (432, ErrorType.TOOL_UNAVAILABLE, True),
        (433, ErrorType.TOOL_UNAVAILABLE, True),
        (500, ErrorType.TOOL_UNAVAILABLE, False),
        (502, ErrorType.TOOL_UNAVAILABLE, False),
        (503, ErrorType.TOOL_UNAVAILABLE, False),
    ],
)
async def test_every_status_is_a_typed_error(
    service: TavilyServer, search: TavilySearch, status: int, error_type: ErrorType, *, non_retryable: bool
) -> None:
    """What can pass by itself is tried again by Temporal, and by nobody else."""
    service.status = status
    service.body = b"" if status == 204 else b'{"detail": {"error": "no"}}'

    with pytest.raises(ApplicationError) as caught:
        await search.search("q", 5, ())

    assert (caught.value.type, caught.value.non_retryable) == (error_type, non_retryable)
    assert len(service.asked) == 1
    assert "tvly-key" not in str(caught.value)


@pytest.mark.parametrize(
    ("retry_after", "delay"),
    [
        ("7", timedelta(seconds=7)),
        ("0.5", timedelta(seconds=0.5)),
        ("999999", timedelta(hours=1)),
        ("-3", timedelta(0)),
    ],
)
async def test_the_wait_that_tavily_asks_for_is_kept(
    service: TavilyServer, search: TavilySearch, retry_after: str, delay: timedelta
) -> None:
    """The SDK drops the header; the next attempt is delayed by it all the same, within an hour."""
    service.status = 429
    service.headers = {"Retry-After": retry_after}

    with pytest.raises(ApplicationError) as caught:
        await search.search("q", 5, ())

    assert caught.value.next_retry_delay == delay


async def test_a_wait_given_as_a_date_is_kept(service: TavilyServer, search: TavilySearch) -> None:
    """HTTP allows a date in place of seconds."""
    service.status = 503
    service.headers = {"Retry-After": format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)}

    with pytest.raises(ApplicationError) as caught:
        await search.search("q", 5, ())

    assert caught.value.next_retry_delay is not None
    assert timedelta(seconds=60) < caught.value.next_retry_delay <= timedelta(seconds=90)


@pytest.mark.parametrize("retry_after", ["", "soon", "nan", "inf"])
async def test_a_wait_that_cannot_be_read_is_left_to_the_policy(
    service: TavilyServer, search: TavilySearch, retry_after: str
) -> None:
    """A senseless header changes nothing."""
    service.status = 429
    service.headers = {"Retry-After": retry_after}

    with pytest.raises(ApplicationError) as caught:
        await search.search("q", 5, ())

    assert (caught.value.type, caught.value.next_retry_delay) == (ErrorType.RATE_LIMITED, None)


async def test_searches_side_by_side_keep_their_own_waits(service: TavilyServer, search: TavilySearch) -> None:
    """One search's wait is not another's."""
    service.status = 429
    service.headers_by_query = {f"q{seconds}": {"Retry-After": str(seconds)} for seconds in range(1, 6)}

    found = await asyncio.gather(
        *(search.search(query, 5, ()) for query in service.headers_by_query), return_exceptions=True
    )

    waits = [one.next_retry_delay for one in found if isinstance(one, ApplicationError)]
    assert waits == [timedelta(seconds=seconds) for seconds in range(1, 6)]


@pytest.mark.parametrize("body", [b"not json", b"[]", b'{"results": "none"}', b'{"results": [{"title": "no url"}]}'])
async def test_an_answer_of_another_shape_is_a_typed_error(
    service: TavilyServer, search: TavilySearch, body: bytes
) -> None:
    """Whatever comes back, nothing but results or a typed error goes on."""
    service.body = body

    with pytest.raises(ApplicationError) as caught:
        await search.search("q", 5, ())

    assert (caught.value.type, caught.value.non_retryable) == (ErrorType.TOOL_UNAVAILABLE, False)


async def test_a_service_that_cannot_be_reached_is_tried_again() -> None:
    """No connection is a fault that passes."""
    with serve_tavily() as service:
        gone = service.url
    search = TavilySearch("tvly-key", base_url=gone)

    with pytest.raises(ApplicationError) as caught:
        await search.search("q", 5, ())
    await search.close()

    assert (caught.value.type, caught.value.non_retryable) == (ErrorType.TOOL_UNAVAILABLE, False)


async def test_a_service_that_does_not_answer_is_tried_again(service: TavilyServer) -> None:
    """The SDK's own `TimeoutError`, which is not the builtin, is known."""

    def too_slow(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("slow", request=request)

    async with httpx.AsyncClient(transport=httpx.MockTransport(too_slow)) as http_client:
        search = TavilySearch("tvly-key", http_client=http_client, base_url=service.url)
        with pytest.raises(ApplicationError) as caught:
            await search.search("q", 5, ())

    assert (caught.value.type, caught.value.non_retryable) == (ErrorType.TOOL_UNAVAILABLE, False)


async def test_a_client_that_was_handed_in_is_left_open(service: TavilyServer) -> None:
    """Who made the HTTP client closes it."""
    async with httpx.AsyncClient() as http_client:
        search = TavilySearch("tvly-key", http_client=http_client, base_url=service.url)
        await search.search("q", 5, ())
        await search.close()

        assert not http_client.is_closed


@pytest.mark.parametrize("key", ["", "  "])
def test_a_search_without_a_key_is_not_made(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a key the SDK would take one from the environment, or search anonymously."""
    monkeypatch.setenv("TAVILY_API_KEY", "tvly-from-somewhere")

    with pytest.raises(ValueError, match="API key"):
        TavilySearch(key)
