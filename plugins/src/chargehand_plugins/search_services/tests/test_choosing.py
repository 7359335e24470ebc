"""Which search service a worker uses, with this plug-in, by its settings."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from pydantic import ValidationError

from activities.backends import SettingsError
from activities.documents.artifacts import ArtifactStore
from activities.documents.library import DocumentLibrary
from activities.tools.search.registry import search_backend
from chargehand_plugins.search_services import services
from chargehand_plugins.search_services.services import SearchServiceSettings
from worker.settings import settings_type

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
        ({}, "local"),
        (SEARXNG, "searxng"),
        (BRAVE | SEARXNG, "brave"),
        (TAVILY | BRAVE | SEARXNG, "tavily"),
        ({"TAVILY_API_KEY": "", "CHARGEHAND_SEARXNG_URL": ""}, "local"),
        (TAVILY | SEARXNG | {"CHARGEHAND_SEARCH": "local"}, "local"),
        (TAVILY | SEARXNG | {"CHARGEHAND_SEARCH": "searxng"}, "searxng"),
        (TAVILY | SEARXNG | {"CHARGEHAND_SEARCH": "ddgs"}, "ddgs"),
    ],
)
async def test_a_key_chooses_unless_the_setting_does(environment: dict[str, str], name: str, tmp_path: Path) -> None:
    """A key or an address is enough; the explicit setting takes precedence; only it selects `ddgs`."""
    assert await open_service(environment, tmp_path) == name


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"CHARGEHAND_SEARCH": "brave"}, "BRAVE_API_KEY is not set, but the search backend 'brave' needs it"),
        ({"CHARGEHAND_SEARCH": "searxng"}, "CHARGEHAND_SEARXNG_URL is not set"),
        (
            {"CHARGEHAND_SEARCH": "google"},
            "CHARGEHAND_SEARCH: 'google' is not one of brave, ddgs, local, searxng, tavily",
        ),
        (
            {"CHARGEHAND_SEARXNG_URL": "http://searx.internal/?q=1"},
            "CHARGEHAND_SEARXNG_URL: the address of a SearXNG instance",
        ),
    ],
)
async def test_a_choice_that_cannot_work_stops_the_worker(
    environment: dict[str, str], says: str, tmp_path: Path
) -> None:
    """No service ever silently replaces the configured one."""
    with pytest.raises(SettingsError, match=says):
        await open_service(environment, tmp_path)


async def test_a_service_that_is_not_installed_stops_the_worker(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`ddgs` is optional; the message says how to install it."""
    monkeypatch.setattr(services, "find_spec", lambda _: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]  # the name does not matter

    with pytest.raises(SettingsError, match=r"pip install 'chargehand\[ddgs\]'"):
        await open_service({"CHARGEHAND_SEARCH": "ddgs"}, tmp_path)


@pytest.mark.parametrize("address", ["file:/etc/passwd", "localhost:80", "http://", "https:///path", " https://host"])
def test_an_address_that_names_no_host_is_refused(address: str) -> None:
    """A mistyped address stops the worker."""
    with pytest.raises(ValidationError, match="an address that begins with http:// or https://"):
        SearchServiceSettings(searxng_url=address)
