"""From settings to adapters: one function for each backend that can be more than one thing."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from decimal import Decimal
from importlib.util import find_spec
from typing import Final

from pydantic import SecretStr

from activities.code.protocol import CodeRunner
from activities.contracts import ModelCard, PriceStep
from activities.documents.artifacts import Artifacts, ArtifactStore
from activities.documents.bucket_store import open_artifacts
from activities.documents.downloads import Downloads
from activities.documents.library import DocumentLibrary
from activities.models.protocol import Model
from activities.models.streaming import SLOW_TO_BEGIN, STEADY, Patience
from activities.search.protocol import SearchBackend
from activities.settings import Settings, SettingsError
from activities.tools import Tool
from chargehand.bucket import BucketError
from chargehand.contracts import Tier
from chargehand.payloads.encryption import Encryption
from chargehand.payloads.settings import encryption_from

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


def encryption(settings: Settings) -> Encryption | None:
    """Build what payloads, documents and conversations are encrypted with, if the settings ask for it."""
    keys = settings.encryption_keys.get_secret_value() if settings.encryption_keys else None
    return encryption_from(keys, settings.encryption_key_id, accept_plain=settings.encryption_accept_plain)


def artifact_store(settings: Settings, sealing: Encryption | None) -> Artifacts:
    place = settings.artifacts or settings.state_dir / "artifacts"
    try:
        return open_artifacts(place, settings.state_dir / "fetched-artifacts", sealing)
    except BucketError as error:
        raise SettingsError(f"CHARGEHAND_ARTIFACTS: {error}") from error


def conversation_store(settings: Settings, store: Artifacts, sealing: Encryption | None) -> Artifacts:
    """Keep conversations where other workers find them, if there is such a place."""
    return store if settings.artifacts else ArtifactStore(settings.state_dir / "conversations", sealing)


def document_library(settings: Settings, store: Artifacts) -> DocumentLibrary:
    downloads = document_downloads(settings, store)
    return DocumentLibrary(store, settings.state_dir / "indexes", settings.document_roots, downloads)


def document_downloads(settings: Settings, store: Artifacts) -> Downloads:
    return Downloads(store, settings.state_dir / "downloads", settings.page_hosts)


def tools_by_name(
    settings: Settings,
    chosen: Mapping[str, str],
    library: DocumentLibrary,
    store: Artifacts,
    *,
    runner: CodeRunner,
    closing: AsyncExitStack,
) -> dict[str, Tool]:
    from activities.code.tool import RunCode
    from activities.data.chart import DrawChart
    from activities.data.query import QueryData
    from activities.documents.tool import ReadDocument, SearchDocuments
    from activities.pages.tool import ReadPage
    from activities.search.tool import Search

    read_page = ReadPage(settings.page_hosts)
    closing.push_async_callback(read_page.close)
    tools: list[Tool] = [
        Search(search_backend(settings, chosen["search"], library, closing)),
        read_page,
        SearchDocuments(library),
        ReadDocument(library),
        QueryData(library),
        DrawChart(library, store),
        RunCode(runner, store, library.sources),
    ]
    return {tool.spec.name: tool for tool in tools}


def search_backend(settings: Settings, chosen: str, library: DocumentLibrary, closing: AsyncExitStack) -> SearchBackend:
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


async def code_runner(settings: Settings, chosen: str, closing: AsyncExitStack) -> CodeRunner:
    match chosen:
        case "e2b":
            from activities.code.e2b import E2BRunner

            key = _required(settings.e2b_api_key, "E2B_API_KEY", "CHARGEHAND_CODE")
            return E2BRunner(key, domain=settings.e2b_domain, internet=settings.code_internet)
        case "bubblewrap":
            from activities.code.bubblewrap.runner import BubblewrapRunner, SandboxUnusableError
            from activities.code.bubblewrap.self_test import require_tight

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


def model_cards(settings: Settings, provider: str) -> dict[Tier, ModelCard]:
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


def model_adapter(settings: Settings, provider: str, closing: AsyncExitStack) -> Model:
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
            adapter = OpenAIChatModel(
                api_key=key,
                base_url=settings.openai_base_url,
                prices=prices,
                patience=patience,
                most_tokens=settings.answer_tokens,
            )
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
