"""The SDKs' clients, which are imported while the worker starts and never retry, since Temporal does."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Protocol, TypeVar

from pydantic import JsonValue

from activities.http.response_limits import limit_client
from activities.models.abilities import abilities_of
from activities.models.failures import ReportedError, UnreadableReply, redacted, refuses_effort, translating
from activities.models.prices import Overrides, Tokens, usage_of
from activities.models.prices import load as load_prices
from activities.models.protocol import LONGEST_TEXT, Content, ModelCall, ModelReply
from activities.models.replies import is_small, model_name, returnable, within
from activities.models.streaming import STEADY, Fold, Patience, Response, receive

if TYPE_CHECKING:
    import httpx2

_logger = logging.getLogger("chargehand.models")

_LONGEST_REPLY_BYTES: Final = 32 << 20
"""Far above the output tokens of any turn, including the events of a stream."""
CONNECT_SECONDS: Final = 10.0
"""A provider that does not accept a connection within this time counts as unreachable."""
_WARM_UP_SECONDS: Final = 2.0
"""Maximum time that a worker's start waits for a provider."""
COUNT_SECONDS: Final = 10.0
"""Maximum time to wait for a provider to count a prompt or to confirm a model's name."""


_STREAMED: Final = {"X-Stainless-Raw-Response": "stream"}
"""As set by the SDKs' `with_streaming_response`: return a response before its body is read."""


class Client(Protocol):
    """The common interface of both SDKs' clients: a low-level request, and connections."""

    @property
    def base_url(self) -> Any: ...

    @property
    def models(self) -> Any: ...

    async def post(self, path: str, *, cast_to: Any, body: Any, options: Any) -> Any: ...

    async def close(self) -> None: ...


ClientType = TypeVar("ClientType", bound=Client)


@dataclass(kw_only=True, eq=False, repr=False)
class ProviderModel(ABC, Generic[ClientType]):
    """A provider's models as a `Model`; the SDK's client is created once."""

    provider: ClassVar[str]
    """The provider's name in reports and prices."""
    lists_models: ClassVar[bool] = True
    """Whether it can list its models under the names used in calls."""
    api_key: str = ""
    """Redacted from all errors."""
    base_url: str = ""
    """The provider's address; empty for its default."""
    price_list: str = ""
    """The provider whose known prices apply; if empty, `provider`."""
    prices: Overrides | None = None
    """Prices by model, overriding known ones. Without a price, the cost of calls is unknown."""
    reasoning_models: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """Whether a model accepts a reasoning effort, overriding `abilities_of`."""
    patience: Patience = STEADY
    http_client: "httpx2.AsyncClient | None" = None
    _client: ClientType | None = field(default=None, init=False)
    _network: "httpx2.AsyncClient | None" = field(default=None, init=False)
    _making: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _refused_effort: set[str] = field(default_factory=set[str], init=False)
    """Models that have refused a reasoning effort."""

    @property
    def _secrets(self) -> Sequence[str]:
        return (self.api_key,)

    async def complete(self, call: ModelCall) -> ModelReply:
        """Take one turn; cancellation closes the connection or cancels the provider's job."""
        with translating(self.provider, self._secrets):
            client = await self.warm_up()
            call = self._with_possible_settings(call)
            try:
                body = await self._send_with_effort(client, call)
            except UnreadableReply as error:
                return self._unusable(call, error.body, error)
            if is_small(body):
                return self._understand(call, body)
            return await asyncio.to_thread(self._understand, call, body)

    def _with_possible_settings(self, call: ModelCall) -> ModelCall:
        """Drop effort or temperature from a call if its model does not support it."""
        abilities = abilities_of(call.model)
        takes_effort = self.reasoning_models.get(call.model, abilities.takes_effort)
        if abilities.takes_temperature is False:
            call = call.model_copy(update={"temperature": None})
        return call if takes_effort and call.model not in self._refused_effort else _without_effort(call)

    async def _send_with_effort(self, client: ClientType, call: ModelCall) -> JsonValue:
        """Send a call; if the provider refuses its effort, which is free of charge, send it again without."""
        try:
            return await self._send(client, call)
        except Exception as error:
            if call.effort is None or not refuses_effort(error):
                raise
            _logger.warning("a model takes no reasoning effort", extra={"model": call.model})
            self._refused_effort.add(call.model)
        return await self._send(client, _without_effort(call))

    @abstractmethod
    def _make_client(self) -> ClientType:
        """Import the SDK and create its client."""

    def _limit(self, make_http_client: "Callable[[], httpx2.AsyncClient]") -> "httpx2.AsyncClient":
        """Return an HTTP client for the SDK that bounds replies and does not follow redirects."""
        self._network = limit_client(self.http_client or make_http_client(), _LONGEST_REPLY_BYTES)
        return self._network

    @abstractmethod
    async def _send(self, client: ClientType, call: ModelCall) -> JsonValue:
        """Send a call, and return the body of the reply."""

    @abstractmethod
    def _read(self, call: ModelCall, body: JsonValue) -> Content:
        """Normalise the body of a reply."""

    @abstractmethod
    def _tokens(self, usage: JsonValue) -> Tokens | None:
        """Read the `usage` of a reply."""

    def _price_share(self, call: ModelCall) -> Decimal:
        del call
        return Decimal(1)

    def _understand(self, call: ModelCall, body: JsonValue) -> ModelReply:
        try:
            content = self._read(call, body)
        except (UnreadableReply, ReportedError) as error:
            return self._unusable(call, body, error)
        except Exception as error:
            _logger.exception("a model's reply could not be read")
            return self._unusable(call, body, error)
        return self._reply(call, body, content)

    def _unusable(self, call: ModelCall, body: JsonValue, error: Exception) -> ModelReply:
        """Return a malformed reply with its reported usage; raise the error if it reports none."""
        is_described = isinstance(error, UnreadableReply | ReportedError)
        problem = redacted(str(error), self._secrets) if is_described else type(error).__name__
        reply = self._reply(call, body, Content(stop="malformed", problem=problem))
        if reply.usage is None or not (reply.usage.input_tokens or reply.usage.output_tokens):
            raise error
        return reply

    def _reply(self, call: ModelCall, body: JsonValue, content: Content) -> ModelReply:
        model = model_name(body, call.model)
        tokens = self._tokens(within(body, "usage"))
        share = self._price_share(call)
        usage = usage_of(self.price_list or self.provider, call.model, model, tokens, self.prices, share=share)
        fields: dict[str, Any] = dict(content)
        fields |= {"text": content.text[: LONGEST_TEXT + 1], "provider_items": returnable(content.provider_items)}
        return ModelReply(**fields, model=model, provider=self.provider, usage=usage)

    async def _stream(
        self, client: ClientType, path: str, body: Mapping[str, Any], call: ModelCall, fold: Fold
    ) -> JsonValue:
        patience = self.patience.for_output(call.max_output_tokens)
        request = _post(client, path, body, call)
        seconds, follow = call.timeout_seconds, _follower(call)
        return await receive(request, fold, patience=patience, whole_seconds=seconds, on_event=follow)

    async def warm_up(self) -> ClientType:
        """Return the client, creating it on first use: in threads, since SDK and prices take seconds to load."""
        async with self._making:
            if self._client is None:
                await asyncio.to_thread(load_prices)
                await asyncio.to_thread(_load_httpx)
                self._client = await asyncio.to_thread(self._make_client)
            return self._client

    async def check(self, model: str) -> None:
        """Ask the provider, free of charge, whether it has a model; skip this if it cannot list models.

        Raises:
            ProviderError: it lacks the model, refuses the key, or is not reachable.
        """
        if not self.lists_models:
            return
        with translating(self.provider, self._secrets):
            client = await self.warm_up()
            await client.models.retrieve(model, timeout=COUNT_SECONDS)

    async def connect(self) -> None:
        """Create the client and open a connection to the provider with a free request that has no key."""
        client = await self.warm_up()
        assert self._network, "the client is made with it"
        try:
            await self._network.get(client.base_url, timeout=_WARM_UP_SECONDS)
        except Exception as error:  # noqa: BLE001  # whatever it is, the first call will report it
            _logger.warning("the model provider is not reachable yet", extra={"problem": type(error).__name__})

    async def aclose(self) -> None:
        """Close the client's connections; a later call creates a new client."""
        async with self._making:
            client, self._client = self._client, None
        if client is not None:
            await client.close()


@asynccontextmanager
async def _post(client: Client, path: str, body: Mapping[str, Any], call: ModelCall) -> AsyncGenerator[Response]:
    """Send a request through the SDK's low-level method, which adds address, key and typed errors but parses nothing.

    The SDK's `create` methods validate the body, which costs more than the rest of a call. The stream is read directly
    from the network client, which bounds and decodes it, bypassing the SDK's layers.
    """
    options = {"headers": {**call.headers, **_STREAMED}, "timeout": make_timeout(call.timeout_seconds)}
    response = await client.post(path, cast_to=object, body=body, options=options)
    if call.on_headers is not None:
        call.on_headers(response.http_response.headers)
    try:
        yield response.http_response
    finally:
        await response.close()


def _follower(call: ModelCall) -> Callable[[Fold], None]:
    """Return a callback that reports a call's first token and text."""
    on_first_token = call.on_first_token

    def follow(fold: Fold) -> None:
        nonlocal on_first_token
        if on_first_token is not None and fold.has_begun:
            on_first_token()
            on_first_token = None
        if call.live is not None:
            call.live(lambda: fold.text)

    return follow


def _without_effort(call: ModelCall) -> ModelCall:
    return call.model_copy(update={"effort": None})


def _load_httpx() -> None:
    """Load httpx completely, since the SDKs check for it at each reply and must not find it partially loaded.

    E2B's SDK and custom tools load it in other threads, when first used.
    """
    with suppress(ImportError):
        import_module("httpx")


def make_timeout(seconds: float) -> "httpx2.Timeout":
    import httpx2  # a dependency of the SDKs

    return httpx2.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))
