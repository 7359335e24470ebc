"""SearXNG over the wire, against a server on loopback that answers as its documentation says."""

import json
import threading
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from engine_server import EngineServer, serve_engine
from temporalio.exceptions import ApplicationError

from activities.search.protocol import SearchHit, SearchResults
from activities.search.searxng import SearxngSearch
from chargehand.wire import ErrorType


@pytest.fixture
def service() -> Iterator[EngineServer]:
    with serve_engine() as server:
        yield server


@pytest.fixture
async def search(service: EngineServer) -> AsyncIterator[SearxngSearch]:
    made = SearxngSearch(service.url)
    yield made
    await made.close()


def answer(results: list[dict[str, Any]], **more: Any) -> bytes:
    """Write an answer with all that SearXNG sends."""
    said: dict[str, Any] = {
        "query": "",
        "number_of_results": 0,
        "answers": [],
        "corrections": [],
        "infoboxes": [],
        "suggestions": [],
    }
    return json.dumps({**said, "unresponsive_engines": [], **more, "results": results}).encode()


async def test_results_come_back_whole(service: EngineServer, search: SearxngSearch) -> None:
    """Title, words, place and date of each result are kept; a first place at three engines is a score of 9, so 90."""
    service.body = answer(
        [
            {
                "title": "Tides",
                "url": "https://a.example/1",
                "content": "Twice a day.",
                "publishedDate": "2026-01-02T00:00:00",
                "engine": "one",
                "engines": ["one", "two", "three"],
                "positions": [1, 1, 1],
                "score": 9.0,
            },
            {"title": "Moon", "url": "https://b.example/", "content": None, "publishedDate": None, "score": 0.5},
        ]
    )

    found = await search.search("why tides", 5, ())

    assert found == SearchResults(
        query="why tides",
        results=(
            SearchHit(title="Tides", snippet="Twice a day.", url="https://a.example/1", published="2026-01-02"),
            SearchHit(title="Moon", snippet="", url="https://b.example/"),
        ),
        confidence=90,
    )
    assert service.asked == [("GET", "/search", {"q": "why tides", "format": "json"})]


async def test_no_more_is_given_than_was_asked_for(service: EngineServer, search: SearxngSearch) -> None:
    """SearXNG cannot be told how many results are wanted; what has no place is no result."""
    service.body = answer([{"title": "2"}, *({"title": "t", "url": f"https://a.example/{n}"} for n in range(30))])

    found = await search.search("q", 3, ())

    assert [hit.url for hit in found.results] == [f"https://a.example/{n}" for n in range(3)]


async def test_engines_that_did_not_answer_are_named(service: EngineServer, search: SearxngSearch) -> None:
    """Nothing found is an answer, and the agent is told that not everybody was heard."""
    service.body = answer([], unresponsive_engines=[["two", "timeout"], ["one", "CAPTCHA"]])

    found = await search.search("q", 5, ())

    assert found == SearchResults(query="q", results=(), confidence=0, note="Engines that did not answer: one, two.")


@pytest.mark.parametrize("path", ["", "/", "/searx", "/searx/"])
async def test_an_instance_may_stand_below_a_path(service: EngineServer, path: str) -> None:
    """The address is that of the instance, with or without a slash at its end."""
    search = SearxngSearch(f" {service.url}{path} ")

    await search.search("q", 5, ())
    await search.close()

    assert [asked[1] for asked in service.asked] == [f"{path.rstrip('/')}/search"]


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
        (500, ErrorType.TOOL_UNAVAILABLE, False),
        (503, ErrorType.TOOL_UNAVAILABLE, False),
    ],
)
async def test_every_status_is_a_typed_error(
    service: EngineServer, search: SearxngSearch, status: int, error_type: ErrorType, *, non_retryable: bool
) -> None:
    """What can pass by itself is tried again, after the wait that is asked for; redirects are not followed."""
    service.status = status
    service.headers = {"Retry-After": "7", "Location": service.url}
    service.body = b"" if status == 204 else b"no"

    with pytest.raises(ApplicationError) as caught:
        await search.search("q", 5, ())

    delay = None if non_retryable else timedelta(seconds=7)
    assert (caught.value.type, caught.value.non_retryable) == (error_type, non_retryable)
    assert (caught.value.next_retry_delay, len(service.asked)) == (delay, 1)


async def test_an_instance_that_does_not_answer_in_json_says_what_to_do(
    service: EngineServer, search: SearxngSearch
) -> None:
    """JSON is off in a fresh SearXNG; the message names the setting."""
    service.status = 403

    with pytest.raises(ApplicationError, match="add `json` to `search: formats:`"):
        await search.search("q", 5, ())


@pytest.mark.parametrize(
    "body",
    [b"<html>", b"[]", b"{}", b'{"results": "none"}', b'{"results": [{"url": 7}]}', b'{"results": [{"score": "x"}]}'],
)
async def test_an_answer_of_another_shape_is_a_typed_error(
    service: EngineServer, search: SearxngSearch, body: bytes
) -> None:
    """Whatever comes back, nothing but results or a typed error goes on."""
    service.body = body

    with pytest.raises(ApplicationError) as caught:
        await search.search("q", 5, ())

    assert (caught.value.type, caught.value.non_retryable) == (ErrorType.TOOL_UNAVAILABLE, False)


async def test_an_answer_without_end_is_cut_off(service: EngineServer, search: SearxngSearch) -> None:
    """What is too long to be a list of results is not taken into memory."""
    service.body = b" " * 10_000_000

    with pytest.raises(ApplicationError, match="longer than 4 MB"):
        await search.search("q", 5, ())


async def test_an_instance_that_cannot_be_reached_is_tried_again() -> None:
    """No connection is a fault that passes."""
    with serve_engine() as service:
        gone = service.url
    search = SearxngSearch(gone)

    with pytest.raises(ApplicationError, match="could not be reached") as caught:
        await search.search("q", 5, ())
    await search.close()

    assert (caught.value.type, caught.value.non_retryable) == (ErrorType.TOOL_UNAVAILABLE, False)


async def test_an_instance_that_does_not_answer_is_tried_again(service: EngineServer) -> None:
    """Waiting has an end."""
    service.hold = threading.Event()
    async with httpx2.AsyncClient(timeout=0.1, trust_env=False) as http_client:
        search = SearxngSearch(service.url, http_client)
        with pytest.raises(ApplicationError, match="did not answer") as caught:
            await search.search("q", 5, ())
        await search.close()

        assert not http_client.is_closed
    assert (caught.value.type, caught.value.non_retryable) == (ErrorType.TOOL_UNAVAILABLE, False)


async def test_the_environment_changes_nothing(
    service: EngineServer, search: SearxngSearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An internal instance is asked directly, whatever proxy the worker's environment names."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    await search.search("q", 5, ())

    assert len(service.asked) == 1


@pytest.mark.parametrize("url", ["", "searx.example", "ftp://searx.example", "http://", "http://searx.example/?q=1"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    """A worker with such a setting does not start."""
    with pytest.raises(ValueError, match="address of a SearXNG instance"):
        SearxngSearch(url)
