"""The clients of the SDKs, which are imported with the first call, and never retry: Temporal does."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from activities.models import prices
from activities.models.protocol import ModelCall, ModelReply

if TYPE_CHECKING:
    import anthropic
    import httpx2
    import openai

CONNECT_SECONDS = 10.0
"""A provider that does not accept a connection within this time is unreachable."""


class Closable(Protocol):
    """A client that holds connections."""

    async def close(self) -> None: ...


ClientType = TypeVar("ClientType", bound=Closable)


class ProviderModel(ABC, Generic[ClientType]):
    """The base of adapters over an SDK: its client is made at the first call, off the event loop, and kept."""

    def __init__(self, make_client: Callable[[], ClientType]) -> None:
        self._make_client = make_client
        self._client: ClientType | None = None
        self._making = asyncio.Lock()

    async def warm_up(self) -> ClientType:
        """Return the client; make it the first time. The SDK and the prices take seconds to load, hence threads."""
        async with self._making:
            if self._client is None:
                await asyncio.to_thread(prices.load)
                self._client = await asyncio.to_thread(self._make_client)
            return self._client

    @abstractmethod
    async def complete(self, call: ModelCall) -> ModelReply:
        """Take one turn; cancelling it closes the connection."""

    async def aclose(self) -> None:
        """Close the client's connections; a later call makes a new client."""
        async with self._making:
            client, self._client = self._client, None
        if client is not None:
            await client.close()


def make_anthropic(api_key: str, base_url: str, http_client: "httpx2.AsyncClient | None") -> "anthropic.AsyncAnthropic":
    """Make a client of Anthropic's."""
    _load_httpx()
    import anthropic  # takes two seconds, which only a worker with this key spends

    return anthropic.AsyncAnthropic(api_key=api_key, base_url=base_url, max_retries=0, http_client=http_client)


def make_openai(api_key: str, base_url: str, http_client: "httpx2.AsyncClient | None") -> "openai.AsyncOpenAI":
    """Make a client of OpenAI's, or of a server that is compatible with it."""
    _load_httpx()
    import openai  # as above

    return openai.AsyncOpenAI(api_key=api_key, base_url=base_url, max_retries=0, http_client=http_client)


def _load_httpx() -> None:
    """Load httpx completely, since the SDKs check for it at each reply and must not find it half loaded.

    Tavily's SDK loads it in another thread, at a worker's first search.
    """
    with suppress(ImportError):
        import_module("httpx")


def make_timeout(seconds: float) -> "httpx2.Timeout":
    """Make the timeout of one request."""
    import httpx2  # a dependency of the SDKs

    return httpx2.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))
