"""The change that a session reviews: of a diff among its documents, or of a git repository that it names."""

import asyncio
import os
import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from activities.code_review.diff import MOST_BYTES, ChangedFile, parse_diff
from activities.documents.artifacts import ArtifactError
from activities.documents.library import DocumentLibrary
from activities.documents.locations import DocumentSources, Found
from activities.documents.safe_open import locate

if TYPE_CHECKING:
    from activities.code_review.repository import Repository

_DIFFS: Final = (".diff", ".patch")
_SARIF: Final = (".sarif",)
_KEPT: Final = 4


class NoChangeError(Exception):
    """There is nothing to review; the message says why."""


@dataclass(frozen=True)
class Change:
    """What is reviewed."""

    files: tuple[ChangedFile, ...]
    repository: "Repository | None" = None
    """What it belongs to, if that can be read."""
    dismissed: tuple[str, ...] = ()
    """SARIF documents of earlier reviews."""

    def file(self, path: str) -> ChangedFile | None:
        """Find a changed file."""
        return next((file for file in self.files if file.path == path), None)


class ChangeReader:
    """Reads changes, and keeps the last of them."""

    def __init__(self, library: DocumentLibrary) -> None:
        self._sources = library.sources
        self._known: OrderedDict[tuple[tuple[str, str], ...], Change] = OrderedDict()

    async def read(self, documents: tuple[str, ...]) -> Change:
        """Read the change of a session.

        Raises:
            NoChangeError: its documents have none.
        """
        listing = await self._sources.find(documents)
        files = [file for file in listing.files if _is_of(file, (*_DIFFS, *_SARIF)) and not file.problem]
        return await asyncio.to_thread(self._read, documents, files)

    def _read(self, documents: tuple[str, ...], files: list[Found]) -> Change:
        repository, problem = _open_repository(documents, self._sources)
        key = (*((file.name, file.identity) for file in files), ("HEAD", repository.id if repository else ""))
        if key not in self._known:
            diffs = [file for file in files if _is_of(file, _DIFFS)]
            changed = tuple(_merged(file for diff in diffs for file in parse_diff(_text(self._sources, diff))))
            if not diffs and repository is not None:
                changed = repository.change()
            if not changed:
                reason = problem or "they have no lines that a change adds or removes"
                raise NoChangeError(f"The documents are neither a .diff or .patch file nor a git repository: {reason}.")
            dismissed = tuple(_text(self._sources, file) for file in files if _is_of(file, _SARIF))
            self._known[key] = Change(changed, repository, dismissed)
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return self._known[key]


def is_of_review(name: str) -> bool:
    """Whether a document is for the tools of reviewers, even if no words of it can be searched."""
    return PurePosixPath(name).suffix.lower() in {*_DIFFS, *_SARIF}


def _is_of(file: Found, suffixes: tuple[str, ...]) -> bool:
    return PurePosixPath(file.name).suffix.lower() in suffixes


def _merged(files: Iterator[ChangedFile]) -> Iterator[ChangedFile]:
    lines: dict[str, list[ChangedFile]] = {}
    for file in files:
        lines.setdefault(file.path, []).append(file)
    for path, parts in lines.items():
        yield ChangedFile(path, tuple(line for part in parts for line in part.lines))


def _text(sources: DocumentSources, file: Found) -> str:
    if file.bytes > MOST_BYTES:
        raise NoChangeError(f"{file.name} has more than {MOST_BYTES >> 20} MB")
    with tempfile.TemporaryDirectory(prefix="chargehand-diff-") as folder:
        try:
            return sources.fetch(file, Path(folder) / "document").read_bytes().decode(errors="replace")
        except (ArtifactError, OSError) as error:
            raise NoChangeError(f"{file.name} cannot be read") from error


def _open_repository(documents: tuple[str, ...], sources: DocumentSources) -> "tuple[Repository | None, str]":
    """Open the first repository that the documents name below an allowed folder; or say why there is none."""
    from activities.code_review.repository import Repository, RepositoryError  # half a second, for reviews only

    problem = ""
    for uri in documents:
        scheme, _, location = uri.partition(":")
        place = locate(unquote(location), sources.allowed_roots) if scheme == "file" else None
        if place is None or not os.path.lexists(place.path / ".git"):
            continue
        try:
            return Repository(place.path), ""
        except RepositoryError as error:
            problem = str(error)
    return None, problem
