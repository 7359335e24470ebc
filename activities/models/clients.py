"""The clients of the SDKs, which are imported with the first call, and never retry: Temporal does."""

import asyncio
from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar

from pydantic import JsonValue

from activities.models.failures import translating
from activities.models.prices import Overrides
from activities.models.prices import load as load_prices
from activities.models.protocol import ModelCall, ModelReply
from activities.models.streaming import STEADY, Fold, Patience, Response, receive

if TYPE_CHECKING:
    import httpx2

CONNECT_SECONDS = 10.0
"""A provider that does not accept a connection within this time is unreachable."""


class Closable(Protocol):
    """A client that holds connections."""

    async def close(self) -> None: ...


ClientType = TypeVar("ClientType", bound=Closable)


@dataclass(kw_only=True, eq=False, repr=False)
class ProviderModel(ABC, Generic[ClientType]):
    """One provider's models behind `Model`; the SDK's client is made at the first call, and kept."""

    provider: ClassVar[str]
    """Its name in reports and prices."""
    api_key: str = ""
    """Kept out of every error."""
    base_url: str = ""
    """Empty for the provider's own address."""
    prices: Overrides | None = None
    """By model; they override the known ones. Without a price the cost of calls is unknown."""
    patience: Patience = STEADY
    """How long the provider may send nothing."""
    http_client: "httpx2.AsyncClient | None" = None
    _client: ClientType | None = field(default=None, init=False)
    _making: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def complete(self, call: ModelCall) -> ModelReply:
        """Take one turn; cancelling it closes the connection, or cancels the provider's job."""
        with translating(self.provider, (self.api_key,)):
            return self._read(call, await self._send(await self.warm_up(), call))

    @abstractmethod
    def _make_client(self) -> ClientType:
        """Import the SDK and make its client."""

    @abstractmethod
    async def _send(self, client: ClientType, call: ModelCall) -> JsonValue:
        """Send a call, and return the body of the reply."""

    @abstractmethod
    def _read(self, call: ModelCall, body: JsonValue) -> ModelReply:
        """Normalise the body of a reply."""

    async def _receive(self, request: AbstractAsyncContextManager[Response], call: ModelCall, fold: Fold) -> JsonValue:
        return await receive(request, fold, patience=self.patience, whole_seconds=call.timeout_seconds)

    async def warm_up(self) -> ClientType:
        """Return the client; make it the first time. The SDK and the prices take seconds to load, hence threads."""
        async with self._making:
            if self._client is None:
                await asyncio.to_thread(load_prices)
                await asyncio.to_thread(_load_httpx)
                self._client = await asyncio.to_thread(self._make_client)
            return self._client

    async def aclose(self) -> None:
        """Close the client's connections; a later call makes a new client."""
        async with self._making:
            client, self._client = self._client, None
        if client is not None:
            await client.close()


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
