"""The SDKs' clients: imported and made at the first call, off the event loop, and kept until the worker ends."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from activities.models import prices

if TYPE_CHECKING:
    import anthropic
    import httpx2
    import openai

CONNECT_SECONDS = 10.0
"""A provider that does not pick up by then is not there."""


class Closable(Protocol):
    """A client that holds connections."""

    async def close(self) -> None: ...


ClientType = TypeVar("ClientType", bound=Closable)


class LazyClient(Generic[ClientType]):
    """A client that is made when it is first wanted."""

    def __init__(self, make: Callable[[], ClientType]) -> None:
        self._make = make
        self._client: ClientType | None = None
        self._making = asyncio.Lock()

    async def get(self) -> ClientType:
        """Give the client; the first time, make it. The SDK and the prices take seconds to load, hence threads."""
        async with self._making:
            if self._client is None:
                await asyncio.to_thread(prices.load)
                self._client = await asyncio.to_thread(self._make)
            return self._client

    async def aclose(self) -> None:
        """Close the client's connections; it is made anew if it is wanted again."""
        async with self._making:
            client, self._client = self._client, None
        if client is not None:
            await client.close()


def make_anthropic(api_key: str, base_url: str, http_client: "httpx2.AsyncClient | None") -> "anthropic.AsyncAnthropic":
    """Make Anthropic's client; it never retries, for Temporal does."""
    _load_httpx()
    import anthropic  # two seconds that a worker without this key does not spend

    return anthropic.AsyncAnthropic(api_key=api_key, base_url=base_url, max_retries=0, http_client=http_client)


def make_openai(api_key: str, base_url: str, http_client: "httpx2.AsyncClient | None") -> "openai.AsyncOpenAI":
    """Make OpenAI's client; it never retries, for Temporal does."""
    _load_httpx()
    import openai  # as above

    return openai.AsyncOpenAI(api_key=api_key, base_url=base_url, max_retries=0, http_client=http_client)


def _load_httpx() -> None:
    """Load the other HTTP library to its end: the SDKs look for it at each reply, and must not meet it half loaded.

    The search's SDK loads it in a thread of its own, at a worker's first search.
    """
    with suppress(ImportError):
        import_module("httpx")


def make_timeout(seconds: float) -> "httpx2.Timeout":
    """Say how long the network may be silent."""
    import httpx2  # the SDKs bring it in

    return httpx2.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))
