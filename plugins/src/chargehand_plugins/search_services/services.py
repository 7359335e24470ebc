"""The settings of the services, and their builders."""

from contextlib import AsyncExitStack
from importlib.util import find_spec

from pydantic import Field, SecretStr

from activities.backends import SettingsError, WebAddress, secret
from activities.tools.search.protocol import SearchBackend
from worker.settings import PartSettings, Settings, settings_of


class SearchServiceSettings(PartSettings):
    brave_api_key: SecretStr | None = Field(default=None, validation_alias="BRAVE_API_KEY")
    """API key of Brave Search."""
    searxng_url: WebAddress | None = None
    """The address of a SearXNG instance that answers in JSON; it may be an internal one."""


def open_brave(settings: Settings, closing: AsyncExitStack) -> SearchBackend:
    from chargehand_plugins.search_services.brave import BraveSearch

    service = BraveSearch(secret(settings_of(settings, SearchServiceSettings).brave_api_key))
    closing.push_async_callback(service.close)
    return service


def open_searxng(settings: Settings, closing: AsyncExitStack) -> SearchBackend:
    from chargehand_plugins.search_services.searxng import SearxngSearch

    service = SearxngSearch(settings_of(settings, SearchServiceSettings).searxng_url or "")
    closing.push_async_callback(service.close)
    return service


def open_ddgs(*_: object) -> SearchBackend:
    if find_spec("ddgs") is None:
        raise SettingsError(
            "The search service 'ddgs' is not installed; install it with `pip install 'chargehand[ddgs]'`."
        )
    from chargehand_plugins.search_services.ddgs import DdgsSearch

    return DdgsSearch()
