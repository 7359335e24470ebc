"""Which search engine and which sandbox a worker uses, by its settings."""

import asyncio
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

from activities.documents.artifacts import ArtifactStore
from activities.documents.library import DocumentLibrary
from activities.tools.code.protocol import CodeResult, CodeRunner
from activities.tools.code.registry import code_backend
from activities.tools.search.protocol import SearchBackend
from activities.tools.search.registry import search_backend
from chargehand.errors import ChargehandError
from chargehand.plugins import Registry
from tests.unit.deployment.test_how_to_pages import files_of
from worker.settings import Settings

TAVILY = {"TAVILY_API_KEY": "tvly-key"}
E2B = {"E2B_API_KEY": "e2b_key"}


@pytest.fixture
def settings(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Settings:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return Settings(state_dir=tmp_path)


async def engine(settings: Settings) -> SearchBackend:
    library = DocumentLibrary(ArtifactStore(settings.state_dir), settings.state_dir)
    async with AsyncExitStack() as closing:
        backend = search_backend()
        return backend.builder(settings, backend.choose(settings).adapter)(settings, library, closing)


async def sandbox(settings: Settings) -> CodeRunner:
    async with AsyncExitStack() as closing:
        backend = code_backend()
        return await backend.builder(settings, backend.choose(settings).adapter)(settings, closing)


@pytest.mark.parametrize(
    ("environment", "internet"), [(E2B, False), (E2B | {"CHARGEHAND_CODE_INTERNET": "true"}, True)]
)
async def test_sandbox_internet_access_is_off_by_default(settings: Settings, *, internet: bool) -> None:
    """Programs at E2B reach the internet only with CHARGEHAND_CODE_INTERNET."""
    assert (await sandbox(settings)).reaches_out is internet


class HouseSandbox:
    """Stands in for another package's sandbox."""

    name, languages, language, handles_files, reaches_out = "house", ("python",), "Python", False, False

    async def run(self, code: str, name: str) -> CodeResult:
        raise NotImplementedError


async def open_sandbox(*_: object) -> HouseSandbox:
    return HouseSandbox()


async def open_half_a_sandbox(*_: object) -> object:
    return SimpleNamespace(name="half", language="Python", languages=("python",), reaches_out=False)


def register(registry: Registry) -> None:
    registry.search_service("tavily", "no_such_module:open")
    registry.search_service("broken", "no_such_module:open")
    registry.code_sandbox("house", f"{__name__}:open_sandbox", needs="E2B_DOMAIN")
    registry.code_sandbox("broken", "builtins:max")
    registry.code_sandbox("half", f"{__name__}:open_half_a_sandbox")


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, install: Callable[..., None]) -> None:
    """Install the search service of the how-to page and a sandbox."""
    (tmp_path / "house_search.py").write_text(files_of("own-plugins")["house_search.py"])
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "house_search", raising=False)
    install(search="house_search:register", others=f"{__name__}:register")


@pytest.mark.parametrize(
    ("environment", "names"),
    [
        ({}, ("local", "monty")),
        (TAVILY, ("tavily", "monty")),
        (TAVILY | E2B, ("tavily", "e2b")),
        ({"TAVILY_API_KEY": "", "E2B_API_KEY": ""}, ("local", "monty")),
        (TAVILY | {"CHARGEHAND_SEARCH": "local"}, ("local", "monty")),
        (E2B | {"CHARGEHAND_CODE": "monty"}, ("local", "monty")),
        (E2B | {"CHARGEHAND_CODE": "e2b"}, ("local", "e2b")),
        ({"CHARGEHAND_SEARCH": "house", "CHARGEHAND_CODE": "house", "E2B_DOMAIN": "d"}, ("house", "house")),
        (TAVILY | {"E2B_DOMAIN": "house.example"}, ("tavily", "house")),
        (E2B | {"E2B_DOMAIN": "house.example"}, ("local", "e2b")),
    ],
)
@pytest.mark.usefixtures("house")
async def test_an_api_key_selects_a_backend_unless_a_setting_does(settings: Settings, names: tuple[str, str]) -> None:
    """Plug-ins add backends, selected by name or by their variable, with lower precedence than built-in ones."""
    assert ((await engine(settings)).name, (await sandbox(settings)).name) == names


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"CHARGEHAND_SEARCH": "tavily"}, "TAVILY_API_KEY is not set, but the search backend 'tavily' needs it"),
        ({"CHARGEHAND_SEARCH": "tavily", "TAVILY_API_KEY": " "}, "TAVILY_API_KEY is not set"),
        ({"TAVILY_API_KEY": " "}, "TAVILY_API_KEY is not set"),
        ({"CHARGEHAND_SEARCH": "google"}, "CHARGEHAND_SEARCH: 'google' is not one of .*local, .*tavily"),
        ({"CHARGEHAND_CODE": "e2b"}, "E2B_API_KEY is not set, but the code backend 'e2b' needs it"),
        ({"CHARGEHAND_SEARCH": "broken"}, "The plug-in 'others': no_such_module:open cannot be imported: Mod"),
        ({"CHARGEHAND_CODE": "broken"}, "The plug-in 'others': its sandbox broken failed: TypeError"),
        ({"CHARGEHAND_CODE": "half"}, "SimpleNamespace is not a CodeRunner: missing handles_files, run; mend it"),
        ({"CHARGEHAND_CODE": "house"}, "E2B_DOMAIN is not set, but the code backend 'house' needs it"),
        ({"CHARGEHAND_CODE": "shed"}, "CHARGEHAND_CODE: 'shed' is not one of broken, .*e2b, half, house, monty"),
    ],
)
@pytest.mark.usefixtures("house")
async def test_an_unusable_backend_stops_the_worker(settings: Settings, says: str) -> None:
    """No backend ever silently replaces the configured one; the error names the plug-in or the missing setting."""
    with pytest.raises(ChargehandError, match=says):
        await asyncio.gather(engine(settings), sandbox(settings))
