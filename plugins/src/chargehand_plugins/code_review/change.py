"""The change that a session reviews, from a diff among its documents or a git repository."""

import asyncio
import os
import tempfile
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import unquote

from activities.documents.artifacts import ArtifactError
from activities.documents.library import DocumentLibrary
from activities.documents.locations import DocumentFile, DocumentSources
from activities.documents.safe_open import locate
from chargehand_plugins.code_review.comments import PastComment, comments_in
from chargehand_plugins.code_review.diff import MOST_BYTES, ChangedFile, parse_diff
from chargehand_plugins.code_review.git_folder import GitFolder, RepositoryError, RepositoryReader

_DIFFS: Final = (".diff", ".patch")
_SARIF: Final = (".sarif",)
_EXPORTS: Final = (".json",)
_KEPT: Final = 4


class NoChangeError(Exception):
    """There is nothing to review; the message says why."""


@dataclass(frozen=True)
class Change:
    files: tuple[ChangedFile, ...]
    repository: GitFolder | None = None
    """Its repository, if readable."""
    dismissed: tuple[str, ...] = ()
    """SARIF documents of earlier reviews."""
    comments: tuple[PastComment, ...] = ()
    """Comments of earlier reviews, newest first."""

    def file(self, path: str) -> ChangedFile | None:
        return next((file for file in self.files if file.path == path), None)


class ChangeReader:
    """Reads changes and caches the latest. Close it after use."""

    def __init__(self, library: DocumentLibrary) -> None:
        self._sources = library.sources
        self._repositories = RepositoryReader()
        self._reading = asyncio.Lock()
        self._known: OrderedDict[tuple[tuple[str, str], ...], Change] = OrderedDict()

    async def read(self, documents: tuple[str, ...]) -> Change:
        """Read the change of a session.

        Raises:
            NoChangeError: its documents have none.
        """
        listing = await self._sources.find(documents)
        files = [file for file in listing.files if _is_of(file, (*_DIFFS, *_SARIF, *_EXPORTS)) and not file.problem]
        repository, head, problem = await self._find_repository(documents)
        key = (*((file.name, file.identity) for file in files), (str(repository and repository.folder), head))
        async with self._reading:
            if key not in self._known:
                self._known[key] = await self._read(files, repository, problem)
            self._known.move_to_end(key)
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)
            return self._known[key]

    async def close(self) -> None:
        await self._repositories.close()

    async def _read(self, files: list[DocumentFile], repository: GitFolder | None, problem: str) -> Change:
        diffs = [await asyncio.to_thread(_text, self._sources, file) for file in files if _is_of(file, _DIFFS)]
        changed = await asyncio.to_thread(parse_diff, *diffs)
        if not any(_is_of(file, _DIFFS) for file in files) and repository is not None:
            try:
                changed = await repository.change()
            except RepositoryError as error:
                problem = str(error)
        if not changed:
            reason = problem or "they have no lines that a change adds or removes"
            raise NoChangeError(f"The documents are neither a .diff or .patch file nor a git repository: {reason}.")
        dismissed = [await asyncio.to_thread(_text, self._sources, file) for file in files if _is_of(file, _SARIF)]
        exports = [file for file in files if _is_of(file, _EXPORTS) and file.bytes <= MOST_BYTES]
        comments = await asyncio.to_thread(
            lambda: [each for file in exports for each in comments_in(_text(self._sources, file))]
        )
        return Change(changed, repository, tuple(dismissed), tuple(comments))

    async def _find_repository(self, documents: tuple[str, ...]) -> tuple[GitFolder | None, str, str]:
        """Find the first repository among the documents, and its HEAD; or explain why there is none."""
        problem = ""
        for folder in await asyncio.to_thread(_git_folders, documents, self._sources.allowed_roots):
            repository = GitFolder(folder, self._repositories)
            try:
                return repository, await repository.head(), ""
            except RepositoryError as error:
                problem = str(error)
        return None, "", problem


def is_of_review(name: str) -> bool:
    """Whether a document is read by reviewers' tools, even if it has no searchable words."""
    return PurePosixPath(name).suffix.lower() in {*_DIFFS, *_SARIF, *_EXPORTS}


def _is_of(file: DocumentFile, suffixes: tuple[str, ...]) -> bool:
    return PurePosixPath(file.name).suffix.lower() in suffixes


def _text(sources: DocumentSources, file: DocumentFile) -> str:
    if file.bytes > MOST_BYTES:
        raise NoChangeError(f"{file.name} has more than {MOST_BYTES >> 20} MB")
    with tempfile.TemporaryDirectory(prefix="chargehand-diff-") as folder:
        try:
            return sources.fetch(file, Path(folder) / "document").read_bytes().decode(errors="replace")
        except (ArtifactError, OSError) as error:
            raise NoChangeError(f"{file.name} cannot be read") from error


def _git_folders(documents: tuple[str, ...], roots: tuple[Path, ...]) -> list[Path]:
    """List the documents' folders with a repository below an allowed folder."""
    schemes = (uri.partition(":") for uri in documents)
    places = [locate(unquote(location), roots) for scheme, _, location in schemes if scheme == "file"]
    return [place.path for place in places if place is not None and os.path.lexists(place.path / ".git")]
