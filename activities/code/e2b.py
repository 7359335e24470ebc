"""Code in an E2B sandbox: full Python on a remote virtual machine. Its SDK is imported with the first run."""

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.code.protocol import CodeResult, GivenFile
from chargehand.contracts import Contract

if TYPE_CHECKING:
    from e2b.connection_config import ApiParams
    from e2b_code_interpreter import Execution, OutputMessage

    from activities.code.e2b_sandbox import Sandbox

_log: Final = logging.getLogger(__name__)


class E2BLimits(Contract):
    """How much one piece of code may take."""

    execution: timedelta = timedelta(seconds=60)
    request: timedelta = timedelta(seconds=15)
    """Time for one call of the service itself, such as making a sandbox."""
    output_characters: int = 64 * 1024

    @property
    def life(self) -> timedelta:
        """After this the service ends the sandbox by itself, in case the worker is lost."""
        return self.execution + 4 * self.request


_DEFAULT_LIMITS: Final = E2BLimits()
_LABEL: Final = "chargehand"
_MOST_LEFT_OVER: Final = 10


class _TooMuchPrintedError(Exception):
    """The code printed more than its limit."""


class E2BRunner:
    """Runs each piece of code in a sandbox of its own that is always ended afterwards.

    A sandbox is labelled with the call's name, so that the next attempt ends the sandbox of a crashed worker. Raises
    `ApplicationError` of type `RateLimited` or `ToolUnavailable`.
    """

    name = "e2b"
    handles_files = True

    def __init__(
        self,
        api_key: str,
        *,
        domain: str | None = None,
        api_url: str | None = None,
        sandbox_url: str | None = None,
        internet: bool = False,
        limits: E2BLimits = _DEFAULT_LIMITS,
    ) -> None:
        """Take the key, and for a self-hosted service its domain or the URLs of its two halves."""
        if not api_key.strip():
            raise ValueError("an E2B sandbox needs an API key")
        self._limits = limits
        self._internet = internet
        self.reaches_out = internet
        self.language = (
            "It is full Python 3 with numpy, pandas, scipy, scikit-learn, sympy and matplotlib, "
            f"{'with' if internet else 'without'} internet, for at most {limits.execution.total_seconds():g} seconds."
        )
        self._options: ApiParams = {
            "api_key": api_key.strip(),
            "domain": domain,
            "api_url": api_url,
            "sandbox_url": sandbox_url,
            "request_timeout": limits.request.total_seconds(),
            "retries": 0,  # Temporal retries
            "debug": False,  # would leave sandboxes running
        }

    async def run(self, code: str, name: str, files: Sequence[GivenFile] = ()) -> CodeResult:
        await asyncio.to_thread(_import_sdk)
        if _may_have_been_tried():
            await self._end_left_over(name)
        making = asyncio.ensure_future(self._make(name))
        try:
            sandbox = await asyncio.shield(making)
        except asyncio.CancelledError:
            await self._end_when_made(making)
            raise
        try:
            return await self._use(sandbox, code, files)
        finally:
            await asyncio.shield(self._end(sandbox))

    async def _make(self, name: str) -> "Sandbox":
        from activities.code.e2b_sandbox import FAULTS, Sandbox, translated  # imported already, in a thread

        try:
            return await Sandbox.create(
                timeout=int(self._limits.life.total_seconds()),
                allow_internet_access=self._internet,
                metadata={_LABEL: name},
                **self._options,
            )
        except FAULTS as fault:
            raise translated(fault) from fault

    async def _use(self, sandbox: "Sandbox", code: str, files: Sequence[GivenFile]) -> CodeResult:
        from activities.code.e2b_files import bring_back, figures, lay_out
        from activities.code.e2b_sandbox import FAULTS, translated

        try:
            await lay_out(sandbox, files)
            result = await self._execute(sandbox, code)
            if isinstance(result, CodeResult):
                return result
            execution, printed = result
            made, left_out = await bring_back(sandbox, self._limits.request.total_seconds())
        except FAULTS as fault:
            raise translated(fault) from fault
        error = execution.error
        return CodeResult(
            stdout=printed.stdout,
            stderr=printed.stderr,
            value=execution.text or "",
            error=f"{error.traceback or error.value}" if error else "",
            files=(*figures(execution), *made),
            left_out=left_out,
        )

    async def _execute(self, sandbox: "Sandbox", code: str) -> "CodeResult | tuple[Execution, _Printed]":
        from e2b import SandboxException

        from activities.code.e2b_sandbox import TooMuchSentError, ran_too_long

        printed = _Printed(self._limits.output_characters)
        seconds = self._limits.execution.total_seconds()
        try:
            execution = await sandbox.run_code(
                code,
                on_stdout=printed.keep,
                on_stderr=printed.keep,
                timeout=seconds,
                request_timeout=self._limits.request.total_seconds(),
            )
        except (_TooMuchPrintedError, TooMuchSentError):
            error = (
                f"The code printed more than {self._limits.output_characters} characters, or showed too much, and was "
                "stopped. Print less."
            )
            return CodeResult(stdout=printed.stdout, stderr=printed.stderr, error=error)
        except SandboxException as fault:
            if not ran_too_long(fault):
                raise
            error = f"The code ran longer than {seconds:g} seconds and was stopped. Do less at once."
            return CodeResult(stdout=printed.stdout, stderr=printed.stderr, error=error)
        return execution, printed

    async def _end(self, sandbox: "Sandbox") -> None:
        from activities.code.e2b_sandbox import FAULTS

        try:
            await sandbox.kill()
        except FAULTS as fault:
            # It ends by itself at the end of its life.
            _log.warning("e2b sandbox could not be ended", extra={"sandbox": sandbox.sandbox_id, "fault": repr(fault)})

    async def _end_when_made(self, making: "asyncio.Future[Sandbox]") -> None:
        try:
            sandbox = await making
        except ApplicationError:
            return
        await self._end(sandbox)

    async def _end_left_over(self, name: str) -> None:
        """End the sandboxes of earlier attempts whose worker was lost; they are found by the call's name."""
        from e2b import SandboxQuery

        from activities.code.e2b_sandbox import FAULTS, Sandbox

        query = SandboxQuery(metadata={_LABEL: name})
        try:
            found = await Sandbox.list(query, limit=_MOST_LEFT_OVER, **self._options).next_items()
            for left in found:
                # What is destroyed does not depend on the service's filter alone.
                if left.metadata.get(_LABEL) == name:
                    await Sandbox.kill(left.sandbox_id, **self._options)
                    _log.warning("e2b sandbox of a lost attempt was ended", extra={"sandbox": left.sandbox_id})
        except FAULTS as fault:
            _log.warning("e2b sandboxes of lost attempts could not be listed", extra={"fault": repr(fault)})


class _Printed:
    """What the code has printed so far, up to a limit."""

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


def _may_have_been_tried() -> bool:
    return not activity.in_activity() or activity.info().attempt > 1


def _import_sdk() -> None:
    import activities.code.e2b_sandbox  # noqa: F401  # pyright: ignore[reportUnusedImport]  # takes 1.4 s, so not on the event loop
