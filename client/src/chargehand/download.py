"""Download the files that agents' tools made, from where the workers keep them: a directory or a bucket.

The counterpart of `upload.py`. What a file is called was decided by a tool, so nothing here takes a name as it comes.
"""

import io
import re
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from chargehand.bucket import BucketLocation, bucket_location, open_bucket
from chargehand.errors import ChargehandError
from chargehand.payloads.at_rest import open_stored

if TYPE_CHECKING:
    from chargehand.contracts import Artifact
    from chargehand.payloads.encryption import Encryption

_URI: Final = re.compile(r"artifact:([0-9a-f]{64})(?:/.*)?")
_LONGEST_NAME: Final = 100
_UNUSUAL: Final = re.compile(r"[^\w.() -]+")


class DownloadRefused(ChargehandError):  # noqa: N818  # reads as a statement: `except DownloadRefused`
    """A file cannot be brought here; the message says why and what to do."""


@dataclass(frozen=True)
class Downloaded:
    """What became of one file."""

    artifact: "Artifact"
    path: Path
    problem: str = ""
    """Why it is not there; empty if it is."""


def download_artifacts(
    artifacts: "Iterable[Artifact]",
    artifact_root: Path | str,
    folder: Path,
    *,
    replace: bool = False,
    encryption: "Encryption | None" = None,
) -> Iterator[Downloaded]:
    """Write files into a folder, one after another, under names that are safe and different from each other.

    A file that is there already is left alone: that is fine if it is the same, and a problem if it is not, unless
    `replace` is set.

    Raises:
        DownloadRefused: the folder cannot be used.
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


def read_artifact(uri: str, artifact_root: Path | str, encryption: "Encryption | None" = None) -> bytes:
    """Read a file that a tool made, and see to it that it is the one.

    Raises:
        DownloadRefused: it is not there, or is not what was stored.
        BucketError: the bucket cannot be used.
        ProtectionError: it cannot be decrypted here.
    """
    if not (match := _URI.fullmatch(uri)):
        raise DownloadRefused(f"{uri!r} is not the address of a file that a tool made.")
    digest = match[1]
    place = bucket_location(artifact_root) or Path(artifact_root)
    stored = _stored(digest, place)
    if stored is None:
        raise DownloadRefused(
            f"Nothing is stored under {digest} in {place}: name the place that the session's workers kept "
            "files in, or have somebody put it back from a backup."
        )
    content = open_stored(encryption, digest, stored)
    if content is None:
        raise DownloadRefused(f"What is stored under {digest} is damaged: put it back from a backup.")
    return content


def safe_name(name: str) -> str:
    """Make a file name that is one, whatever it was: no folder, no control character, no leading dot."""
    last = PurePosixPath(name.replace("\\", "/")).name
    clean = _UNUSUAL.sub("_", last).strip(". ")
    path = PurePosixPath(clean or "file")
    suffix = path.suffix[:12]
    return path.stem[: _LONGEST_NAME - len(suffix)].rstrip(". ") + suffix


def unique_name(name: str, taken: set[str]) -> str:
    """Number a file name that is taken, in whatever case, and take it."""
    path = PurePosixPath(name)
    candidate, number = name, 2
    while candidate.casefold() in taken:
        candidate = f"{path.stem} ({number}){path.suffix}"
        number += 1
    taken.add(candidate.casefold())
    return candidate


def _stored(digest: str, place: BucketLocation | Path) -> bytes | None:
    if isinstance(place, BucketLocation):
        content = io.BytesIO()
        return content.getvalue() if open_bucket(place).fetch(digest, content) else None
    try:
        return (place / digest[:2] / digest).read_bytes()
    except FileNotFoundError:
        return None


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
            raise DownloadRefused("Another file of this name is there already, and was left alone.") from error
