"""The documents of a session that a piece of code asked for, as files on this host."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from activities.code.protocol import GivenFile
from activities.documents.artifacts import ArtifactError
from activities.documents.locations import DocumentSources, Found

_MOST_BYTES: Final = 20 * 1024 * 1024
_MOST_NAMES: Final = 30


class DocumentsNotGivenError(Exception):
    """The documents cannot be given to the code; the message says why, for the agent."""


@asynccontextmanager
async def given_files(
    sources: DocumentSources, documents: tuple[str, ...], names: Sequence[str]
) -> AsyncGenerator[tuple[GivenFile, ...]]:
    """Lay out the named documents for as long as the block runs. Raises `DocumentsNotGivenError`."""
    if not names:
        yield ()
        return
    listing = await sources.find(documents)
    chosen = _chosen({file.name: file for file in listing.files}, names)
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="chargehand-code-"))
    try:
        yield await asyncio.to_thread(_fetched, sources, chosen, folder)
    finally:
        await asyncio.shield(asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True))


def _chosen(known: dict[str, Found], names: Sequence[str]) -> list[Found]:
    if unknown := [name for name in names if name not in known]:
        there = ", ".join(list(known)[:_MOST_NAMES]) or "none"
        raise DocumentsNotGivenError(f"There is no document '{unknown[0]}'. There are: {there}.")
    chosen = [known[name] for name in dict.fromkeys(names)]
    for file in chosen:
        if file.problem:
            raise DocumentsNotGivenError(f"{file.name} cannot be given to the code. {file.problem}")
    if sum(file.bytes for file in chosen) > _MOST_BYTES:
        raise DocumentsNotGivenError(
            f"Documents for one program may have {_MOST_BYTES // 2**20} MB together: give it fewer."
        )
    return chosen


def _fetched(sources: DocumentSources, chosen: Sequence[Found], folder: Path) -> tuple[GivenFile, ...]:
    given: list[GivenFile] = []
    for number, file in enumerate(chosen):
        try:
            given.append(GivenFile(file.name, sources.fetch(file, folder / str(number))))
        except (ArtifactError, OSError) as error:
            raise DocumentsNotGivenError(f"{file.name} cannot be read any more.") from error
    return tuple(given)
