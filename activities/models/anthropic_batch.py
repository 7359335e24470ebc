"""One call as an Anthropic Message Batch: at half the price, within a day, mostly within the hour."""

import hashlib
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from pydantic import JsonValue

from activities.models.clients import make_timeout
from activities.models.failures import ReportedError, UnreadableReply
from activities.models.provider_jobs import REQUEST_SECONDS, JobStore
from activities.models.replies import parse, within

if TYPE_CHECKING:
    import anthropic

PRICE_SHARE: Final = Decimal("0.5")
"""The price of a batch, as a share of the usual price."""
POLL_SECONDS: Final = 15.0
RETRYABLE_CODES: Final = frozenset({"api_error", "overloaded_error", "rate_limit_error", "timeout_error"})
"""Error types, of a batch or in the middle of a stream, after which trying again may help."""
_NOT_OF_BATCHES: Final = frozenset({"stream", "service_tier"})
"""Parameters that requests in a batch may not have."""


class BatchStore(JobStore):
    """One call as a batch of one request."""

    def __init__(self, client: "anthropic.AsyncAnthropic", body: Mapping[str, Any], key: str) -> None:
        """Prepare one call; `key` names it across attempts."""
        self._client = client
        self._custom_id = hashlib.sha256(key.encode()).hexdigest()
        params = {name: value for name, value in body.items() if name not in _NOT_OF_BATCHES}
        super().__init__(client.messages.batches, requests=[{"custom_id": self._custom_id, "params": params}])

    async def result(self, identity: str) -> JsonValue:
        """Return the message once the batch has ended."""
        if within(await self.state(identity), "processing_status") != "ended":
            return None
        return await self._message(await self._results(identity))

    async def _results(self, identity: str) -> bytes:
        import httpx2  # a dependency of the SDK

        # Not from the address in the batch, which could send the API key to another host.
        response = await self._client.get(
            f"/v1/messages/batches/{quote(identity, safe='')}/results",
            cast_to=httpx2.Response,
            options={"timeout": make_timeout(REQUEST_SECONDS)},
        )
        return response.content

    async def _message(self, lines: bytes) -> JsonValue:
        results = [await parse(line) for line in lines.split(b"\n") if line.strip()]
        ours = [within(result, "result") for result in results if within(result, "custom_id") == self._custom_id]
        if len(ours) != 1:
            raise UnreadableReply("the batch does not have this call's result")
        (result,) = ours
        kind = str(within(result, "type"))
        if kind == "succeeded":
            message: JsonValue = within(result, "message")
            if message is None:
                raise UnreadableReply("unexpected form of: message")
            return message
        # Any other result is free.
        code = str(within(result, "error", "error", "type") or kind)
        text = str(within(result, "error", "error", "message") or f"the batch ended as {kind}")
        raise ReportedError(code, text, is_final=kind != "expired" and code not in RETRYABLE_CODES)
