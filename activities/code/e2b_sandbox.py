"""E2B's SDK with bounded answers and translated errors. Importing it takes over a second, so the first run does."""

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from http import HTTPStatus
from typing import Final

import httpx
from e2b import AuthenticationException, RateLimitException, SandboxException, ServiceBusyException, TimeoutException
from e2b_code_interpreter import AsyncSandbox
from temporalio.exceptions import ApplicationError

from chargehand.wire import ErrorType

FAULTS: Final = (
    SandboxException,
    AuthenticationException,
    ServiceBusyException,
    httpx.HTTPError,
    OSError,
    json.JSONDecodeError,
)
"""Everything that the SDK raises for faults of the service; its exceptions have no common base class."""
_LONGEST_WAIT: Final = timedelta(hours=1)


class TooMuchSentError(Exception):
    """The sandbox sent more than its limit."""


class Sandbox(AsyncSandbox):
    """A sandbox whose answers are bounded before the SDK collects them in memory."""

    most_bytes = 32 * 1024 * 1024

    @property
    def _client(self) -> httpx.AsyncClient:
        client = super()._client
        client.event_hooks = {"response": [self._bound]}
        return client

    async def _bound(self, response: httpx.Response) -> None:
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Bounded(response.stream, self.most_bytes)


class _Bounded(httpx.AsyncByteStream):
    def __init__(self, stream: httpx.AsyncByteStream, room: int) -> None:
        self._stream = stream
        self._room = room

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            self._room -= len(chunk)
            if self._room < 0:
                raise TooMuchSentError
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


def ran_too_long(fault: Exception) -> bool:
    """Whether the code ran too long, rather than the sandbox being gone: the SDK uses one class for both."""
    return isinstance(fault.__context__, httpx.ReadTimeout)


def translated(fault: Exception) -> ApplicationError:
    """Translate a fault of the service, and decide whether a retry can help."""
    if isinstance(fault, RateLimitException):
        wait = _asked_wait(fault)
        message = "E2B limits the rate of sandboxes"
        return ApplicationError(message, type=ErrorType.RATE_LIMITED, next_retry_delay=wait)
    if isinstance(fault, AuthenticationException):
        message = "E2B does not accept the API key; check E2B_API_KEY"
        return ApplicationError(message, type=ErrorType.TOOL_UNAVAILABLE, non_retryable=True)
    status = fault.status_code if isinstance(fault, SandboxException) else None
    refused = status is not None and 400 <= status < 500 and status not in {408, 409, 425}
    told = f"E2B answered {status}" if status else f"E2B could not be used: {type(fault).__name__}"
    if isinstance(fault, TimeoutException):
        told = "the E2B sandbox did not answer, or ended while the code ran"
    wait = _asked_wait(fault) if isinstance(fault, ServiceBusyException) else None
    return ApplicationError(told, type=ErrorType.TOOL_UNAVAILABLE, non_retryable=refused, next_retry_delay=wait)


def _asked_wait(fault: Exception) -> timedelta | None:
    """Read `Retry-After`, in seconds as the service sends it.

    The SDK's exceptions do not carry the response, so it is read from the frame that raised them. If the SDK changes,
    the activity's own back-off applies.
    """
    trace = fault.__traceback__
    while trace is not None:
        answer = trace.tb_frame.f_locals.get("res")
        status = getattr(answer, "status_code", None)
        if status in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}:
            headers = httpx.Headers(getattr(answer, "headers", None))
            asked = headers.get("retry-after", "")
            return min(timedelta(seconds=int(asked)), _LONGEST_WAIT) if asked.isdecimal() and len(asked) < 9 else None
        trace = trace.tb_next
    return None
