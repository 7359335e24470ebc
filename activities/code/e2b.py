"""Code in an E2B sandbox: full Python on a remote virtual machine. Its SDK is imported with the first run."""

import asyncio
import json
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from temporalio.exceptions import ApplicationError

from activities.code.protocol import Artefact, CodeResult
from chargehand.contracts import Contract
from chargehand.wire import ErrorType

if TYPE_CHECKING:
    from e2b.connection_config import ApiParams
    from e2b_code_interpreter import AsyncSandbox, Execution, OutputMessage

_log: Final = logging.getLogger(__name__)


class E2BLimits(Contract):
    """How much one piece of code may take."""

    execution: timedelta = timedelta(seconds=60)
    request: timedelta = timedelta(seconds=15)
    """Time for one call of the service itself, such as making a sandbox."""
    output_characters: int = 64 * 1024

    @property
    def life(self) -> timedelta:
        """After this the service ends the sandbox by itself, should nobody be left to do it."""
        return self.execution + 2 * self.request


_DEFAULT_LIMITS: Final = E2BLimits()
_MEDIA_TYPES: Final = {
    "png": "image/png", "jpeg": "image/jpeg", "svg": "image/svg+xml", "pdf": "application/pdf", "html": "text/html",
    "chart": "application/json",
}  # fmt: skip


class _TooMuchPrintedError(Exception):
    """The code printed more than is kept."""


class E2BRunner:
    """Runs each piece of code in a sandbox of its own, without internet, that is ended afterwards whatever happens.

    Raises `ApplicationError` of type `RateLimited` or `ToolUnavailable`.
    """

    name = "e2b"
    language = (
        "It is full Python 3 with numpy, pandas, scipy, scikit-learn, sympy and matplotlib, without internet. "
        "Pictures are not kept: print numbers."
    )

    def __init__(
        self,
        api_key: str,
        *,
        domain: str | None = None,
        api_url: str | None = None,
        sandbox_url: str | None = None,
        limits: E2BLimits = _DEFAULT_LIMITS,
    ) -> None:
        """Take the key, and for a self-hosted service its domain or the URLs of its two halves."""
        if not api_key.strip():
            raise ValueError("an E2B sandbox needs an API key")
        self._limits = limits
        self._options: ApiParams = {
            "api_key": api_key.strip(),
            "domain": domain,
            "api_url": api_url,
            "sandbox_url": sandbox_url,
            "request_timeout": limits.request.total_seconds(),
            "retries": 0,  # Temporal retries
            "debug": False,  # would leave sandboxes running
        }

    async def run(self, code: str, name: str) -> CodeResult:
        await asyncio.to_thread(_import_sdk)
        making = asyncio.ensure_future(self._make(name))
        try:
            sandbox = await asyncio.shield(making)
        except asyncio.CancelledError:
            await self._end_when_made(making)
            raise
        try:
            return await self._execute(sandbox, code)
        finally:
            await asyncio.shield(self._end(sandbox))

    async def _make(self, name: str) -> "AsyncSandbox":
        from e2b_code_interpreter import AsyncSandbox  # imported already, in a thread

        try:
            return await AsyncSandbox.create(
                timeout=int(self._limits.life.total_seconds()),
                allow_internet_access=False,
                metadata={"chargehand": name},
                **self._options,
            )
        except _faults() as fault:
            raise _translated(fault) from fault

    async def _execute(self, sandbox: "AsyncSandbox", code: str) -> CodeResult:
        printed = _Printed(self._limits.output_characters)
        error = ""
        seconds = self._limits.execution.total_seconds()
        try:
            execution = await sandbox.run_code(
                code,
                on_stdout=printed.keep,
                on_stderr=printed.keep,
                timeout=seconds,
                request_timeout=self._limits.request.total_seconds(),
            )
        except _TooMuchPrintedError:
            error = (
                f"The code printed more than {self._limits.output_characters} characters and was stopped. Print less."
            )
            return CodeResult(stdout=printed.stdout, stderr=printed.stderr, error=error)
        except _faults() as fault:
            if _ran_too_long(fault):
                error = f"The code ran longer than {seconds:g} seconds and was stopped. Do less at once."
                return CodeResult(stdout=printed.stdout, stderr=printed.stderr, error=error)
            raise _translated(fault) from fault
        return _result(execution, printed)

    async def _end(self, sandbox: "AsyncSandbox") -> None:
        try:
            await sandbox.kill()
        except _faults() as fault:
            # It ends by itself when its life is over.
            _log.warning("e2b sandbox could not be ended", extra={"sandbox": sandbox.sandbox_id, "fault": repr(fault)})

    async def _end_when_made(self, making: "asyncio.Future[AsyncSandbox]") -> None:
        try:
            sandbox = await making
        except ApplicationError:
            return
        await self._end(sandbox)


class _Printed:
    """What the code printed until now, up to a limit."""

    def __init__(self, room: int) -> None:
        self.stdout = ""
        self.stderr = ""
        self._room = room

    def keep(self, message: "OutputMessage") -> None:
        kept = message.line[: self._room]
        self._room -= len(kept)
        if message.error:
            self.stderr += kept
        else:
            self.stdout += kept
        if len(kept) < len(message.line):
            raise _TooMuchPrintedError


def _import_sdk() -> None:
    import e2b_code_interpreter  # noqa: F401  # pyright: ignore[reportUnusedImport]  # takes 1.4 s, so not on the event loop


def _faults() -> tuple[type[Exception], ...]:
    """All that the SDK raises for faults of the service; some of its exceptions have no base class in common."""
    from e2b import AuthenticationException, SandboxException, ServiceBusyException
    from httpx import HTTPError

    return (SandboxException, AuthenticationException, ServiceBusyException, HTTPError, OSError, json.JSONDecodeError)


def _ran_too_long(fault: Exception) -> bool:
    from httpx import ReadTimeout

    # The SDK uses one class for this and for sandboxes that are gone.
    return isinstance(fault.__context__, ReadTimeout)


def _translated(fault: Exception) -> ApplicationError:
    from e2b import AuthenticationException, RateLimitException, SandboxException, TimeoutException

    if isinstance(fault, RateLimitException):
        return ApplicationError("E2B limits the rate of sandboxes", type=ErrorType.RATE_LIMITED)
    if isinstance(fault, AuthenticationException):
        message = "E2B does not accept the API key; check E2B_API_KEY"
        return ApplicationError(message, type=ErrorType.TOOL_UNAVAILABLE, non_retryable=True)
    status = fault.status_code if isinstance(fault, SandboxException) else None
    refused = status is not None and 400 <= status < 500 and status not in {408, 409, 425}
    told = f"E2B answered {status}" if status else f"E2B could not be used: {type(fault).__name__}"
    if isinstance(fault, TimeoutException):
        told = "the E2B sandbox did not answer, or ended while the code ran"
    return ApplicationError(told, type=ErrorType.TOOL_UNAVAILABLE, non_retryable=refused)


def _result(execution: "Execution", printed: _Printed) -> CodeResult:
    error = execution.error
    artefacts = tuple(
        Artefact(name=f"result-{number}.{form}", media_type=media_type)
        for number, result in enumerate(execution.results, start=1)
        for form, media_type in _MEDIA_TYPES.items()
        if form in result.formats()
    )
    return CodeResult(
        stdout=printed.stdout,
        stderr=printed.stderr,
        value=execution.text or "",
        error=f"{error.traceback or error.value}" if error else "",
        artefacts=artefacts,
    )
