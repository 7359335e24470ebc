"""A git repository, read in a limited process, since hostile objects can crash readers."""

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from activities.processes.child import ChildError, ChildProcess
from chargehand_plugins.code_review.diff import ChangedFile, parse_diff

_PROCESS: Final = f"{__package__}.repository"
_STARTING_SECONDS: Final = 60
_PROCESSOR_SECONDS: Final = 20
_SECONDS: Final = 60
"""Maximum wall-clock seconds, on a busy machine."""


class RepositoryError(Exception):
    """A repository cannot be read; the message says why."""


@dataclass(frozen=True)
class PastCommit:
    id: str
    author: str
    subject: str
    seconds: int
    """Commit time in seconds since 1970."""
    note: str = ""
    """Text added by `git notes`."""


class RepositoryReader:
    """The process that reads repositories, one question at a time. Close it after use."""

    def __init__(self) -> None:
        self._child = ChildProcess(_PROCESS)
        self._is_started = False
        self._asking = asyncio.Lock()

    async def ask(self, **question: Any) -> dict[str, Any]:
        async with self._asking:
            try:
                if not self._is_started:
                    # The start of the process does not count towards the question's time.
                    await self._child.ask({}, _STARTING_SECONDS)
                    self._is_started = True
                answer = await self._child.ask({**question, "processor_seconds": _PROCESSOR_SECONDS}, _SECONDS)
            except ChildError as error:
                self._is_started = False
                raise RepositoryError("it takes more time or memory to read than a repository may") from error
            except BaseException:
                # Otherwise, a late answer would be taken for the answer to the next question.
                await self.close()
                raise
        if problem := answer.get("problem"):
            raise RepositoryError(problem)
        return answer

    async def close(self) -> None:
        self._is_started = False
        await self._child.close()


@dataclass(frozen=True)
class GitFolder:
    """A repository in a folder. Its methods raise `RepositoryError`."""

    folder: Path
    reader: RepositoryReader

    async def head(self) -> str:
        return (await self._ask("head"))["id"]

    async def change(self) -> tuple[ChangedFile, ...]:
        with tempfile.TemporaryDirectory(prefix="chargehand-diff-") as folder:
            result = Path(folder, "diff")
            await self._ask("diff", result=str(result))
            return await asyncio.to_thread(lambda: parse_diff(result.read_bytes().decode(errors="replace")))

    async def read(self, path: str) -> str | None:
        return (await self._ask("read", path=path))["text"]

    async def history(self, path: str, most: int) -> list[PastCommit]:
        return [PastCommit(**commit) for commit in (await self._ask("history", path=path, most=most))["commits"]]

    async def _ask(self, what: str, **more: Any) -> dict[str, Any]:
        return await self.reader.ask(ask=what, folder=str(self.folder), **more)
