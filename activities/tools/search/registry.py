"""The search services: their settings, and one row each."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from activities.backends import Backend, Row, WebAddress, secret, with_added
from activities.tools.search.protocol import SearchBackend
from chargehand.plugins import Extension, installed

if TYPE_CHECKING:
    from activities.documents.library import DocumentLibrary


class SearchSettings(BaseSettings):
    """The settings of web search."""

    model_config = SettingsConfigDict(use_attribute_docstrings=True)

    search: str | None = None
    """Which search service to use; by default the first whose key or address is set."""
    tavily_api_key: SecretStr | None = Field(default=None, validation_alias="TAVILY_API_KEY")
    """Key of Tavily."""
    tavily_base_url: WebAddress | None = Field(default=None, validation_alias="TAVILY_BASE_URL")
    """Another address for Tavily."""


def _tavily(settings: SearchSettings, _: "DocumentLibrary", closing: AsyncExitStack) -> SearchBackend:
    from activities.tools.search.tavily import TavilySearch

    engine = TavilySearch(
        secret(settings.tavily_api_key), base_url=settings.tavily_base_url or "https://api.tavily.com"
    )
    closing.push_async_callback(engine.close)
    return engine


def _local(_: SearchSettings, library: "DocumentLibrary", __: AsyncExitStack) -> SearchBackend:
    from activities.tools.search.local import LocalSearch

    return LocalSearch(library)


def _build_added(
    extension: Extension, settings: SearchSettings, _: "DocumentLibrary", closing: AsyncExitStack
) -> SearchBackend:
    return extension.build(SearchBackend, "search service", settings, closing)


_SEARCH: Final = Backend(
    "search",
    "CHARGEHAND_SEARCH",
    (Row("tavily", _tavily, needs="TAVILY_API_KEY"), Row("local", _local)),
    default="the user's documents are searched instead of the web",
)


def search_backend() -> Backend[Callable[[SearchSettings, "DocumentLibrary", AsyncExitStack], SearchBackend]]:
    """Return the search services, including those of plug-ins."""
    return with_added(_SEARCH, installed().search_services, lambda each: partial(_build_added, each))
