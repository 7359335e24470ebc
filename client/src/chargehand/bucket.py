"""Files in a directory, S3 or Google Cloud Storage, for documents and for large payloads.

The plug-in `buckets` provides the clients of S3 and Google.
"""

import io
import os
import re
import secrets
import shutil
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Protocol, runtime_checkable

from chargehand.errors import BucketError
from chargehand.plugins import PluginError, installed

# `Path` collapses the two slashes of a location into one.
_LOCATION: Final = re.compile(r"([a-z][a-z0-9+.-]*):/{1,2}([a-z0-9][a-z0-9._-]{1,61}[a-z0-9])(?:/(.*))?")
_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]+:/")
_EXTRAS: Final = {"s3": "s3", "gs": "gcs"}
"""The extra that provides the client of a scheme."""


class BucketLocation(NamedTuple):
    """A bucket and the prefix of its keys."""

    scheme: str
    """s3, gs or a plug-in's."""
    bucket: str
    prefix: str
    """Ends with a slash unless empty."""

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}/{self.prefix}"


def bucket_location(location: object) -> BucketLocation | None:
    """Parse `s3://bucket/prefix`, `gs://bucket/prefix` or one with a plug-in's scheme; None for a path.

    Raises:
        BucketError: it is another address.
    """
    match = _LOCATION.fullmatch(str(location))
    if not match or (match[1] not in _EXTRAS and match[1] not in (each.name for each in installed().buckets)):
        if _ADDRESS.match(str(location)):
            raise BucketError(f"{location} is not a directory, s3://BUCKET or gs://BUCKET")
        return None
    prefix = (match.group(3) or "").strip("/")
    return BucketLocation(match.group(1), match.group(2), f"{prefix}/" if prefix else "")


def artifact_key(digest: str) -> str:
    """Return the key of an artifact in a bucket or directory."""
    return f"{digest[:2]}/{digest}"


@runtime_checkable
class Bucket(Protocol):
    """Objects by key below a location's prefix. Methods block, are thread-safe and raise `BucketError`."""

    def size(self, key: str) -> int | None:
        """Return the size of an object in bytes; None if it does not exist."""
        ...

    def put(self, key: str, content: bytes) -> None:
        """Store an object."""
        ...

    def put_new(self, key: str, content: bytes) -> bool:
        """Store an object if the key is free; of concurrent callers, exactly one succeeds and the others get False."""
        ...

    def fetch(self, key: str, target: BinaryIO) -> bool:
        """Write an object's bytes to `target`; False if it does not exist."""
        ...

    def names(self, folder: str) -> Sequence[str]:
        """List the objects `<folder>/<name>` by name."""
        ...


def holds(bucket: Bucket, key: str, content: bytes) -> bool:
    """Return whether an object has this content, as after a request repeated because its response was lost."""
    stored = io.BytesIO()
    return bucket.fetch(key, stored) and stored.getvalue() == content


LARGEST_OBJECT: Final = 128 << 20
"""Bytes; larger than any stored document, file or payload."""
MOST_ANSWER_BYTES: Final = 64_000
"""Maximum bytes read of a response that is not an object, such as an error."""


class BoundedWriter:
    """Writes a bucket's object to a file, up to `LARGEST_OBJECT`."""

    def __init__(self, target: BinaryIO, location: BucketLocation) -> None:
        self._target = target
        self._location = location
        self._room = LARGEST_OBJECT

    def write(self, content: bytes) -> int:
        self._room -= len(content)
        if self._room < 0:
            raise BucketError(f"{self._location} sent more than {LARGEST_OBJECT >> 20} MiB for one object.")
        return self._target.write(content)


class Directory:
    """A bucket on this machine. Files are written atomically; errors are `OSError`."""

    def __init__(self, root: Path, *, is_private: bool = False) -> None:
        self._root = root
        self._is_private = is_private

    def size(self, key: str) -> int | None:
        path = self._root / key
        return path.stat().st_size if path.is_file() else None

    def put(self, key: str, content: bytes) -> None:
        self.copy(key, io.BytesIO(content))

    def copy(self, key: str, source: BinaryIO) -> None:
        """Store the rest of an open file."""
        with self._draft(key, source) as (draft, path):
            draft.replace(path)

    def put_new(self, key: str, content: bytes) -> bool:
        with self._draft(key, io.BytesIO(content)) as (draft, path):
            try:
                path.hardlink_to(draft)
            except FileExistsError:
                return False
        sync_folder(path.parent)
        return True

    @contextmanager
    def _draft(self, key: str, source: BinaryIO) -> Generator[tuple[Path, Path]]:
        """Create a temporary file next to the key's file; yield both paths."""
        path = self._root / key
        mode = 0o700 if self._is_private or _is_in_private(self._root) else 0o777
        if not path.parent.is_dir():
            for folder in (self._root, path.parent):  # `parents` ignores the mode
                folder.mkdir(mode, parents=True, exist_ok=True)
            sync_folder(self._root)
        draft = path.with_name(f".draft-{secrets.token_hex(8)}")
        try:
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode & 0o666), "wb") as file:
                shutil.copyfileobj(source, file)
                file.flush()
                os.fsync(file.fileno())
            yield draft, path
        finally:
            draft.unlink(missing_ok=True)

    def fetch(self, key: str, target: BinaryIO) -> bool:
        try:
            with (self._root / key).open("rb") as file:
                shutil.copyfileobj(file, target)
        except FileNotFoundError:
            return False
        return True

    def names(self, folder: str) -> Sequence[str]:
        entries = (self._root / folder).iterdir() if (self._root / folder).is_dir() else ()
        return sorted(each.name for each in entries if not each.name.startswith("."))


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to disk, so that stored files survive a power failure."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _is_in_private(folder: Path) -> bool:
    """Return whether a folder, or its nearest existing parent, is accessible to its owner only."""
    nearest = next(each for each in (folder, *folder.absolute().parents) if each.is_dir())
    return not nearest.stat().st_mode & 0o077


def open_bucket(location: BucketLocation, **options: str) -> Bucket:
    """Build the client of a bucket without sending a request. S3 takes the options `region` and `endpoint`."""
    try:
        (added,) = (each for each in installed().buckets if each.name == location.scheme)
        added.load_function()
    except (PluginError, ValueError) as error:
        if not (extra := _EXTRAS.get(location.scheme)):
            raise
        raise BucketError(f"{location} needs the extra `{extra}`: pip install 'chargehand[{extra}]'.") from error
    return added.build(Bucket, "bucket", location, **options)


def open_folder(place: Path | str, folder: str = "") -> Bucket:
    """Open a directory or bucket, or a folder of it, without sending a request."""
    if (location := bucket_location(place)) is None:
        return Directory(Path(place) / folder)
    return open_bucket(location._replace(prefix=f"{location.prefix}{folder}/" if folder else location.prefix))
