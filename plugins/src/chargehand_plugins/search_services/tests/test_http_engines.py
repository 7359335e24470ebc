"""Tavily, Brave and SearXNG over the wire, against a loopback server."""

import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from typing import cast

import httpx2
import pytest
from temporalio.exceptions import ApplicationError

from activities.tools.search.protocol import EXCERPT_CHARACTERS, SearchHit, SearchResults
from activities.tools.search.tavily import TavilySearch
from chargehand.wire import ErrorType
from chargehand_plugins.search_services.brave import BraveSearch
from chargehand_plugins.search_services.searxng import SearxngSearch
from chargehand_plugins.search_services.tests.engine_server import EngineServer, serve_engine

HttpSearch = BraveSearch | TavilySearch | SearxngSearch
MADE: dict[str, Callable[[str, httpx2.AsyncClient | None], HttpSearch]] = {
    "brave": lambda url, client: BraveSearch("brave-key", client, url),
    "tavily": lambda url, client: TavilySearch("tvly-key", client, url),
    "searxng": SearxngSearch,
}
BELOW = {"brave": "web"}
SCORING, UNSCORED = ("searxng", "tavily"), [b'{"results": [{"url": "https://a.example", "score": "x"}]}']
UNSHAPED = [b"not json", b"<html>", b"[]", b'{"results": "none"}', b'{"results": [{"url": 7}]}',
            b'{"results": [{"url": "https://a.example", "title": 7}]}']  # fmt: skip


@pytest.fixture
def service(engine: str) -> Iterator[EngineServer]:
    with serve_engine() as server:
        server.below = BELOW.get(engine, "")
        yield server


@pytest.fixture(params=sorted(MADE))
def engine(request: pytest.FixtureRequest) -> str:
    return cast("str", request.param)


@pytest.fixture
async def search(service: EngineServer, engine: str) -> AsyncIterator[HttpSearch]:
    made = MADE[engine](service.url, None)
    yield made
    await made.close()


async def test_a_large_response_is_cut_before_it_is_processed(search: HttpSearch, service: EngineServer) -> None:
    """Of 3.6 MB of words and HTML entities, the event loop processes a few thousand characters."""
    text = "sea &amp; " * 120_000
    hit = {"url": "https://a.example/1", "title": text, "content": text, "description": text}
    service.body = json.dumps({"results": [hit]}).encode()
    if service.below:
        service.body = json.dumps({service.below: {"results": [hit]}}).encode()
    before = time.thread_time()
    found = await search.search("sea", 5, ())

    assert time.thread_time() - before < 0.15  # a client takes most of it
    assert {len(found.results[0].title), len(found.results[0].snippet)} <= set(range(2_000, EXCERPT_CHARACTERS + 1))


async def fault(search: HttpSearch) -> ApplicationError:
    with pytest.raises(ApplicationError) as caught:
        await search.search("q", 5, ())
    return caught.value


def kind(error: ApplicationError) -> tuple[str | None, bool]:
    return error.type, error.non_retryable


TRANSIENT = (ErrorType.TOOL_UNAVAILABLE, False)


@pytest.mark.parametrize(
    ("engine", "date", "published", "scored"),
    [
        ("brave", {"page_age": "2026-01-02T10:20:30"}, "2026-01-02T10:20:30", (0.0, 50)),
        ("tavily", {"published_date": "Fri, 02 Jan 2026 10:20:30 GMT"}, "2026-01-02T10:20:30Z", (0.876, 88)),
        ("searxng", {"publishedDate": "2026-01-02T00:00:00"}, "2026-01-02", (9.0, 90)),
    ],
)
async def test_search_results_are_returned_in_full(
    service: EngineServer, engine: str, date: dict[str, str], published: str, scored: tuple[float, int]
) -> None:
    """Title, text, address and date are kept; the best score is the confidence, on one scale."""
    words = "description" if engine == "brave" else "content"
    first = {"title": "Tides", "url": "https://a.example/1", words: "Twice a day.", "score": scored[0], "more": [1]}
    second = {"title": "Moon", "url": "https://b.example/", words: None, "score": 0.5, **date}
    service.results_for = lambda _: [first, second]
    search = MADE[engine](service.url, None)

    found = await search.search("tides moons", 5, ())
    await search.close()

    tides = SearchHit(title="Tides", snippet="Twice a day.", url="https://a.example/1")
    moon = SearchHit(title="Moon", snippet="", url="https://b.example/", published=published)
    assert found == SearchResults(query="tides moons", results=(tides, moon), confidence=scored[1])
    only_web = {"q": "tides moons", "count": "5", "result_filter": "web", "text_decorations": "false"}
    asked = {
        "brave": ("GET", "/res/v1/web/search", only_web),
        "tavily": ("POST", "/search", {"query": "tides moons", "search_depth": "basic", "max_results": 5}),
        "searxng": ("GET", "/search", {"q": "tides moons", "format": "json"}),
    }
    assert service.asked == [asked[engine]]
    assert service.authorizations == [{"tavily": "Bearer tvly-key"}.get(engine)]
    assert service.tokens == [{"brave": "brave-key"}.get(engine)]


async def test_an_empty_result_states_the_query_that_was_sent(service: EngineServer, search: HttpSearch) -> None:
    """It is no error and has confidence 0; a long query is cut, and returned as it was sent."""
    found = await search.search("w" * 1_000, 5, ())

    parameters = service.asked[0][2]
    assert found == SearchResults(query="w" * 400, results=(), confidence=0)
    assert parameters.get("query", parameters.get("q")) == "w" * 400


async def test_search_results_beyond_the_requested_number_are_dropped(
    service: EngineServer, search: HttpSearch
) -> None:
    """Some engines send more results than were requested."""
    service.results_for = lambda _: [{"title": "t", "url": f"https://a.example/{n}"} for n in range(30)]

    found = await search.search("q", 3, ())

    assert [hit.url for hit in found.results] == [f"https://a.example/{n}" for n in range(3)]


async def test_every_failure_status_is_a_typed_error(service: EngineServer, search: HttpSearch) -> None:
    """A transient one is retried after `Retry-After`; redirects are not followed, and no key leaks."""
    service.headers = {"Retry-After": "7", "Location": service.url}
    for status in (204, 302, 400, 401, 402, 403, 404, 408, 422, 429, 432, 433, 500, 502, 503):
        service.status = status
        service.body = b"" if status == 204 else b'{"detail": {"error": "no"}}'
        service.asked.clear()
        error = await fault(search)

        is_transient = status in {408, 429} or status >= 500
        expected = ErrorType.RATE_LIMITED if status == 429 else ErrorType.TOOL_UNAVAILABLE
        assert kind(error) == (expected, not is_transient), status
        assert error.next_retry_delay == (timedelta(seconds=7) if is_transient else None), status
        assert (len(service.asked), "-key" in str(error)) == (1, False), status


async def test_a_malformed_response_is_a_typed_error(service: EngineServer, engine: str, search: HttpSearch) -> None:
    """A search returns only results or a typed error."""
    for body in (*UNSHAPED, *(UNSCORED if engine in SCORING else ()), *((b"{}",) if engine == "searxng" else ())):
        service.body = b'{"%s": %s}' % (service.below.encode(), body) if service.below else body
        assert kind(await fault(search)) == TRANSIENT, body


async def test_a_searxng_instance_may_be_below_a_path() -> None:
    """The address is the instance's, with or without a trailing slash."""
    with serve_engine() as service:
        for path in ("", "/", "/searx", "/searx/"):
            search = SearxngSearch(f" {service.url}{path} ")
            await search.search("q", 5, ())
            await search.close()

    assert [asked[1] for asked in service.asked] == ["/search", "/search", "/searx/search", "/searx/search"]


async def test_an_engine_that_does_not_answer_is_tried_again(service: EngineServer, engine: str) -> None:
    """So is an unreachable one; waiting is limited, and an HTTP client that was passed in stays open."""
    service.hold = threading.Event()
    async with httpx2.AsyncClient(trust_env=False) as http_client:
        for url, says in (("http://127.0.0.1:9", "could not be reached"), (service.url, "did not answer")):
            http_client.timeout = 0.1 if url == service.url else 60
            search = MADE[engine](url, http_client)
            error = await fault(search)
            await search.close()

            assert (kind(error), says in error.message) == (TRANSIENT, True)
        assert not http_client.is_closed


@pytest.mark.parametrize("engine", ["searxng"])
async def test_unresponsive_searxng_engines_are_named(service: EngineServer, search: HttpSearch) -> None:
    """The agent is told which ones; a hit without an address is not a result."""
    engines = [["two", "timeout"], ["one", "CAPTCHA"]]
    service.body = json.dumps({"results": [{"title": "2"}], "unresponsive_engines": engines, "answers": []}).encode()

    found = await search.search("q", 5, ())

    assert found == SearchResults(query="q", results=(), confidence=0, note="Engines that did not answer: one, two.")


@pytest.mark.parametrize("engine", ["searxng"])
async def test_a_searxng_setting_error_says_what_to_do(service: EngineServer, search: HttpSearch) -> None:
    """JSON is off in a fresh SearXNG, and addresses are mistyped; the message names the setting."""
    advice = {403: "add `json` to `search: formats:`", 302: "set CHARGEHAND_SEARXNG_URL to the address", 404: "/search"}
    for status, says in advice.items():
        service.status = status
        assert says in (await fault(search)).message


@pytest.mark.parametrize("engine", ["brave"])
async def test_a_brave_query_is_cut_to_50_words(service: EngineServer, search: HttpSearch) -> None:
    """Brave refuses more; text that it escaped for HTML is unescaped."""
    sent = {"title": "Q&amp;A", "url": "https://a.example/?a=1&b=2", "description": "It&#x27;s"}
    service.results_for = lambda _: [sent]

    found = await search.search(" ".join(f"w{number}" for number in range(60)), 5, ())

    assert found.query == service.asked[0][2]["q"] == " ".join(f"w{number}" for number in range(50))
    [hit] = found.results
    assert (hit.title, hit.snippet, hit.url) == ("Q&A", "It's", "https://a.example/?a=1&b=2")


@pytest.mark.parametrize("engine", ["searxng"])
async def test_searxng_ignores_proxies_of_the_environment(
    service: EngineServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An internal instance is asked directly, whatever proxy the worker's environment names."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    search = SearxngSearch(service.url)

    await search.search("q", 5, ())
    await search.close()

    assert len(service.asked) == 1
