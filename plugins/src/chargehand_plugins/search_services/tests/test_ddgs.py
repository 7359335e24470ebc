"""`ddgs` with its real library in its real child process, and which search service a worker's settings select."""

import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError

from activities.backends import SettingsError
from activities.documents.artifacts import ArtifactStore
from activities.documents.library import DocumentLibrary
from activities.tools.search.protocol import EXCERPT_CHARACTERS, SearchHit, SearchResults
from activities.tools.search.registry import search_backend
from chargehand.wire import ErrorType
from chargehand_plugins.search_services import services
from chargehand_plugins.search_services.ddgs import DdgsSearch
from chargehand_plugins.search_services.tests.engine_server import EngineServer, serve_engine
from worker.settings import settings_type

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


async def test_ddgs_results_are_returned_in_full(service: EngineServer) -> None:
    """Title, text and address are kept; the first has one of the two words asked for, so confidence is 50."""
    found = await search_at(service).search("tides moorings", 5, ())

    first = SearchHit(title="Tides explained", snippet="The sea rises twice a day.", url="https://a.example/1")
    second = SearchHit(title="Moon", snippet="It pulls at the tides.", url="https://b.example/")
    assert found == SearchResults(query="tides moorings", results=(first, second), confidence=50)
    sent = [(method, path, asked["q"]) for method, path, asked in service.asked]
    assert sent == [("POST", "/html/", "tides moorings")]


async def test_a_large_page_is_cut_in_the_child_process(service: EngineServer) -> None:
    """A hit keeps a few thousand characters, and one with a longer address is dropped."""
    text = b"tides " * 100_000
    hit = b'<div class="body"><h2>%s</h2><a href="https://a.example/%s">%s</a></div>'
    service.body = b"<html><body>%s%s</body></html>" % (hit % (text, b"1", text), hit % (b"x", b"y" * 5_000, b"z"))
    [found] = (await search_at(service).search("tides", 5, ())).results

    assert (len(found.title), len(found.snippet)) == (EXCERPT_CHARACTERS, EXCERPT_CHARACTERS)


@pytest.mark.parametrize("status", [200, 429])
async def test_an_empty_result_may_mean_a_refused_search(service: EngineServer, status: int) -> None:
    """The library cannot tell them apart, and the agent is told so."""
    service.status = status
    service.body = b"<html><body>Are you a robot?</body></html>"

    found = await search_at(service).search("q", 5, ())

    note = "The engines may also have refused an automated search."
    assert found == SearchResults(query="q", results=(), confidence=0, note=note)


async def test_engines_that_are_gone_or_do_not_answer_are_tried_again() -> None:
    """A failed connection and a time-out are transient errors."""
    with serve_engine() as silent:
        silent.hold = threading.Event()
        with pytest.raises(ApplicationError, match="did not answer in time") as late:
            await search_at(silent, timedelta(seconds=1)).search("q", 5, ())
    with pytest.raises(ApplicationError, match="could not be reached") as gone:
        await search_at(silent).search("q", 5, ())

    for caught in (late.value, gone.value):
        assert (caught.type, caught.non_retryable) == (ErrorType.TOOL_UNAVAILABLE, False)


async def test_ddgs_ignores_proxies_of_the_environment(service: EngineServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library would use one, but the child process has no environment."""
    for name in ("DDGS_PROXY", "HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    found = await search_at(service).search("tides", 5, ())

    assert len(found.results) == 2


TAVILY, SEARXNG = {"TAVILY_API_KEY": "tvly-key"}, {"CHARGEHAND_SEARXNG_URL": "http://searx.internal:8080"}
BRAVE = {"BRAVE_API_KEY": "brave-key"}


async def open_service(environment: dict[str, str], folder: Path) -> str:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        settings = settings_type()(state_dir=folder)
    backend, library = search_backend(), DocumentLibrary(ArtifactStore(folder), folder)
    async with AsyncExitStack() as closing:
        return backend.builder(settings, backend.choose(settings).adapter)(settings, library, closing).name


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        (SEARXNG, "searxng"),
        (BRAVE | SEARXNG, "brave"),
        (TAVILY | BRAVE | SEARXNG, "tavily"),
        ({"TAVILY_API_KEY": "", "CHARGEHAND_SEARXNG_URL": ""}, "local"),
        (TAVILY | SEARXNG | {"CHARGEHAND_SEARCH": "searxng"}, "searxng"),
        (TAVILY | SEARXNG | {"CHARGEHAND_SEARCH": "ddgs"}, "ddgs"),
    ],
)
async def test_a_key_selects_the_search_service_unless_the_setting_does(
    environment: dict[str, str], name: str, tmp_path: Path
) -> None:
    """A key or an address is enough; the explicit setting takes precedence, and only it selects `ddgs`."""
    assert await open_service(environment, tmp_path) == name


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"CHARGEHAND_SEARCH": "brave"}, "BRAVE_API_KEY is not set, but the search backend 'brave' needs it"),
        ({"CHARGEHAND_SEARCH": "searxng"}, "CHARGEHAND_SEARXNG_URL is not set"),
        ({"CHARGEHAND_SEARCH": "ddgs"}, r"pip install 'chargehand\[ddgs\]'"),
    ],
)
async def test_an_unusable_search_service_stops_the_worker(
    environment: dict[str, str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No service silently replaces the configured one; for a missing package the error says what to install."""
    monkeypatch.setattr(services, "find_spec", lambda _: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]  # the name does not matter

    with pytest.raises(SettingsError, match=says):
        await open_service(environment, tmp_path)
