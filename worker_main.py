"""The worker: settings become adapters, adapters become activities, and the worker polls until it is told to stop.

The only place that reads the environment. `--explain` prints what the settings choose, and why, as JSON;
`--replay FILE` replays recorded histories on the workflows that are here, and `--verify FILE` looks quotations up in
their documents: both print a line of JSON for each.
"""

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Self

from pydantic import Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict
from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.converter import DataConverter
from temporalio.envconfig import ClientConfig
from temporalio.runtime import PrometheusConfig, Runtime, TelemetryConfig
from temporalio.worker import Worker, WorkerDeploymentConfig

from activities.code.protocol import CodeRunner
from activities.contracts import ModelCard, PriceStep
from activities.conversations import Conversations
from activities.crews import CrewError, load_crews
from activities.documents.artefacts import Artefacts, ArtefactStore
from activities.documents.bucket_store import open_artefacts
from activities.documents.downloads import Downloads
from activities.documents.library import DocumentLibrary
from activities.documents.sweeping import sweep
from activities.journal import BEAT_SECONDS
from activities.models.protocol import Model
from activities.models.registry import Models
from activities.models.streaming import SLOW_TO_BEGIN, STEADY, Patience
from activities.resets import TwinActivities
from activities.search.protocol import SearchBackend
from activities.sessions import SessionActivities
from activities.tool_calls import ToolActivities
from activities.tools import Tool, tool_capabilities
from activities.turns import TurnActivities
from activities.watchdog import watch_event_loop
from chargehand.bucket import BucketError
from chargehand.contracts import Limits, Tier
from chargehand.converter import data_converter, describe_problems
from chargehand.protection.encryption import Encryption
from chargehand.protection.errors import ProtectionSettingsError
from chargehand.protection.settings import Protection, encryption_from, storage_from
from chargehand.wire import TASK_QUEUE
from workflows.registered import WORKFLOWS, RefuseBadInput, workflow_runner
from workflows.replaying import HistoriesError
from workflows.replaying import replay as replayed

if TYPE_CHECKING:
    from activities.documents.download import Downloader

_HERE: Final = Path(__file__).resolve().parent
_GRACE: Final = timedelta(seconds=30)
"""How long calls that are under way may take to finish when a worker is told to stop."""
_BEAT: Final = timedelta(seconds=BEAT_SECONDS)
_MOST_IN_HISTORIES: Final = {"max_turns": 200, "max_rounds": 20}
"""What keeps the largest histories within a quarter of Temporal's 50 MiB: docs/how-to/changing-a-workflow.md, Sizes."""
_ANY_BUILD: Final = "chargehand"
"""Named, since the default is a digest of every loaded module, which takes a second."""
_logger = logging.getLogger("chargehand.worker")

Provider = Literal["anthropic", "openai", "openai_compatible", "extractive"]
Sandbox = Literal["e2b", "bubblewrap", "monty"]
SearchEngine = Literal["tavily", "searxng", "ddgs", "local"]


class Settings(BaseSettings):
    """Everything that an operator can set, from the environment: `CHARGEHAND_…` and the vendors' own names for keys."""

    model_config = SettingsConfigDict(env_prefix="CHARGEHAND_", populate_by_name=True, extra="ignore")

    state_dir: Path = _HERE / ".chargehand"
    """Where documents, indexes and artefacts are kept on this host."""
    artefacts: Path | str | None = None
    """Where uploaded documents are, if not below the state directory: a folder that clients and workers share, or
    `s3://BUCKET/PREFIX`."""
    index_days: int = Field(default=30, ge=1, le=3_650)
    """How long the index of documents that nobody asks for is kept, and what was fetched from a bucket for it."""
    task_queue: str = TASK_QUEUE
    crews: Path | None = None
    """A folder of crew files; they add to, and replace by name, the crews that come with Chargehand."""
    document_roots: tuple[Path, ...] = ()
    """Folders of this host that requests may name as `file:` documents, as a JSON list."""
    page_hosts: frozenset[str] = frozenset()
    """Internal hosts, `name:port` or `name` for ports 80 and 443, that agents may read pages from, as a JSON list."""
    search: SearchEngine | None = None
    """Which search engine to use; by default as the keys and addresses in the environment say, and never `ddgs`."""
    searxng_url: str | None = None
    """The address of a SearXNG instance that answers in JSON; it may be an internal one."""
    provider: Provider | None = None
    """Which models to use; by default as the keys in the environment say."""
    models: dict[Tier, str] = {}
    """Model names by tier, as a JSON object; tiers that are not named keep the provider's default."""
    prices: dict[str, tuple[Decimal, Decimal]] = {}
    """Dollars per million input and output tokens by model name, as a JSON object; 0 for local models."""
    ceilings: Limits = Limits(
        max_turns=200,
        budget_usd=Decimal(50),
        max_parallel=20,
        max_rounds=20,
        deadline=timedelta(hours=6),
        subtask_deadline=timedelta(hours=1),
    )
    """The most that a request may ask for, as a JSON object."""
    max_activities: int = Field(default=100, ge=1, le=1_000)
    """Model turns and tool calls at the same time in this worker."""
    requests_per_second: float | None = Field(default=None, gt=0, le=10_000)
    """Model turns that all workers together begin in a second, below the provider's rate limit; None for no limit."""
    silence_seconds: float | None = Field(default=None, ge=1, le=3_600)
    """After this long without a word a model call is given up; by default a minute, for local models once it began."""
    encryption_keys: SecretStr | None = None
    """What payloads and artefacts are encrypted with: a JSON object of 32 bytes in base64 by key id, or its file."""
    encryption_key_id: str | None = None
    """The key of them that new payloads are encrypted with; encryption is on if this and the keys are set."""
    encryption_accept_plain: bool = False
    """Whether payloads that are not encrypted are read too, while sessions from before encryption still run."""
    storage: str | None = None
    """Where large payloads go instead of into the history: a folder that clients and workers share, or s3://BUCKET."""
    storage_threshold: int | None = Field(default=None, ge=0)
    """How many bytes make a payload large."""
    deployment: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_-]{1,100}$")
    """The Worker Deployment that this worker is part of; together with `build_id` it turns Worker Versioning on."""
    build_id: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_.+-]{1,200}$")
    """Names this build of the workers; sessions stay with workers of the build that they began on."""
    metrics_address: str | None = Field(default=None, pattern=r"^\S+:\d{1,5}$")
    """IP:PORT, such as 127.0.0.1:9464, below which Prometheus reads this worker's `/metrics`; none by default."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    openai_background: bool = False
    """Whether OpenAI keeps replies for a while, so that one whose worker was lost is fetched and not paid again."""
    anthropic_api_key: SecretStr | None = Field(default=None, validation_alias="ANTHROPIC_API_KEY")
    anthropic_base_url: str | None = Field(default=None, validation_alias="ANTHROPIC_BASE_URL")
    openai_api_key: SecretStr | None = Field(default=None, validation_alias="OPENAI_API_KEY")
    openai_base_url: str | None = Field(default=None, validation_alias="OPENAI_BASE_URL")
    tavily_api_key: SecretStr | None = Field(default=None, validation_alias="TAVILY_API_KEY")
    tavily_base_url: str | None = Field(default=None, validation_alias="TAVILY_BASE_URL")
    code: Sandbox | None = None
    """Where agents' programs run; by default at E2B if there is a key for it, else in Monty."""
    code_internet: bool = False
    """Whether programs at E2B may reach the internet; elsewhere they never may."""
    code_packages: Path | None = None
    """A folder of packages (made by `pip install --target`) that programs in bubblewrap may import."""
    e2b_api_key: SecretStr | None = Field(default=None, validation_alias="E2B_API_KEY")
    e2b_domain: str | None = Field(default=None, validation_alias="E2B_DOMAIN")

    @model_validator(mode="after")
    def _builds_have_both_names(self) -> Self:
        if bool(self.deployment) != bool(self.build_id):
            missing = "CHARGEHAND_BUILD_ID" if self.deployment else "CHARGEHAND_DEPLOYMENT"
            raise ValueError(f"{missing} is not set; Worker Versioning needs the names of a deployment and of a build")
        return self

    @model_validator(mode="after")
    def _histories_stay_small(self) -> Self:
        if not self.storage or self.storage == "off":
            for name, most in _MOST_IN_HISTORIES.items():
                if getattr(self.ceilings, name) > most:
                    raise ValueError(
                        f"CHARGEHAND_CEILINGS: {name} above {most} lets a session outgrow what Temporal keeps of a "
                        f"workflow; lower it, or set CHARGEHAND_STORAGE, so that large payloads are kept elsewhere"
                    )
        return self


_DEFAULT_MODELS: Final[Mapping[str, Mapping[Tier, str]]] = {
    "anthropic": {
        Tier.SMALL: "claude-haiku-5-5",
        Tier.MEDIUM: "claude-sonnet-5-5",
        Tier.LARGE: "claude-opus-5-5",
    },
    "openai": {Tier.SMALL: "gpt-6-luna", Tier.MEDIUM: "gpt-6.1-sol", Tier.LARGE: "gpt-6-astra"},
    "openai_compatible": {},
    "extractive": dict.fromkeys(Tier, "extractive"),
}


class SettingsError(Exception):
    """The settings cannot work together; the message names the setting and the remedy."""


@dataclass(frozen=True)
class Choice:
    """What stands behind a neighbour, and why."""

    neighbour: str
    adapter: str
    why: str
    problem: str = ""
    """Why it does not work on this host; empty if it does or was not tried."""


def choose(settings: Settings) -> tuple[Choice, ...]:
    """Decide what stands behind each neighbour: keys in the environment choose the production side by themselves."""
    return (
        _choose_model(settings),
        _choose_search(settings),
        _choose_code(settings),
        _choose_pages(settings),
        Choice("documents", "embedded parsers", "always"),
        Choice("data", "duckdb", "always"),
        Choice("encryption", "AES-256-GCM", f"CHARGEHAND_ENCRYPTION_KEY_ID is {settings.encryption_key_id}")
        if settings.encryption_key_id
        else Choice("encryption", "none", "no CHARGEHAND_ENCRYPTION_KEY_ID: Temporal keeps payloads as they are"),
        Choice("large payloads", settings.storage, "CHARGEHAND_STORAGE says so")
        if settings.storage and settings.storage != "off"
        else Choice("large payloads", "none", "no CHARGEHAND_STORAGE: payloads above 2 MB are refused"),
    )


def _choose_pages(settings: Settings) -> Choice:
    if _choose_search(settings).adapter == "local":
        return Choice("pages", "off", "the search reads the user's documents, and no agent may carry them to the web")
    return Choice("pages", "httpx2", "there is a web search")


def _absent(chosen: Mapping[str, str]) -> frozenset[str]:
    """Name the tools that no agent gets."""
    return frozenset({"read_page"} if chosen["pages"] == "off" else ())


def _choose_code(settings: Settings) -> Choice:
    if settings.code:
        return Choice("code", settings.code, "CHARGEHAND_CODE says so")
    if settings.e2b_api_key:
        return Choice("code", "e2b", "E2B_API_KEY is set")
    return Choice("code", "monty", "no E2B_API_KEY: a subset of Python runs in an embedded sandbox")


def _choose_model(settings: Settings) -> Choice:
    if settings.provider:
        return Choice("model", settings.provider, "CHARGEHAND_PROVIDER says so")
    if settings.anthropic_api_key:
        return Choice("model", "anthropic", "ANTHROPIC_API_KEY is set")
    if settings.openai_base_url:
        return Choice("model", "openai_compatible", "OPENAI_BASE_URL is set")
    if settings.openai_api_key:
        return Choice("model", "openai", "OPENAI_API_KEY is set")
    return Choice("model", "extractive", "no ANTHROPIC_API_KEY and no OPENAI_API_KEY: no language model is used")


def _choose_search(settings: Settings) -> Choice:
    if settings.search:
        return Choice("search", settings.search, "CHARGEHAND_SEARCH says so")
    if settings.tavily_api_key:
        return Choice("search", "tavily", "TAVILY_API_KEY is set")
    if settings.searxng_url:
        return Choice("search", "searxng", "CHARGEHAND_SEARXNG_URL is set")
    why = "no TAVILY_API_KEY and no CHARGEHAND_SEARXNG_URL: the user's documents are searched instead of the web"
    return Choice("search", "local", why)


async def compose(settings: Settings, closing: AsyncExitStack) -> Sequence[Callable[..., object]]:
    """Build the adapters that the settings choose, and the activities on top of them."""
    chosen = {choice.neighbour: choice.adapter for choice in choose(settings)}
    sealing = encryption(settings)
    store = _artefacts(settings, sealing)
    library = _library(settings, store)
    conversations = Conversations(_conversations(settings, store, sealing))
    kept = [settings.state_dir / name for name in ("indexes", "fetched-artefacts", "downloads", "conversations")]
    sweeping = asyncio.create_task(asyncio.to_thread(sweep, kept, timedelta(days=settings.index_days)))
    closing.callback(sweeping.cancel)
    runner = await _code_runner(settings, chosen["code"], closing)
    tools = _tools(settings, chosen, library, store, runner=runner, closing=closing)
    crews = load_crews(
        [_HERE / "crews", *([settings.crews] if settings.crews else [])],
        tool_capabilities(tools),
        absent=_absent(chosen),
    )
    models = Models(adapter=_adapter(settings, chosen["model"], closing), cards=_cards(settings, chosen["model"]))
    return [
        SessionActivities(crews, models, tools, settings.ceilings, turns_queue=turns_queue(settings)).open_session,
        TurnActivities(crews, models, tools, library, conversations).take_turn,
        ToolActivities(crews, tools, library).use_tool,
        TwinActivities().await_twin,
    ]


def _artefacts(settings: Settings, sealing: Encryption | None) -> Artefacts:
    place = settings.artefacts or settings.state_dir / "artefacts"
    try:
        return open_artefacts(place, settings.state_dir / "fetched-artefacts", sealing)
    except BucketError as error:
        raise SettingsError(f"CHARGEHAND_ARTEFACTS: {error}") from error


def _conversations(settings: Settings, store: Artefacts, sealing: Encryption | None) -> Artefacts:
    """Keep conversations where other workers find them, if there is such a place."""
    return store if settings.artefacts else ArtefactStore(settings.state_dir / "conversations", sealing)


def _library(settings: Settings, store: Artefacts) -> DocumentLibrary:
    downloads = _downloads(settings, store)
    return DocumentLibrary(store, settings.state_dir / "indexes", settings.document_roots, downloads)


def _downloads(settings: Settings, store: Artefacts) -> Downloads:
    def downloader() -> "Downloader":
        from activities.documents.download import DownloadLimits, make_downloader

        return make_downloader(settings.page_hosts, DownloadLimits())

    return Downloads(store, settings.state_dir / "downloads", downloader)


def _tools(
    settings: Settings,
    chosen: Mapping[str, str],
    library: DocumentLibrary,
    store: Artefacts,
    *,
    runner: CodeRunner,
    closing: AsyncExitStack,
) -> dict[str, Tool]:
    from activities.code.tool import RunCode
    from activities.data.chart import DrawChart
    from activities.data.query import QueryData
    from activities.documents.tools import ReadDocument, SearchDocuments
    from activities.pages.tool import ReadPage
    from activities.search.tool import Search

    read_page = ReadPage(settings.page_hosts)
    closing.push_async_callback(read_page.close)
    tools: list[Tool] = [
        Search(_search_backend(settings, chosen["search"], library, closing)),
        read_page,
        SearchDocuments(library),
        ReadDocument(library),
        QueryData(library),
        DrawChart(library, store),
        RunCode(runner, store, library.sources),
    ]
    return {tool.spec.name: tool for tool in tools}


def _search_backend(
    settings: Settings, chosen: str, library: DocumentLibrary, closing: AsyncExitStack
) -> SearchBackend:
    match chosen:
        case "tavily":
            from activities.search.tavily import TavilySearch

            key = _required(settings.tavily_api_key, "TAVILY_API_KEY", "CHARGEHAND_SEARCH")
            backend = TavilySearch(key, base_url=settings.tavily_base_url or "https://api.tavily.com")
        case "searxng":
            from activities.search.searxng import SearxngSearch

            if not settings.searxng_url:
                raise SettingsError("CHARGEHAND_SEARXNG_URL is not set, but CHARGEHAND_SEARCH asks for it.")
            try:
                backend = SearxngSearch(settings.searxng_url)
            except ValueError as error:
                raise SettingsError(f"CHARGEHAND_SEARXNG_URL: {error}.") from error
        case "ddgs":
            from activities.search.ddgs import DdgsSearch

            if find_spec("ddgs") is None:
                raise SettingsError(
                    "CHARGEHAND_SEARCH asks for ddgs, which is not installed; install it with `uv sync --group ddgs`."
                )
            return DdgsSearch()
        case _:
            from activities.search.local import LocalSearch

            return LocalSearch(library)
    closing.push_async_callback(backend.close)
    return backend


async def _code_runner(settings: Settings, chosen: str, closing: AsyncExitStack) -> CodeRunner:
    match chosen:
        case "e2b":
            from activities.code.e2b import E2BRunner

            key = _required(settings.e2b_api_key, "E2B_API_KEY", "CHARGEHAND_CODE")
            return E2BRunner(key, domain=settings.e2b_domain, internet=settings.code_internet)
        case "bubblewrap":
            from activities.code.bubblewrap import BubblewrapRunner, SandboxUnusableError
            from activities.code.bubblewrap_check import require_tight

            runner = BubblewrapRunner(packages=settings.code_packages)
            try:
                await require_tight(runner)
            except SandboxUnusableError as error:
                raise SettingsError(f"CHARGEHAND_CODE=bubblewrap cannot be used here: {error}.") from error
            return runner
        case _:
            from activities.code.monty import MontyRunner

            embedded = MontyRunner()
            closing.push_async_callback(embedded.close)
            return embedded


def _cards(settings: Settings, provider: str) -> dict[Tier, ModelCard]:
    names = {**_DEFAULT_MODELS[provider], **settings.models}
    missing = [tier.value for tier in Tier if tier not in names]
    if missing:
        raise SettingsError(
            f"CHARGEHAND_MODELS: name a model for the tiers {', '.join(missing)}, "
            'for example CHARGEHAND_MODELS=\'{"small":"m","medium":"m","large":"m"}\'.'
        )
    return {tier: _card(settings, provider, name) for tier, name in names.items()}


def _card(settings: Settings, provider: str, name: str) -> ModelCard:
    if provider == "extractive":
        free = PriceStep(input_usd_per_million=Decimal(0), output_usd_per_million=Decimal(0))
        return ModelCard(provider=provider, name=name, prices=(free,))
    from activities.models.prices import price_card

    card = price_card(provider, name, settings.prices)
    if card is None:
        raise SettingsError(
            f"CHARGEHAND_PRICES: nobody knows what the model '{name}' costs, so no budget could hold. Set its dollars "
            f"per million input and output tokens, for example CHARGEHAND_PRICES='{{\"{name}\": [0, 0]}}' for a model "
            "of your own."
        )
    return card


def _adapter(settings: Settings, provider: str, closing: AsyncExitStack) -> Model:
    prices = settings.prices
    patience = _patience(settings, provider)
    match provider:
        case "anthropic":
            from activities.models import anthropic_messages

            key = _required(settings.anthropic_api_key, "ANTHROPIC_API_KEY")
            url = settings.anthropic_base_url or anthropic_messages.BASE_URL
            adapter = anthropic_messages.AnthropicModel(api_key=key, base_url=url, prices=prices, patience=patience)
        case "openai":
            from activities.models import openai_responses

            key = _required(settings.openai_api_key, "OPENAI_API_KEY")
            url = settings.openai_base_url or openai_responses.BASE_URL
            adapter = openai_responses.OpenAIResponsesModel(
                api_key=key, base_url=url, prices=prices, patience=patience, background=settings.openai_background
            )
        case "openai_compatible":
            from activities.models.openai_chat import OpenAIChatModel

            if settings.openai_base_url is None:
                raise SettingsError("OPENAI_BASE_URL is not set, but CHARGEHAND_PROVIDER asks for such a server.")
            key = settings.openai_api_key.get_secret_value() if settings.openai_api_key else ""
            adapter = OpenAIChatModel(api_key=key, base_url=settings.openai_base_url, prices=prices, patience=patience)
        case _:
            from activities.models.extractive.model import ExtractiveModel

            return ExtractiveModel()
    closing.push_async_callback(adapter.aclose)
    # The SDK is loaded while the worker connects, rather than at the first call.
    loading = asyncio.create_task(adapter.warm_up())
    closing.callback(loading.cancel)
    return adapter


def _patience(settings: Settings, provider: str) -> Patience:
    usual = SLOW_TO_BEGIN if provider == "openai_compatible" else STEADY
    if settings.silence_seconds is None:
        return usual
    return Patience(max(usual.first_seconds, settings.silence_seconds), settings.silence_seconds)


def _required(key: SecretStr | None, name: str, asking: str = "CHARGEHAND_PROVIDER") -> str:
    if key is None or not key.get_secret_value().strip():
        raise SettingsError(f"{name} is not set, but {asking} asks for it.")
    return key.get_secret_value()


def turns_queue(settings: Settings) -> str | None:
    """Name the task queue of model turns: one of their own if their rate is limited, since a queue has one limit."""
    return f"{settings.task_queue}-models" if settings.requests_per_second else None


def build_turns_worker(
    client: Client, settings: Settings, activities: Sequence[Callable[..., object]]
) -> Worker | None:
    """Build the worker of model turns, if their rate is limited; the server holds the limit, whoever asks it for work.

    Turns of sessions that were opened without the limit stay with the other worker.
    """
    task_queue = turns_queue(settings)
    if task_queue is None:
        return None
    return Worker(
        client,
        task_queue=task_queue,
        activities=[one for one in activities if one.__name__ == TurnActivities.take_turn.__name__],
        build_id=None if settings.build_id else _ANY_BUILD,
        deployment_config=_deployment(settings),
        max_concurrent_activities=settings.max_activities,
        max_task_queue_activities_per_second=settings.requests_per_second,
        graceful_shutdown_timeout=_GRACE,
        max_heartbeat_throttle_interval=_BEAT,
        default_heartbeat_throttle_interval=_BEAT,
    )


def build_worker(
    client: Client, settings: Settings, activities: Sequence[Callable[..., object]], *, cached_workflows: int = 1_000
) -> Worker:
    """Build the worker of a connected client."""
    return Worker(
        client,
        task_queue=settings.task_queue,
        workflows=WORKFLOWS,
        activities=activities,
        workflow_runner=workflow_runner(),
        interceptors=[RefuseBadInput()],
        build_id=None if settings.build_id else _ANY_BUILD,
        deployment_config=_deployment(settings),
        max_cached_workflows=cached_workflows,
        max_concurrent_activities=settings.max_activities,
        max_concurrent_activity_task_polls=20,
        graceful_shutdown_timeout=_GRACE,
        # A killed worker's workflows go on elsewhere after this long, instead of after ten seconds.
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
        max_heartbeat_throttle_interval=_BEAT,
        default_heartbeat_throttle_interval=_BEAT,
    )


def _deployment(settings: Settings) -> WorkerDeploymentConfig | None:
    """Keep sessions, with everything below them, on the build that they began on, if builds have names here."""
    if not settings.deployment or not settings.build_id:
        return None
    return WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(deployment_name=settings.deployment, build_id=settings.build_id),
        use_worker_versioning=True,
        default_versioning_behavior=VersioningBehavior.PINNED,
    )


async def run(settings: Settings) -> None:
    """Poll until SIGTERM or SIGINT; calls that are under way get half a minute to finish."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    runtime = _runtime(settings)
    async with AsyncExitStack() as closing:
        watching = asyncio.create_task(watch_event_loop(runtime.metric_meter))
        closing.callback(watching.cancel)
        activities = await compose(settings, closing)
        client = await _connected(settings, stop, runtime)
        if client is None:
            return
        workers = [build_worker(client, settings, activities), build_turns_worker(client, settings, activities)]
        async with AsyncExitStack() as polling:
            for worker in filter(None, workers):
                await polling.enter_async_context(worker)
            _logger.info("worker polls", extra={"task_queue": settings.task_queue})
            await stop.wait()


def protection(settings: Settings, namespace: str) -> Protection:
    """Build what protects payloads, as far as the settings ask for it."""
    return Protection(encryption(settings), storage_from(settings.storage, namespace, settings.storage_threshold))


def encryption(settings: Settings) -> Encryption | None:
    """Build what payloads, documents and conversations are encrypted with, if the settings ask for it."""
    keys = settings.encryption_keys.get_secret_value() if settings.encryption_keys else None
    return encryption_from(keys, settings.encryption_key_id, accept_plain=settings.encryption_accept_plain)


def _runtime(settings: Settings) -> Runtime:
    if not settings.metrics_address:
        return Runtime.default()
    metrics = PrometheusConfig(bind_address=settings.metrics_address, durations_as_seconds=True)
    try:
        return Runtime(telemetry=TelemetryConfig(metrics=metrics))
    except (ValueError, RuntimeError) as error:
        raise SettingsError(
            f"CHARGEHAND_METRICS_ADDRESS: {settings.metrics_address} cannot be used: {error}"
        ) from error


def _converter(settings: Settings, namespace: str) -> DataConverter:
    protected = protection(settings, namespace)
    return data_converter(protected.encryption, protected.storage)


async def _connected(settings: Settings, stop: asyncio.Event, runtime: Runtime) -> Client | None:
    """Connect, however long the server takes to come up; None if the worker is told to stop meanwhile."""
    options = ClientConfig.load_client_connect_config()
    converter = _converter(settings, options.get("namespace") or "default")
    delay = 0.05
    while not stop.is_set():
        try:
            return await Client.connect(**options, data_converter=converter, runtime=runtime)
        except RuntimeError as error:
            _logger.warning("no Temporal server yet", extra={"problem": str(error)})
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), delay)
        delay = min(delay * 2, 5.0)
    return None


async def explain(settings: Settings) -> str:
    """Say what the settings choose, and why, as JSON."""
    active = [vars(await _tried(settings, choice)) for choice in choose(settings)]
    return json.dumps({"active": active, "task_queue": settings.task_queue})


async def _tried(settings: Settings, choice: Choice) -> Choice:
    """Try out the sandbox that a worker would refuse to start with."""
    if choice.adapter != "bubblewrap":
        return choice
    try:
        async with AsyncExitStack() as closing:
            await _code_runner(settings, choice.adapter, closing)
    except SettingsError as error:
        return replace(choice, problem=str(error))
    return replace(choice, why=f"{choice.why}; its self-test passes on this host")


async def replay(settings: Settings, file: Path) -> int:
    """Replay the histories of a file, whose payloads are protected as the settings say; 1 if one differs."""
    namespace = ClientConfig.load_client_connect_config().get("namespace") or "default"
    differs = 0
    async for each in replayed(file, _converter(settings, namespace)):
        sys.stdout.write(each.to_json() + "\n")
        differs = 1 if each.problem else differs
    return differs


async def verify(settings: Settings, file: Path) -> int:
    """Look the quotations of a file up in its documents; 1 if one does not stand there."""
    from activities.documents.verify import Quotations, verify_sources

    asked = Quotations.model_validate_json(await asyncio.to_thread(file.read_bytes))
    store = _artefacts(settings, encryption(settings))
    downloads = _downloads(settings, store)
    checks = await verify_sources(asked.documents, asked.sources, store, settings.document_roots, downloads)
    sys.stdout.writelines(each.model_dump_json() + "\n" for each in checks)
    return 0 if all(each.stands for each in checks) else 1


def main(arguments: Sequence[str]) -> int:
    """Run the worker, or explain what it would use, or replay histories, or look quotations up."""
    try:
        settings = Settings()
        if "--explain" in arguments:
            sys.stdout.write(asyncio.run(explain(settings)) + "\n")
            return 0
        for option, check in (("--replay", replay), ("--verify", verify)):
            if option in arguments:
                logging.basicConfig(level=logging.ERROR)
                Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=None)))  # it would log among the results
                return asyncio.run(check(settings, Path(arguments[arguments.index(option) + 1])))
        logging.basicConfig(level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        asyncio.run(run(settings))
    except ValidationError as error:
        sys.stderr.write(f"The worker's settings cannot be used: {'; '.join(describe_problems(error))}\n")
        return 2
    except HistoriesError as error:
        sys.stderr.write(f"Nothing can be replayed: {error}\n")
        return 2
    except (SettingsError, CrewError, ProtectionSettingsError) as error:
        sys.stderr.write(f"The worker cannot start: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # The SDK's own threads can abort a process that ends the ordinary way (temporalio/sdk-python#300).
    os._exit(code)
