"""Which search engine a worker uses, by its settings."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from activities import backends
from activities.backends import SettingsError
from activities.documents.artifacts import ArtifactStore
from activities.documents.library import DocumentLibrary
from activities.search.protocol import SearchBackend
from activities.search.registry import SEARCH
from activities.settings import Settings

TAVILY, SEARXNG = {"TAVILY_API_KEY": "tvly-key"}, {"CHARGEHAND_SEARXNG_URL": "http://searx.internal:8080"}


async def engine(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SearchBackend:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    settings = Settings(state_dir=tmp_path)
    library = DocumentLibrary(ArtifactStore(tmp_path), tmp_path)
    async with AsyncExitStack() as closing:
        return SEARCH.builder(settings, SEARCH.choose(settings).adapter)(settings, library, closing)


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({}, "local"),
        (TAVILY, "tavily"),
        (SEARXNG, "searxng"),
        (TAVILY | SEARXNG, "tavily"),
        ({"TAVILY_API_KEY": "", "CHARGEHAND_SEARXNG_URL": ""}, "local"),
        (TAVILY | SEARXNG | {"CHARGEHAND_SEARCH": "local"}, "local"),
        (TAVILY | SEARXNG | {"CHARGEHAND_SEARCH": "searxng"}, "searxng"),
        (TAVILY | SEARXNG | {"CHARGEHAND_SEARCH": "ddgs"}, "ddgs"),
    ],
)
async def test_a_key_chooses_unless_the_setting_does(
    environment: dict[str, str], name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A key or an address is enough; the explicit setting takes precedence; only it selects `ddgs`."""
    assert (await engine(environment, monkeypatch, tmp_path)).name == name


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"CHARGEHAND_SEARCH": "tavily"}, "TAVILY_API_KEY is not set, but the search backend 'tavily' needs it"),
        ({"CHARGEHAND_SEARCH": "tavily", "TAVILY_API_KEY": " "}, "TAVILY_API_KEY is not set"),
        ({"TAVILY_API_KEY": " "}, "TAVILY_API_KEY is not set"),
        ({"CHARGEHAND_SEARCH": "searxng"}, "CHARGEHAND_SEARXNG_URL is not set"),
        ({"CHARGEHAND_SEARCH": "google"}, "CHARGEHAND_SEARCH: 'google' is not one of ddgs, local, searxng, tavily"),
        ({"CHARGEHAND_SEARXNG_URL": "searx.internal"}, "CHARGEHAND_SEARXNG_URL: the address"),
    ],
)
async def test_a_choice_that_cannot_work_stops_the_worker(
    environment: dict[str, str], says: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A search engine never silently replaces the configured one."""
    with pytest.raises(SettingsError, match=says):
        await engine(environment, monkeypatch, tmp_path)


async def test_an_engine_that_is_not_installed_stops_the_worker(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`ddgs` is optional; the message says how to install it."""
    monkeypatch.setattr(backends, "find_spec", lambda _: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]  # the name does not matter

    with pytest.raises(SettingsError, match="uv sync --group ddgs"):
        await engine({"CHARGEHAND_SEARCH": "ddgs"}, monkeypatch, tmp_path)
