"""Files shared by clients and workers: documents uploaded by callers, and files created by agents."""

import io
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import Final

from chargehand.bucket import artifact_key, bucket_location, open_folder
from chargehand.contracts import Artifact
from chargehand.errors import ChargehandError, DownloadRefused, UploadRefused
from chargehand.payloads.at_rest import open_stored
from chargehand.payloads.encryption import Encryption
from chargehand.upload import NamedContent, store_documents

Document = str | PathLike[str] | NamedContent
"""A path to a file or folder, a document as its name and bytes, or an address: `https://…`, or the result of an earlier
upload."""

_ADDRESSES: Final = ("https://", "artifact:", "file:/")
_NAME_THE_PLACE: Final = (
    "pass artifacts=… to Chargehand.connect() or set CHARGEHAND_ARTIFACTS to the directory, s3://BUCKET or gs://BUCKET "
    "of the workers."
)


@dataclass(frozen=True)
class SharedFiles:
    """The location of documents and files. Methods block and raise `UploadRefused` or `DownloadRefused`."""

    place: str | None = None
    """A directory, `s3://bucket/prefix` or `gs://bucket/prefix`; None if it is unknown."""
    encryption: Encryption | None = None

    def upload(self, documents: Iterable[Document]) -> tuple[str, ...]:
        """Upload documents and return all addresses; existing addresses are passed through."""
        all_documents = tuple(documents)
        addresses = [each for each in all_documents if isinstance(each, str) and each.startswith(_ADDRESSES)]
        local = [_local(at, each) for at, each in enumerate(all_documents) if each not in addresses]
        if local and self.place is None:
            name = local[0][0] if isinstance(local[0], tuple) else local[0]
            raise UploadRefused(
                f"{name} cannot be uploaded, since it is unknown where the workers read: {_NAME_THE_PLACE}"
            )
        uploaded = store_documents(local, self.place, encryption=self.encryption) if self.place and local else ()
        return tuple(dict.fromkeys((*addresses, *uploaded)))

    def read(self, artifacts: Sequence[Artifact]) -> dict[str, bytes]:
        """Read files into memory under safe and unique names."""
        used_names: set[str] = set()
        place = self._require_place() if artifacts else ""
        return {
            unique_name(safe_name(each.name), used_names): read_artifact(each.uri, place, self.encryption)
            for each in dict.fromkeys(artifacts)
        }

    def download(self, artifacts: Sequence[Artifact], folder: Path) -> dict[str, Path]:
        """Write files into a folder; existing ones are kept."""
        place = self._require_place() if artifacts else ""
        paths: dict[str, Path] = {}
        for each in download_artifacts(artifacts, place, folder, encryption=self.encryption):
            if each.problem:
                raise DownloadRefused(f"{each.path}: {each.problem}")
            paths[each.path.name] = each.path
        return paths

    def _require_place(self) -> str:
        if self.place is None:
            raise DownloadRefused(f"It is unknown where the workers keep files: {_NAME_THE_PLACE}")
        return self.place


def _local(at: int, document: Document) -> Path | NamedContent:
    if isinstance(document, tuple):
        if [type(each) for each in document] == [str, bytes]:
            return document
    elif isinstance(document, str) and "://" in document:
        raise UploadRefused(f"documents[{at}]: {document} cannot be read; pass an https:// address, or name and bytes.")
    elif document != "":
        with suppress(TypeError):
            return Path(document)
    raise UploadRefused(f"documents[{at}]: pass a path, an https:// address, or a pair of name and bytes.")


_URI: Final = re.compile(r"artifact:([0-9a-f]{64})(?:/.*)?")
_LONGEST_NAME: Final = 100
_MOST_NAME_BYTES: Final = 200
"""File systems allow 255 bytes, and temporary names are longer than the file's name."""
_UNUSUAL: Final = re.compile(r"[^\w.() -]+")


@dataclass(frozen=True)
class Downloaded:
    """The result for one file."""

    artifact: Artifact
    path: Path
    problem: str = ""
    """Why it was not downloaded; empty if it was."""


def download_artifacts(
    artifacts: Iterable[Artifact],
    artifact_root: Path | str,
    folder: Path,
    *,
    replace: bool = False,
    encryption: Encryption | None = None,
) -> Iterator[Downloaded]:
    """Write files into a folder one at a time, under safe and unique names.

    An existing file is kept unless `replace` is set; different content is a problem.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DownloadRefused(f"{folder} cannot be used as a folder: {error.strerror}.") from error
    used_names: set[str] = set()
    for artifact in dict.fromkeys(artifacts):
        path = folder / unique_name(safe_name(artifact.name), used_names)
        try:
            _write(path, read_artifact(artifact.uri, artifact_root, encryption), replace=replace)
        except ChargehandError as error:
            yield Downloaded(artifact, path, str(error))
        except OSError as error:
            yield Downloaded(artifact, path, f"It cannot be written: {error.strerror}.")
        else:
            yield Downloaded(artifact, path)


def read_artifact(uri: str, artifact_root: Path | str, encryption: Encryption | None = None) -> bytes:
    """Read a file created by a tool, and check that its content has not changed."""
    if not (match := _URI.fullmatch(uri)):
        raise DownloadRefused(f"{uri!r} is not the address of a file that a tool made.")
    digest = match[1]
    stored = io.BytesIO()
    if not open_folder(artifact_root).fetch(artifact_key(digest), stored):
        raise DownloadRefused(
            f"Nothing is stored under {digest} in {bucket_location(artifact_root) or artifact_root}: name the place "
            "where the session's workers keep files, or restore it from a backup."
        )
    content = open_stored(encryption, digest, stored.getvalue())
    if content is None:
        raise DownloadRefused(f"What is stored under {digest} is damaged: restore it from a backup.")
    return content


def safe_name(name: str) -> str:
    """Turn any text into a safe file name without folders, control characters or a leading dot."""
    last = PurePosixPath(name.replace("\\", "/")).name
    clean = _UNUSUAL.sub("_", last).strip(". ")
    path = PurePosixPath(clean or "file")
    suffix = path.suffix[:12]
    stem = path.stem[: _LONGEST_NAME - len(suffix)].encode()[: _MOST_NAME_BYTES - len(suffix.encode())]
    return stem.decode(errors="ignore").rstrip(". ") + suffix


def unique_name(name: str, taken: set[str]) -> str:
    """Reserve a file name, numbered if it is already taken, ignoring case."""
    path = PurePosixPath(name)
    candidate, number = name, 2
    while candidate.casefold() in taken:
        candidate = f"{path.stem} ({number}){path.suffix}"
        number += 1
    taken.add(candidate.casefold())
    return candidate


def _write(path: Path, content: bytes, *, replace: bool) -> None:
    if replace:
        draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        try:
            draft.write_bytes(content)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
        return
    try:
        with path.open("xb") as file:
            file.write(content)
    except FileExistsError as error:
        if not path.is_file() or path.read_bytes() != content:
            raise DownloadRefused("Another file of this name exists already and was left alone.") from error
