"""The search engines: their settings, and one row each."""

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from activities.backends import Backend, Row, SettingsError, WebAddress, secret

if TYPE_CHECKING:
    from activities.documents.library import DocumentLibrary
    from activities.tools.search.protocol import SearchBackend


class SearchSettings(BaseSettings):
    """The settings of web search."""

    model_config = SettingsConfigDict(use_attribute_docstrings=True)

    search: str | None = None
    """Which search engine to use; by default the first whose key or address is set, and never `ddgs`."""
    searxng_url: WebAddress | None = None
    """The address of a SearXNG instance that answers in JSON; it may be an internal one."""
    brave_api_key: SecretStr | None = Field(default=None, validation_alias="BRAVE_API_KEY")
    """Key of Brave Search."""
    tavily_api_key: SecretStr | None = Field(default=None, validation_alias="TAVILY_API_KEY")
    """Key of Tavily."""
    tavily_base_url: WebAddress | None = Field(default=None, validation_alias="TAVILY_BASE_URL")
    """Another address for Tavily."""


def _tavily(settings: SearchSettings, _: "DocumentLibrary", closing: AsyncExitStack) -> "SearchBackend":
    from activities.tools.search.tavily import TavilySearch

    engine = TavilySearch(
        secret(settings.tavily_api_key), base_url=settings.tavily_base_url or "https://api.tavily.com"
    )
    closing.push_async_callback(engine.close)
    return engine


def _brave(settings: SearchSettings, _: "DocumentLibrary", closing: AsyncExitStack) -> "SearchBackend":
    from activities.tools.search.brave import BraveSearch

    engine = BraveSearch(secret(settings.brave_api_key))
    closing.push_async_callback(engine.close)
    return engine


def _searxng(settings: SearchSettings, _: "DocumentLibrary", closing: AsyncExitStack) -> "SearchBackend":
    from activities.tools.search.searxng import SearxngSearch

    try:
        engine = SearxngSearch(settings.searxng_url or "")
    except ValueError as error:
        raise SettingsError(f"CHARGEHAND_SEARXNG_URL: {error}.") from error
    closing.push_async_callback(engine.close)
    return engine


def _ddgs(*_: object) -> "SearchBackend":
    from activities.tools.search.ddgs import DdgsSearch

    return DdgsSearch()


def _local(_: SearchSettings, library: "DocumentLibrary", __: AsyncExitStack) -> "SearchBackend":
    from activities.tools.search.local import LocalSearch

    return LocalSearch(library)


SEARCH: Final = Backend(
    "search",
    "CHARGEHAND_SEARCH",
    (
        Row("tavily", _tavily, chosen_by="TAVILY_API_KEY", needs="TAVILY_API_KEY"),
        Row("brave", _brave, chosen_by="BRAVE_API_KEY", needs="BRAVE_API_KEY"),
        Row("searxng", _searxng, chosen_by="CHARGEHAND_SEARXNG_URL", needs="CHARGEHAND_SEARXNG_URL"),
        Row("ddgs", _ddgs, package=("ddgs", "pip install 'chargehand[ddgs]'")),
        Row("local", _local),
    ),
    default="the user's documents are searched instead of the web",
)
