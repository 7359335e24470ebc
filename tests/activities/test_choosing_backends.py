"""Which search engine and which sandbox a worker uses, by its settings."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from activities import backends
from activities.backends import SettingsError
from activities.documents.artifacts import ArtifactStore
from activities.documents.library import DocumentLibrary
from activities.tools.code.protocol import CodeRunner
from activities.tools.code.registry import CODE
from activities.tools.search.protocol import SearchBackend
from activities.tools.search.registry import SEARCH
from worker.settings import Settings

TAVILY, SEARXNG = {"TAVILY_API_KEY": "tvly-key"}, {"CHARGEHAND_SEARXNG_URL": "http://searx.internal:8080"}
BRAVE = {"BRAVE_API_KEY": "brave-key"}
E2B = {"E2B_API_KEY": "e2b_key"}


@pytest.fixture
def settings(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Settings:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return Settings(state_dir=tmp_path)


async def engine(settings: Settings) -> SearchBackend:
    library = DocumentLibrary(ArtifactStore(settings.state_dir), settings.state_dir)
    async with AsyncExitStack() as closing:
        return SEARCH.builder(settings, SEARCH.choose(settings).adapter)(settings, library, closing)


async def sandbox(settings: Settings) -> CodeRunner:
    async with AsyncExitStack() as closing:
        return await CODE.builder(settings, CODE.choose(settings).adapter)(settings, closing)


@pytest.mark.parametrize(
    ("environment", "names"),
    [
        ({}, ("local", "monty")),
        (TAVILY, ("tavily", "monty")),
        (SEARXNG | E2B, ("searxng", "e2b")),
        (BRAVE | SEARXNG, ("brave", "monty")),
        (TAVILY | BRAVE | SEARXNG, ("tavily", "monty")),
        ({"TAVILY_API_KEY": "", "CHARGEHAND_SEARXNG_URL": "", "E2B_API_KEY": ""}, ("local", "monty")),
        (TAVILY | SEARXNG | {"CHARGEHAND_SEARCH": "local"}, ("local", "monty")),
        (TAVILY | SEARXNG | {"CHARGEHAND_SEARCH": "searxng"}, ("searxng", "monty")),
        (TAVILY | SEARXNG | {"CHARGEHAND_SEARCH": "ddgs"}, ("ddgs", "monty")),
        (E2B | {"CHARGEHAND_CODE": "monty"}, ("local", "monty")),
        (E2B | {"CHARGEHAND_CODE": "e2b"}, ("local", "e2b")),
    ],
)
async def test_a_key_chooses_unless_the_setting_does(settings: Settings, names: tuple[str, str]) -> None:
    """A key or an address is enough; the explicit setting takes precedence; only it selects `ddgs`."""
    assert ((await engine(settings)).name, (await sandbox(settings)).name) == names


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"CHARGEHAND_SEARCH": "tavily"}, "TAVILY_API_KEY is not set, but the search backend 'tavily' needs it"),
        ({"CHARGEHAND_SEARCH": "tavily", "TAVILY_API_KEY": " "}, "TAVILY_API_KEY is not set"),
        ({"TAVILY_API_KEY": " "}, "TAVILY_API_KEY is not set"),
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
        ({"CHARGEHAND_CODE": "e2b"}, "E2B_API_KEY is not set, but the code backend 'e2b' needs it"),
    ],
)
async def test_a_choice_that_cannot_work_stops_the_worker(settings: Settings, says: str) -> None:
    """No backend ever silently replaces the configured one."""
    with pytest.raises(SettingsError, match=says):
        await asyncio.gather(engine(settings), sandbox(settings))


@pytest.mark.parametrize("environment", [{"CHARGEHAND_SEARCH": "ddgs"}])
async def test_an_engine_that_is_not_installed_stops_the_worker(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ddgs` is optional; the message says how to install it."""
    monkeypatch.setattr(backends, "find_spec", lambda _: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]  # the name does not matter

    with pytest.raises(SettingsError, match=r"pip install 'chargehand\[ddgs\]'"):
        await engine(settings)


@pytest.mark.parametrize(
    ("environment", "internet"), [(E2B, False), (E2B | {"CHARGEHAND_CODE_INTERNET": "true"}, True)]
)
async def test_internet_is_off_unless_set(settings: Settings, *, internet: bool) -> None:
    """Programs at E2B reach nothing by default."""
    assert (await sandbox(settings)).reaches_out is internet
