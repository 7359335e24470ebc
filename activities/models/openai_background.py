"""One call as a background response of OpenAI's: kept there for a while, so that another worker can fetch it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import JsonValue

from activities.models.failures import UnreadableReply
from activities.models.http_clients import make_timeout
from activities.models.provider_jobs import REQUEST_SECONDS
from activities.models.reply_parsing import parse, within

if TYPE_CHECKING:
    import openai
    from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming

POLL_SECONDS: Final = 1.0
_UNDER_WAY: Final = frozenset({"queued", "in_progress"})


class BackgroundStore:
    """Hands one call in as a response in the background."""

    def __init__(self, client: "openai.AsyncOpenAI", body: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        """Set one call up."""
        self._client = client
        self._headers = headers
        # Only what is stored can be fetched.
        self._body = {**body, "stream": False, "background": True, "store": True}

    async def begin(self) -> str:
        """Begin the response."""
        response = await self._client.responses.with_raw_response.create(
            **cast("ResponseCreateParamsNonStreaming", self._body),
            extra_headers=self._headers,
            timeout=make_timeout(REQUEST_SECONDS),
        )
        identity = within(parse(response.http_response.content), "id")
        if not isinstance(identity, str) or not identity:
            raise UnreadableReply("unexpected form of: id")
        return identity

    async def look(self, identity: str) -> JsonValue:
        """Give the response, once it is no longer under way."""
        response = await self._client.responses.with_raw_response.retrieve(
            identity, include=["reasoning.encrypted_content"], timeout=make_timeout(REQUEST_SECONDS)
        )
        body = parse(response.http_response.content)
        return None if within(body, "status") in _UNDER_WAY else body

    async def abandon(self, identity: str) -> None:
        """Cancel the response."""
        await self._client.responses.cancel(identity, timeout=make_timeout(REQUEST_SECONDS))

    async def delete(self, identity: str) -> None:
        """Delete the response, which is kept for a month otherwise."""
        await self._client.responses.delete(identity, timeout=make_timeout(REQUEST_SECONDS))
