"""Finds the files of a session's document URIs, and reads nothing outside the folders the operator allows."""

import asyncio
import json
import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import unquote

from activities.documents.artifacts import ArtifactError, Artifacts
from activities.documents.downloads import Download, Downloads
from activities.documents.safe_open import Beneath, locate, open_below, walk_below
from chargehand.upload import MANIFEST_FORMAT, MOST_FILES, SKIPPED_FOLDERS

_MOST_SKIPPED: Final = 200
_ASKED_AT_ONCE: Final = 16
_ELSEWHERE: Final = "It is outside the folders that the operator allows: upload it, or have its folder allowed."
_NO_WEB: Final = "This worker reads no documents from the web: upload it."
_NONE: Final[Mapping[str, Download | str]] = {}


_NO_TEXT: Final = re.compile("[\ud800-\udfff]")
"""Lone surrogates, from names that are not UTF-8; indexes and reports cannot store them."""


@dataclass(frozen=True)
class DocumentFile:
    """A file of a session."""

    name: str
    """Relative path, unique in the session."""
    bytes: int
    identity: str
    """A value that changes whenever the content may have changed."""
    place: Beneath | None = None
    """The file's location, if it is below an allowed folder."""
    digest: str = ""
    """The SHA-256 of an artifact."""
    problem: str = ""
    """Why it cannot be read."""


@dataclass
class Listing:
    """All files of a session."""

    files: list[DocumentFile] = field(default_factory=list[DocumentFile])
    skipped: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class DocumentSources:
    """Resolves `artifact:` and `file:` URIs and, if `downloads` is given, `https:` URIs."""

    artifacts: Artifacts
    allowed_roots: tuple[Path, ...] = ()
    downloads: Downloads | None = None

    async def find(self, documents: tuple[str, ...]) -> Listing:
        """Download the documents from the web, and list all files."""
        urls = [uri for uri in documents if uri.startswith("https:")] if self.downloads else []
        fetched = await self.downloads.fetch_all(urls) if self.downloads and urls else _NONE
        return await asyncio.to_thread(self.list, documents, fetched)

    def list(self, documents: Iterable[str], downloads: Mapping[str, Download | str] = _NONE) -> Listing:
        """List the files of these URIs. A file that cannot be found is listed with its problem."""
        listing = Listing()
        used_names: set[str] = set()
        for uri in documents:
            for file, folder in self._files(uri, downloads, listing):
                if len(listing.files) >= MOST_FILES:
                    listing.skipped.append(f"{file.name}: a session reads {MOST_FILES:,} files at most")
                    continue
                name = _unique_name(_as_text(file.name), _as_text(folder), used_names)
                used_names.add(name)
                listing.files.append(replace(file, name=name))
        listing.skipped[:] = map(_as_text, listing.skipped)
        if len(listing.skipped) > _MOST_SKIPPED:
            more = len(listing.skipped) - _MOST_SKIPPED
            listing.skipped[_MOST_SKIPPED:] = [f"{more:,} more files: left out as well"]
        return listing

    def fetch(self, file: DocumentFile, copy_to: Path) -> Path:
        """Return a private path with the file's content. Raises `ArtifactError` or `OSError`."""
        if file.place is None:
            return self.artifacts.open(file.digest, copy_to)
        # Since it was listed, it may have been replaced by a link or pipe, or a folder above it by a link.
        descriptor = open_below(file.place)
        with os.fdopen(descriptor, "rb") as source:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError("not a regular file")
            with copy_to.open("xb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
        return copy_to

    def _files(
        self, uri: str, downloads: Mapping[str, Download | str], listing: Listing
    ) -> Iterator[tuple[DocumentFile, str]]:
        """List the files of one URI, each with the name of its uploaded or local folder."""
        scheme, _, rest = uri.partition(":")
        if scheme == "artifact":
            digest, _, name = rest.partition("/")
            name = unquote(name)
            if name.endswith("/"):
                yield from self._manifest_files(digest, name, listing)
            else:
                yield self._artifact(name, digest), ""
        elif scheme == "file":
            yield from self._local_files(rest, listing)
        elif scheme == "https":
            yield _document_of(uri, downloads.get(uri, _NO_WEB)), ""
        else:
            yield _missing(uri, "Documents are named by `artifact:`, `file:` or `https:` URIs."), ""

    def _artifact(self, name: str, digest: str) -> DocumentFile:
        clean = _clean_name(name)
        if clean is None:
            return _missing(name, "Its name is not a relative path.")
        try:
            return DocumentFile(clean, self.artifacts.size(digest), digest, digest=digest)
        except ArtifactError as error:
            return _missing(clean, f"It was not found: {error}.")

    def _manifest_files(self, digest: str, folder: str, listing: Listing) -> Iterator[tuple[DocumentFile, str]]:
        try:
            manifest = json.loads(self.artifacts.read(digest))
            entries = [(str(entry["name"]), str(entry["sha256"])) for entry in manifest["files"][: MOST_FILES + 1]]
            skipped = [f"{entry['name']}: {entry['reason']}" for entry in manifest.get("skipped", ())]
            is_manifest = manifest["format"] == MANIFEST_FORMAT
        except ArtifactError as error:
            yield _missing(folder, f"The folder was not found: {error}."), ""
            return
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            is_manifest = False
            entries, skipped = [], []
        if not is_manifest:
            yield _missing(folder, "The upload of this folder has no list of files: upload it again."), ""
            return
        listing.skipped.extend(skipped)
        # Each may be a request to a bucket.
        with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
            for file in pool.map(self._artifact, *zip(*entries, strict=True)) if entries else ():
                yield file, folder.strip("/")

    def _local_files(self, location: str, listing: Listing) -> Iterator[tuple[DocumentFile, str]]:
        if location.startswith("//"):
            location = location.removeprefix("//").removeprefix("localhost")
        location = unquote(location)
        # A missing file and a forbidden one get the same answer, so that requests cannot probe for files.
        place = locate(location, self.allowed_roots)
        if place is None:
            yield _missing(PurePosixPath(location).name or "document", _ELSEWHERE), ""
            return
        try:
            descriptor = open_below(place)
            try:
                status = os.fstat(descriptor)
            finally:
                os.close(descriptor)
            if stat.S_ISDIR(status.st_mode):
                yield from self._folder_files(place, listing)
            else:
                yield _local(place, place.path.name, status), ""
        except OSError:
            yield _missing(place.path.name, "It cannot be read: it is gone, or the worker has no permission."), ""

    def _folder_files(self, folder: Beneath, listing: Listing) -> Iterator[tuple[DocumentFile, str]]:
        for entry in walk_below(folder, SKIPPED_FOLDERS):
            name = "/".join(entry.parts)
            if entry.is_regular:
                yield _local(folder.below(*entry.parts), name, entry.status), folder.path.name
            else:
                listing.skipped.append(f"{name}: not a regular file")


def _local(place: Beneath, name: str, status: os.stat_result) -> DocumentFile:
    if not stat.S_ISREG(status.st_mode):
        return _missing(name, "It is not a regular file.")
    identity = f"{place.path}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"
    return DocumentFile(name, status.st_size, identity, place=place)


def _document_of(url: str, download: Download | str) -> DocumentFile:
    if isinstance(download, str):
        return _missing(PurePosixPath(url.partition("?")[0]).name, download)
    return DocumentFile(download.name, download.bytes, download.digest, digest=download.digest)


def _missing(name: str, problem: str) -> DocumentFile:
    return DocumentFile(name.strip("/")[:200] or "document", 0, f"lost:{problem}", problem=problem)


def _clean_name(name: str) -> str | None:
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or any(not character.isprintable() for character in name):
        return None
    return "/".join(parts)


def _as_text(name: str) -> str:
    return _NO_TEXT.sub("\ufffd", name)


def _unique_name(name: str, folder: str, taken: set[str]) -> str:
    """Make a name unique by adding its folder and then a number, if another file already has the name."""
    if name not in taken:
        return name
    longer = f"{folder}/{name}" if folder else name
    candidate = longer
    number = 2
    while candidate in taken:
        path = PurePosixPath(longer)
        candidate = str(path.with_name(f"{path.stem} ({number}){path.suffix}"))
        number += 1
    return candidate
