"""`ddgs` by its real library and HTTP client in its real child process, against result pages on loopback."""

import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
from temporalio.exceptions import ApplicationError

from activities.tools.search.protocol import SearchHit, SearchResults
from chargehand.wire import ErrorType
from chargehand_plugins.search_services.ddgs import DdgsSearch
from chargehand_plugins.search_services.tests.engine_server import EngineServer, serve_engine

PAGE = b"""<html><body>
<div class="body"><h2>Tides <b>explained</b></h2><a href="https://a.example/1">The sea rises twice a day.</a></div>
<div class="body"><h2>Bought</h2><a href="https://duckduckgo.com/y.js?ad">An advertisement.</a></div>
<div class="body"><h2>Moon</h2><a href="https://b.example/">It pulls at the tides.</a></div>
</body></html>"""


@pytest.fixture
def service() -> Iterator[EngineServer]:
    with serve_engine() as server:
        server.body = PAGE
        yield server


def search_at(service: EngineServer, timeout: timedelta = timedelta(seconds=30)) -> DdgsSearch:
    return DdgsSearch("duckduckgo", {"duckduckgo": f"{service.url}/html/"}, timeout)


async def test_results_come_back_whole(service: EngineServer) -> None:
    """Title, words and place are kept; the first has one of the two words asked for, so confidence is 50."""
    found = await search_at(service).search("tides moorings", 5, ())

    assert found == SearchResults(
        query="tides moorings",
        results=(
            SearchHit(title="Tides explained", snippet="The sea rises twice a day.", url="https://a.example/1"),
            SearchHit(title="Moon", snippet="It pulls at the tides.", url="https://b.example/"),
        ),
        confidence=50,
    )
    assert [(method, path, asked["q"]) for method, path, asked in service.asked] == [
        ("POST", "/html/", "tides moorings")
    ]


@pytest.mark.parametrize("status", [200, 202, 403, 429, 500])
async def test_nothing_found_may_mean_refused(service: EngineServer, status: int) -> None:
    """The library cannot tell them apart, and the agent is told so."""
    service.status = status
    service.body = b"<html><body>Are you a robot?</body></html>"

    found = await search_at(service).search("q", 5, ())

    note = "The engines may also have refused an automated search."
    assert found == SearchResults(query="q", results=(), confidence=0, note=note)


async def test_engines_that_cannot_be_reached_are_tried_again() -> None:
    """No connection is a fault that passes."""
    with serve_engine() as service:
        gone = search_at(service)

    with pytest.raises(ApplicationError, match="could not be reached") as caught:
        await gone.search("q", 5, ())

    assert (caught.value.type, caught.value.non_retryable) == (ErrorType.TOOL_UNAVAILABLE, False)


async def test_engines_that_do_not_answer_are_given_up(service: EngineServer) -> None:
    """Waiting has an end, and leaves no process behind that waits on."""
    service.hold = threading.Event()

    with pytest.raises(ApplicationError, match="did not answer in time") as caught:
        await search_at(service, timedelta(seconds=1)).search("q", 5, ())

    assert (caught.value.type, caught.value.non_retryable) == (ErrorType.TOOL_UNAVAILABLE, False)


async def test_a_proxy_of_the_environment_is_not_used(service: EngineServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library would take one; the child has no environment."""
    for name in ("DDGS_PROXY", "HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    found = await search_at(service).search("tides", 5, ())

    assert len(found.results) == 2
