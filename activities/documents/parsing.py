"""Parses documents in a limited child process: the worker itself never parses any untrusted file."""

import asyncio
import shutil
import tempfile
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from activities.documents.formats.registry import Format, format_of
from activities.documents.parsed import Result, read_result
from activities.processes.child import ChildError, ChildProcess, ChildTimeoutError

_FIRST_SECONDS: Final = 7
"""Processor time up to the first piece of a document, and between two pieces."""
_MOST_SECONDS: Final = 30
_SECONDS_A_MEGABYTE: Final = 2
_MOST_IN_A_GROUP: Final = 50
_SMALL_BYTES: Final = 20_000


@dataclass(frozen=True)
class Job:
    """One file to be parsed."""

    format: Format
    name: str
    path: Path
    bytes: int
    number: int
    """Number of the document in its session; part of the names of the files written for it."""


Answer: TypeAlias = tuple[Job, Path | str]
"""The file of a `Result`, or the problem of a document that broke its parser."""


async def parse_in_child(jobs: Iterable[Job], directory: Path) -> AsyncGenerator[list[Answer]]:
    """Parse files in a limited child process, which is restarted after each file that breaks it.

    Small texts are sent in groups; if a group breaks the process, each of its files is tried alone.
    """
    waiting = _groups(jobs)
    if not waiting:
        return
    async with ChildProcess(f"{__package__}.parser_process") as child:
        while waiting:
            group = waiting.popleft()
            seconds = max(_most_seconds(job.bytes) for job in group)
            # Twice the processor time, since the processor may be shared.
            timeout = 2 * seconds + 2
            question = {
                "files": [_question(job, directory) for job in group],
                "first_seconds": _FIRST_SECONDS,
                "most_seconds": seconds,
            }
            try:
                await child.ask(question, timeout)
            except ChildError as error:
                if len(group) > 1:
                    waiting.extendleft([job] for job in reversed(group))
                elif isinstance(error, ChildTimeoutError):
                    yield [(group[0], f"It takes longer than {timeout} s to read: split it.")]
                else:
                    yield [(group[0], "It needs more memory or time than a document may: split it.")]
            else:
                yield [(job, _result_path(job, directory)) for job in group]


@asynccontextmanager
async def parse_alone(name: str, content: bytes) -> AsyncGenerator[Result]:
    """Parse content from outside a session by its name's suffix; the files written exist only within the block."""
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="chargehand-parsed-"))
    try:
        job = Job(format_of(name), name, folder / name, len(content), 0)
        await asyncio.to_thread(job.path.write_bytes, content)
        [[(_, answer)]] = [answers async for answers in parse_in_child([job], folder)]
        yield Result(problem=answer) if isinstance(answer, str) else await asyncio.to_thread(read_result, answer)
    finally:
        await asyncio.shield(asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True))


def _groups(jobs: Iterable[Job]) -> deque[list[Job]]:
    """Group small texts, since a question takes longer than reading one; every other file is alone."""
    groups: deque[list[Job]] = deque()
    small: list[Job] = []
    for job in jobs:
        if job.format.module != "plain_text" or job.bytes > _SMALL_BYTES:
            groups.append([job])
            continue
        if len(small) in {0, _MOST_IN_A_GROUP}:
            groups.append(small := [])
        small.append(job)
    return groups


def _question(job: Job, directory: Path) -> dict[str, str]:
    return {
        "name": job.name,
        "path": str(job.path),
        "tables": str(directory / str(job.number)),
        "result": str(_result_path(job, directory)),
    }


def _result_path(job: Job, directory: Path) -> Path:
    return directory / f"{job.number}.jsonl"


def _most_seconds(size: int) -> int:
    """Return the maximum processor time for a file; a small one that takes long was made to do so."""
    return min(_MOST_SECONDS, _FIRST_SECONDS + _SECONDS_A_MEGABYTE * (size >> 20))
