"""What stands behind each backend, and why: keys in the environment choose the production side by themselves."""

from collections.abc import Mapping
from dataclasses import dataclass

from activities.settings import Settings


@dataclass(frozen=True)
class Choice:
    """What stands behind a backend, and why."""

    backend: str
    adapter: str
    why: str
    problem: str = ""
    """Why it does not work on this host; empty if it does or was not tried."""


def choose(settings: Settings) -> tuple[Choice, ...]:
    """Decide what stands behind each backend: keys in the environment choose the production side by themselves."""
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


def absent_tools(chosen: Mapping[str, str]) -> frozenset[str]:
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
