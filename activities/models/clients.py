"""The clients of the SDKs, which are imported with the first call, and never retry: Temporal does."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from pydantic import JsonValue

from activities.models.failures import translating
from activities.models.prices import Overrides
from activities.models.prices import load as load_prices
from activities.models.protocol import ModelCall, ModelReply
from activities.models.streaming import Fold, Patience, Response, receive

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
    """One provider's models behind `Model`; the SDK's client is made at the first call, and kept."""

    def __init__(
        self,
        provider: str,
        make_client: Callable[[], ClientType],
        api_key: str,
        prices: Overrides | None,
        patience: Patience,
    ) -> None:
        """Set up the account.

        Args:
            provider: its name in reports and prices.
            make_client: makes the client of the SDK.
            api_key: is kept out of every error.
            prices: by model; they override the known ones. Without a price the cost of calls is unknown.
            patience: how long the provider may send nothing; without streaming it sends nothing until the end.
        """
        self.provider = provider
        self._make_client = make_client
        self._secrets = (api_key,)
        self._prices = prices
        self._patience = patience
        self._client: ClientType | None = None
        self._making = asyncio.Lock()

    async def complete(self, call: ModelCall) -> ModelReply:
        """Take one turn; cancelling it closes the connection, or cancels the provider's job."""
        with translating(self.provider, self._secrets):
            return self._read(call, await self._send(await self.warm_up(), call))

    @abstractmethod
    async def _send(self, client: ClientType, call: ModelCall) -> JsonValue:
        """Send a call, and return the body of the reply."""

    @abstractmethod
    def _read(self, call: ModelCall, body: JsonValue) -> ModelReply:
        """Normalise the body of a reply."""

    async def _receive(self, request: AbstractAsyncContextManager[Response], call: ModelCall, fold: Fold) -> JsonValue:
        return await receive(request, fold, patience=self._patience, whole_seconds=call.timeout_seconds)

    async def warm_up(self) -> ClientType:
        """Return the client; make it the first time. The SDK and the prices take seconds to load, hence threads."""
        async with self._making:
            if self._client is None:
                await asyncio.to_thread(load_prices)
                self._client = await asyncio.to_thread(self._make_client)
            return self._client

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
