"""One run in an E2B sandbox, with bounded answers and translated errors. Importing E2B's SDK takes over a second."""

import asyncio
import base64
import binascii
import json
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

import httpx
from e2b import (
    AuthenticationException,
    FileNotFoundException,
    RateLimitException,
    SandboxException,
    SandboxQuery,
    ServiceBusyException,
    TimeoutException,
)
from e2b.sandbox.filesystem.filesystem import AsyncWriteEntry
from e2b_code_interpreter import AsyncSandbox, Execution, OutputMessage
from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json
from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.processes.stall_timeout import note_progress
from activities.tools.code.e2b_limits import E2BLimits
from activities.tools.code.protocol import ARTIFACTS, DOCUMENTS, ROWS, CodeResult, GivenFile, Language, Rows
from activities.tools.outputs import MOST_BYTES, MOST_BYTES_TOGETHER, MOST_FILES, ToolOutput
from chargehand.converter import non_retryable_error
from chargehand.wire import ErrorType

if TYPE_CHECKING:
    from e2b.connection_config import ApiParams

_log: Final = logging.getLogger(__name__)

_LABEL: Final = "chargehand"
_MOST_LEFT_OVER: Final = 10
_HOME: Final = PurePosixPath("/home/user")
"""The directory in which code starts in E2B's own template."""
_ROWS_FILE: Final = _HOME / ".rows.json"
_LOADING: Final = f"""\
import json as _json
with open({str(_ROWS_FILE)!r}, encoding="utf-8") as _file:
    {ROWS} = _json.load(_file)
"""
_LISTED: Final = TypeAdapter(list[tuple[str, int | None]])
_LISTING: Final = f"""\
def _listing():
    import itertools, json, os
    with os.scandir({str(_HOME / ARTIFACTS)!r}) as entries:
        shown = (entry for entry in entries if not entry.name.startswith("."))
        return json.dumps([
            (entry.name, entry.stat().st_size if entry.is_file(follow_symlinks=False) else None)
            for entry in itertools.islice(shown, {2 * MOST_FILES})
        ])
print(_listing())
"""
_FIGURES: Final = {"png": "png", "jpeg": "jpg", "svg": "svg", "pdf": "pdf"}
_FAULTS: Final = (
    SandboxException,
    AuthenticationException,
    ServiceBusyException,
    httpx.HTTPError,
    OSError,
    json.JSONDecodeError,
)
"""All exceptions that the SDK raises for faults of the service; they have no common base class."""


class _TooMuchOutputError(Exception):
    """The code printed more than its limit, or the sandbox sent more than its limit."""


class _Sandbox(AsyncSandbox):
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
                raise _TooMuchOutputError
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Printed:
    """The output of the code so far, up to a limit."""

    def __init__(self, room: int) -> None:
        self.stdout = ""
        self.stderr = ""
        self._room = room

    def keep(self, message: OutputMessage) -> None:
        note_progress()
        text = message.line[: self._room]
        self._room -= len(text)
        if message.error:
            self.stderr += text
        else:
            self.stdout += text
        if len(text) < len(message.line):
            raise _TooMuchOutputError


@dataclass(frozen=True)
class SandboxRun:
    """One piece of code in a new sandbox, which is labelled with the call's name."""

    options: "ApiParams"
    limits: E2BLimits
    name: str
    internet: bool

    async def run(
        self, code: str, files: Sequence[GivenFile], rows: Rows | None, language: Language = "python"
    ) -> CodeResult:
        if not activity.in_activity() or activity.info().attempt > 1:
            await self._end_left_over()
        making = asyncio.ensure_future(self._make())
        try:
            sandbox = await asyncio.shield(making)
        except asyncio.CancelledError:
            await self._end_when_made(making)
            raise
        try:
            return await self._use(sandbox, code, files, rows, language)
        finally:
            await asyncio.shield(self._end(sandbox))

    async def _make(self) -> _Sandbox:
        try:
            return await _Sandbox.create(
                timeout=int(self.limits.life.total_seconds()),
                allow_internet_access=self.internet,
                metadata={_LABEL: self.name},
                **self.options,
            )
        except _FAULTS as fault:
            raise _translate(fault) from fault

    async def _use(
        self, sandbox: _Sandbox, code: str, files: Sequence[GivenFile], rows: Rows | None, language: Language
    ) -> CodeResult:
        try:
            await _write_inputs(sandbox, files, rows)
            if rows is not None:
                seconds = self.limits.request.total_seconds()
                # JavaScript's permission to read files varies between templates.
                written = f"globalThis.{ROWS} = JSON.parse({json.dumps(to_json(rows).decode())});"
                loading = _LOADING if language == "python" else written
                await sandbox.run_code(loading, language=language, timeout=seconds, request_timeout=seconds)
            printed = _Printed(self.limits.output_characters)
            execution = await self._execute(sandbox, code, language, printed)
            if isinstance(execution, str):
                return CodeResult(stdout=printed.stdout, stderr=printed.stderr, error=execution)
            outputs, left_out = await _fetch_files(sandbox, self.limits.request.total_seconds())
        except _FAULTS as fault:
            raise _translate(fault) from fault
        error = execution.error
        return CodeResult(
            stdout=printed.stdout,
            stderr=printed.stderr,
            value=execution.text or "",
            error=f"{error.traceback or error.value}" if error else "",
            files=(*_figures(execution), *outputs),
            left_out=left_out,
        )

    async def _execute(self, sandbox: _Sandbox, code: str, language: Language, printed: _Printed) -> Execution | str:
        """Run the code; return the reason if it was stopped."""
        seconds = self.limits.execution.total_seconds()
        try:
            return await sandbox.run_code(
                code,
                language=language,
                on_stdout=printed.keep,
                on_stderr=printed.keep,
                timeout=seconds,
                request_timeout=self.limits.request.total_seconds(),
            )
        except _TooMuchOutputError:
            return (
                f"The code printed more than {self.limits.output_characters} characters, or showed too much, and was "
                "stopped. Print less."
            )
        except SandboxException as fault:
            # The SDK also raises it when the sandbox is gone.
            if not isinstance(fault.__context__, httpx.ReadTimeout):
                raise
            return f"The code ran longer than {seconds:g} seconds and was stopped. Do less at once."

    async def _end(self, sandbox: _Sandbox) -> None:
        try:
            await sandbox.kill()
        except _FAULTS as fault:
            # The sandbox ends anyway when its lifetime is over.
            _log.warning("e2b sandbox could not be ended", extra={"sandbox": sandbox.sandbox_id, "fault": repr(fault)})

    async def _end_when_made(self, making: asyncio.Future[_Sandbox]) -> None:
        try:
            sandbox = await making
        except ApplicationError:
            return
        await self._end(sandbox)

    async def _end_left_over(self) -> None:
        """End the sandboxes left by attempts whose worker was lost, which are found by the call's name."""
        query = SandboxQuery(metadata={_LABEL: self.name})
        try:
            sandboxes = await _Sandbox.list(query, limit=_MOST_LEFT_OVER, **self.options).next_items()
            for left in sandboxes:
                # The service's filter alone must not determine what is destroyed.
                if left.metadata.get(_LABEL) == self.name:
                    await _Sandbox.kill(left.sandbox_id, **self.options)
                    _log.warning("e2b sandbox of a lost attempt was ended", extra={"sandbox": left.sandbox_id})
        except _FAULTS as fault:
            _log.warning("e2b sandboxes of lost attempts could not be listed", extra={"fault": repr(fault)})


async def _write_inputs(sandbox: _Sandbox, files: Sequence[GivenFile], rows: Rows | None) -> None:
    """Write the documents and the query's rows, and create the folder for files that the code saves."""
    contents = await asyncio.to_thread(lambda: [file.path.read_bytes() for file in files])
    entries = [
        AsyncWriteEntry(path=str(_HOME / DOCUMENTS / file.name), data=content)
        for file, content in zip(files, contents, strict=True)
    ]
    # Writing a file creates its folder. The leading dot keeps the file out of the listing.
    entries.append(AsyncWriteEntry(path=str(_HOME / ARTIFACTS / ".keep"), data=b""))
    if rows is not None:
        entries.append(AsyncWriteEntry(path=str(_ROWS_FILE), data=to_json(rows)))
    await sandbox.files.write_files(entries)


def _figures(execution: Execution) -> tuple[ToolOutput, ...]:
    """Collect the pictures that the code displayed."""
    figures: list[ToolOutput] = []
    for number, result in enumerate(execution.results, start=1):
        for form, suffix in _FIGURES.items():
            shown: object = result[form]
            if not isinstance(shown, str):
                continue
            try:
                content = shown.encode() if form == "svg" else base64.b64decode(shown)
            except (binascii.Error, ValueError):
                continue
            figures.append(ToolOutput(name=f"figure-{number}.{suffix}", content=content))
    return tuple(figures[:MOST_FILES])


async def _fetch_files(sandbox: _Sandbox, seconds: float) -> tuple[tuple[ToolOutput, ...], tuple[str, ...]]:
    """Fetch the files that the code saved; return them, and `name: reason` for those left out.

    A program in the sandbox lists them, since the service's own listing is unbounded; its answer is only used to
    request files of the same sandbox.
    """
    execution = await sandbox.run_code(_LISTING, timeout=seconds, request_timeout=seconds)
    files: list[ToolOutput] = []
    left_out: list[str] = []
    room = MOST_BYTES_TOGETHER
    for name, size in _entries("".join(execution.logs.stdout)):
        if size is None or "/" in name or name in {"", ".", ".."}:
            left_out.append(f"{name[:100]}: not a regular file")
            continue
        most = min(MOST_BYTES, room)
        content = None if size > most or len(files) == MOST_FILES else await _content(sandbox, name, most)
        if content is None:
            left_out.append(f"{name[:100]}: too many or too large files")
            continue
        room -= len(content)
        files.append(ToolOutput(name=name, content=content))
    return tuple(files), tuple(left_out)


def _entries(listing: str) -> list[tuple[str, int | None]]:
    """Parse the listing: names and sizes; anything but a regular file has no size."""
    try:
        return _LISTED.validate_json(listing)[: 2 * MOST_FILES]
    except ValidationError:
        return []


async def _content(sandbox: _Sandbox, name: str, most: int) -> bytes | None:
    """Read a file; None if it is larger than `most` bytes, or gone."""
    content = bytearray()
    try:
        async with await sandbox.files.read(str(_HOME / ARTIFACTS / name), format="stream") as stream:
            async for chunk in stream:
                note_progress()
                content += chunk
                if len(content) > most:
                    return None
    except FileNotFoundException:
        return None
    return bytes(content)


def _translate(fault: Exception) -> ApplicationError:
    """Translate a fault of the service, and decide whether a retry can help."""
    if isinstance(fault, RateLimitException):
        return ApplicationError("E2B limits the rate of sandboxes", type=ErrorType.RATE_LIMITED)
    if isinstance(fault, AuthenticationException):
        message = "E2B does not accept the API key; check E2B_API_KEY"
        return non_retryable_error(ErrorType.TOOL_UNAVAILABLE, message)
    status = fault.status_code if isinstance(fault, SandboxException) else None
    refused = status is not None and 400 <= status < 500 and status not in {408, 409, 425}
    message = f"E2B answered {status}" if status else f"E2B could not be used: {type(fault).__name__}"
    if isinstance(fault, TimeoutException):
        message = "the E2B sandbox did not answer, or ended while the code ran"
    return ApplicationError(message, type=ErrorType.TOOL_UNAVAILABLE, non_retryable=refused)
