"""Fixtures for all tests: a real Temporal server with the settings of the embedded one, and no keys."""

import gc
import os
import shutil
import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from importlib.metadata import EntryPoint, EntryPoints
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from chargehand import plugins
from chargehand.connect import grpc_compression
from chargehand.converter import data_converter
from chargehand_cli.embedded.server import DYNAMIC_CONFIG, SEARCH_ATTRIBUTES

KEYS = (
    "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL", "BRAVE_API_KEY",
    "TAVILY_API_KEY", "TAVILY_BASE_URL", "E2B_API_KEY", "E2B_DOMAIN", "TEMPORAL_ADDRESS", "TEMPORAL_PROFILE",
    "TEMPORAL_CONFIG_FILE",
)  # fmt: skip

# The same examples in every run, so that failures come from the change; nightly runs try different and many more.
settings.register_profile(
    "every run", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=50
)
settings.load_profile("every run")
# For tests that .ci/run repeats: without plug-ins, and on another Python.
settings.register_profile("quick", settings.get_profile("every run"), max_examples=10)
# Chosen by `--hypothesis-profile nightly`; tests/simulation/budget.py says what it means there.
# Failing examples are kept, and tried first the next time.
settings.register_profile(
    "nightly",
    settings.get_profile("every run"),
    derandomize=False,
    database=DirectoryBasedExampleDatabase(".hypothesis/examples"),
    print_blob=True,
    max_examples=2_000,
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--without-plugins", action="store_true", help="run as where no plug-in is installed")


def pytest_configure(config: pytest.Config) -> None:
    """Disable garbage collection while tests are imported, and hide plug-ins if requested."""
    gc.disable()
    if config.getoption("--without-plugins", default=False):
        plugins.entry_points = EntryPoints().select  # pyright: ignore[reportPrivateImportUsage]  # replaced, not used


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have each process begin with its share of the files with slow tests, and end with tests that others can take.

    This avoids waiting for one process at the end, and creates what the tests of a file share only once.
    """
    slow = dict.fromkeys(item.path for item in items if item.get_closest_marker("slow"))
    shares = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    share_of = {path: number % shares for number, path in enumerate(slow)}
    fast = iter([item for item in items if item.path not in share_of])
    ordered: list[pytest.Item] = []
    for share in range(shares):
        ordered += [item for item in items if share_of.get(item.path) == share]
        ordered += islice(fast, max(0, len(items) * (share + 1) // shares - len(ordered)))
    items[:] = [*ordered, *fast]


def pytest_collection_finish() -> None:
    """Exempt imported objects from garbage collection, whose rounds would otherwise last as long as many tests."""
    gc.freeze()
    gc.enable()


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Have plug-ins installed, and no others: `install(shop="shop_tools:register")`."""

    def forget() -> None:
        plugins.installed.cache_clear()

    def install(**references: str) -> None:
        points = [EntryPoint(name, reference, plugins.GROUP) for name, reference in references.items()]
        monkeypatch.setattr(plugins, "entry_points", EntryPoints(points).select)
        forget()

    yield install
    monkeypatch.undo()
    forget()


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevent accidental use of real models and servers."""
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)


def temporal_program() -> str:
    program = Path(sys.executable).parent / "temporal"
    return str(program) if program.exists() else str(shutil.which("temporal"))


@asynccontextmanager
async def local_server(*settings: str, search_attributes: Sequence[str] = SEARCH_ATTRIBUTES) -> AsyncGenerator[Client]:
    """Run a server in memory, with the embedded one's settings and these."""
    # Each saves a tenth of the server's processor time: collecting garbage less often, and running on one core.
    os.environ.setdefault("GOGC", "400")
    os.environ.setdefault("GOMAXPROCS", "1")
    options = [part for setting in (*DYNAMIC_CONFIG, *settings) for part in ("--dynamic-config-value", setting)]
    environment = await WorkflowEnvironment.start_local(  # pyright: ignore[reportUnknownMemberType]  # SDK generics
        dev_server_existing_path=temporal_program(),
        dev_server_log_level="error",
        dev_server_extra_args=[*options, *search_attributes],
        dev_server_startup_timeout=timedelta(minutes=1),  # the default of five seconds is too short on a busy machine
    )
    async with environment:
        address = environment.client.service_client.config.target_host
        yield await Client.connect(address, data_converter=data_converter(), grpc_compression=grpc_compression(address))


@pytest.fixture(scope="session")
async def client() -> AsyncGenerator[Client]:
    """A client of a real server, shared by the tests of one process."""
    # Otherwise it deletes a workflow only half a minute after that has ended.
    async with local_server('history.transferProcessorUpdateAckInterval="1s"') as connected:
        yield connected
