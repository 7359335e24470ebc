"""Download the files created by agents' tools from the workers' directory or bucket.

The counterpart of `upload.py`. Names were chosen by tools, so they are sanitized. A missing or
changed file raises `DownloadRefused`.
"""

import io
import re
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from chargehand.bucket import artifact_key, bucket_location, open_folder
from chargehand.contracts import Artifact
from chargehand.errors import ChargehandError, DownloadRefused
from chargehand.payloads.at_rest import open_stored
from chargehand.payloads.encryption import Encryption

_URI: Final = re.compile(r"artifact:([0-9a-f]{64})(?:/.*)?")
_LONGEST_NAME: Final = 100
_MOST_NAME_BYTES: Final = 200
"""File systems allow 255, and temporary names are longer than the file's."""
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
    taken: set[str] = set()
    for artifact in dict.fromkeys(artifacts):
        path = folder / unique_name(safe_name(artifact.name), taken)
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
    """Turn any text into a safe file name: no folder, no control character, no leading dot."""
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
