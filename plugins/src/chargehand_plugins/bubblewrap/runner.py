"""Run code in bubblewrap: full Python on this host, in Linux namespaces, if the operator chooses it."""

import asyncio
import json
import os
import re
import shutil
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from pydantic import ValidationError
from temporalio.exceptions import ApplicationError

from activities.tools.code.protocol import ARTIFACTS, ROWS, CodeResult, GivenFile, Language, Rows
from activities.tools.outputs import MOST_BYTES_TOGETHER, MOST_FILES, ToolOutput
from chargehand.contracts import Contract
from chargehand.wire import ErrorType
from chargehand_plugins.bubblewrap import isolation
from chargehand_plugins.bubblewrap.isolation import FOLDER, PACKAGES


class BubblewrapLimits(Contract):
    seconds: float = 20.0
    memory_bytes: int = 1 << 30
    """Address space of the process."""
    folder_bytes: int = 64 << 20
    """Maximum size of all files together, which are kept in memory."""
    files: int = 5_000
    """Maximum number of files, folders and links together."""
    file_bytes: int = 32 << 20
    descriptors: int = 64
    output_bytes: int = 64 << 10
    parallel: int = 2
    """Pieces of code that run at the same time; others wait."""


class _File(Contract):
    name: str
    bytes: int


class _Answer(Contract):
    """The answer of the program inside, without the contents of the files, which follow it."""

    value: str = ""
    error: str = ""
    files: list[_File] = []
    left_out: list[str] = []
    figures: list[str] = []
    """Figures that could not be drawn."""

    def split(self, contents: bytes) -> tuple[ToolOutput, ...]:
        """Split the contents into files by the sizes that the program states; a wrong size loses all later files."""
        files: list[ToolOutput] = []
        at = 0
        for file in self.files[:MOST_FILES]:
            if file.bytes < 0 or at + file.bytes > len(contents):
                break
            files.append(ToolOutput(name=file.name, content=contents[at : at + file.bytes]))
            at += file.bytes
        return tuple(files)


class SandboxUnusableError(Exception):
    """Code cannot be isolated on this host; the message gives the reason and the remedy."""


_DEFAULT_LIMITS: Final = BubblewrapLimits()
_WATCH_SECONDS: Final = 0.1
_CHUNK_BYTES: Final = 1 << 16
_HEAD_BYTES: Final = 256 << 10
_ANSWER_BYTES: Final = MOST_BYTES_TOGETHER + _HEAD_BYTES

_Stopped = Literal["", "time", "output", "files"]


class BubblewrapRunner:
    """Runs each piece of code in a new sandbox without network. Offer it only after `self_test.require_tight`."""

    name = "bubblewrap"
    languages: tuple[Language, ...] = ("python",)
    handles_files = True
    reaches_out = False

    def __init__(self, limits: BubblewrapLimits = _DEFAULT_LIMITS, packages: Path | None = None) -> None:
        """Take the limits, and a folder of packages (made by `pip install --target`) that code may import."""
        self._limits = limits
        self._packages = packages
        self._running = asyncio.Semaphore(limits.parallel)
        self._program = ""
        self._filter = b""
        self._node: Path | None = None
        has = f"the packages {', '.join(_packages_of(packages))} and no others" if packages else "no other packages"
        self.language = (
            f"It is full Python 3 with its standard library and {has}, without network and without other processes; "
            f"{limits.seconds:g} seconds and {limits.memory_bytes >> 20} MB of memory."
        )

    def start(self) -> None:
        """Find bubblewrap and its requirements. Raises `SandboxUnusableError`."""
        program = shutil.which("bwrap")
        if program is None:
            raise SandboxUnusableError("bubblewrap is not installed (on Debian and Ubuntu: apt install bubblewrap)")
        if self._packages is not None and not self._packages.is_dir():
            raise SandboxUnusableError(f"there is no folder {self._packages} with packages for code")
        try:
            self._filter = isolation.filter_program()
        except isolation.UnknownMachineError as error:
            raise SandboxUnusableError(str(error)) from error
        self._program = program

    def find_node(self) -> bool:
        program = shutil.which("node")
        self._node = Path(program).resolve() if program else None
        return program is not None

    def offer_javascript(self) -> None:
        self.languages = ("python", "javascript")
        self.language += (
            " JavaScript runs in Node within the same limits, with `require` for Node's own modules; the value of a "
            "promise is what it resolves to."
        )

    async def run(
        self,
        code: str,
        name: str,  # noqa: ARG002  # the sandbox leaves nothing to clean up
        files: Sequence[GivenFile] = (),
        rows: Rows | None = None,
        language: Language = "python",
    ) -> CodeResult:
        node = self._node if language == "javascript" else None
        async with self._running:
            run = _Run(self._program, self._filter, self._packages, self._limits, node)
            return await run.run(code, files, rows)


class _Run:
    def __init__(
        self, program: str, filter_program: bytes, packages: Path | None, limits: BubblewrapLimits, node: Path | None
    ) -> None:
        self._node = node
        self._program = program
        self._filter = filter_program
        self._packages = packages
        self._limits = limits
        self._stopped: _Stopped = ""
        self._room = limits.output_bytes
        self._process: asyncio.subprocess.Process | None = None

    async def run(self, code: str, files: Sequence[GivenFile], rows: Rows | None) -> CodeResult:
        answer_end, answer_start = os.pipe()
        try:
            process = self._process = await self._start(answer_start, files)
        except OSError as error:
            os.close(answer_end)
            raise ApplicationError("bubblewrap could not be started", type=ErrorType.TOOL_UNAVAILABLE) from error
        finally:
            os.close(answer_start)
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._send(code, rows))
                stdout = tasks.create_task(self._read_output(process.stdout))
                stderr = tasks.create_task(self._read_output(process.stderr))
                answer = tasks.create_task(_read_bounded(answer_end, _ANSWER_BYTES))
                watch = asyncio.create_task(self._watch(process.pid))
                await process.wait()
                watch.cancel()
        finally:
            self._stop("")
            await asyncio.shield(process.wait())
        return self._result(stdout.result(), stderr.result(), answer.result(), process.returncode or 0)

    async def _start(self, answer: int, files: Sequence[GivenFile]) -> asyncio.subprocess.Process:
        limits = self._limits
        filter_end, filter_start = os.pipe()
        try:
            os.write(filter_start, self._filter)
            os.close(filter_start)
            line = isolation.command(
                self._program,
                filter_descriptor=filter_end,
                folder_bytes=limits.folder_bytes,
                packages=self._packages,
                files=files,
                arguments=(answer, limits.memory_bytes, int(limits.seconds) + 1, limits.file_bytes, limits.descriptors),
                node=self._node,
            )
            return await asyncio.create_subprocess_exec(
                *line,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=(filter_end, answer),
                env={},
                cwd="/",
                start_new_session=True,
                limit=_CHUNK_BYTES,
            )
        finally:
            os.close(filter_end)

    async def _send(self, code: str, rows: Rows | None) -> None:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        job = {
            "code": code,
            "variables": {} if rows is None else {ROWS: [dict(row) for row in rows]},
            "folder": FOLDER,
            "artifacts": f"{FOLDER}/{ARTIFACTS}",
            "packages": [PACKAGES] if self._packages else [],
            "most_files": MOST_FILES,
            "most_bytes": MOST_BYTES_TOGETHER,
        }
        with suppress(ConnectionError):
            process.stdin.write(json.dumps(job).encode())
            await process.stdin.drain()
        process.stdin.close()

    async def _read_output(self, stream: asyncio.StreamReader) -> str:
        output = bytearray()
        while chunk := await stream.read(_CHUNK_BYTES):
            if len(chunk) > self._room:
                self._stop("output")
            output += chunk[: self._room]
            self._room -= min(len(chunk), self._room)
        return output.decode("utf-8", "replace")

    async def _watch(self, pid: int) -> None:
        """Stop the code when its time is up or it creates too many files, which the size limit does not bound."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._limits.seconds
        while (left := end - loop.time()) > 0:
            await asyncio.sleep(min(left, _WATCH_SECONDS))
            with suppress(OSError):
                if _files_made(pid) > self._limits.files:
                    self._stop("files")
                    return
        self._stop("time")

    def _stop(self, why: _Stopped) -> None:
        self._stopped = self._stopped or why
        process = self._process
        if process is not None and process.returncode is None:
            # Its child ends its whole process namespace. At first it does not die with its parent, so it is killed too.
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGSTOP)
                for child in _children(process.pid):
                    os.kill(child, signal.SIGKILL)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def _result(self, stdout: str, stderr: str, answer: bytes, status: int) -> CodeResult:
        if self._stopped:
            return CodeResult(stdout=stdout, stderr=stderr, error=self._stop_reason())
        head, _, contents = answer.partition(b"\n")
        try:
            answered = _Answer.model_validate_json(head[:_HEAD_BYTES])
        except ValidationError:
            if "bwrap:" in stderr and not stdout:
                reason = stderr.strip().splitlines()[-1][:200]
                message = f"bubblewrap could not make a sandbox on this host: {reason}"
                raise ApplicationError(message, type=ErrorType.TOOL_UNAVAILABLE) from None
            error = f"The program ended its process (status {status}) or was killed at a limit of memory or time."
            return CodeResult(stdout=stdout, stderr=stderr, error=error)
        return CodeResult(
            stdout=stdout,
            stderr=stderr,
            value=answered.value,
            error=self._explain(answered.error),
            files=answered.split(contents),
            left_out=tuple(reason[:200] for reason in [*answered.left_out, *answered.figures][: 2 * MOST_FILES]),
        )

    def _stop_reason(self) -> str:
        limits = self._limits
        match self._stopped:
            case "output":
                return f"The code printed more than {limits.output_bytes} bytes and was stopped. Print less."
            case "files":
                return f"The code made more than {limits.files} files and was stopped. Make fewer."
            case _:
                return f"The code ran longer than {limits.seconds:g} seconds and was stopped. Do less at once."

    def _explain(self, error: str) -> str:
        last = error.rpartition("\n")[2]
        if last.startswith("MemoryError"):
            return f"{error}\nThe code may use {self._limits.memory_bytes >> 20} MB of memory. Keep less at once."
        if re.match(r"(PermissionError|BlockingIOError|OSError: \[Errno 1\])", last):
            return f"{error}\nThere is no network, no other process, and nothing outside {FOLDER} can be written."
        if last.startswith("ModuleNotFoundError"):
            return f"{error}\nPackages cannot be installed."
        return error


async def _read_bounded(descriptor: int, most: int) -> bytes:
    """Read a pipe to its end, discarding what exceeds `most`, since hostile code holds the other end."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_CHUNK_BYTES)
    file = os.fdopen(descriptor, "rb", buffering=0)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    content = bytearray()
    try:
        while chunk := await reader.read(_CHUNK_BYTES):
            content += chunk[: most - len(content)]
    finally:
        transport.close()
    return bytes(content)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _files_made(pid: int) -> int:
    """Count the files in the sandbox's folder from the host; bwrap itself, and its child at first, see the host's."""
    children = _children(pid)
    if not children or Path(root := f"/proc/{children[0]}/root").samefile("/"):
        return 0
    status = os.statvfs(root + FOLDER)
    return status.f_files - status.f_ffree


def _packages_of(folder: Path | None) -> list[str]:
    if folder is None or not folder.is_dir():
        return []
    names = {path.stem for path in folder.iterdir() if re.fullmatch(r"[a-z]\w*(\.py)?", path.name)}
    return sorted(names)[:50]
