"""Storage of bytes under their SHA-256, in a directory or bucket that clients write to and workers read from.

With a key, content is stored encrypted and read into memory as a whole; without one, a directory streams it.
"""

import hashlib
import io
import os
import re
import secrets
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from activities.documents.cleanup import mark_used
from chargehand.bucket import Bucket, Directory, artifact_key, bucket_location, open_bucket
from chargehand.errors import BucketError
from chargehand.payloads.at_rest import open_stored, require_plain, store_content
from chargehand.payloads.encryption import Encryption
from chargehand.payloads.errors import ProtectionError

_T = TypeVar("_T")

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_MOST_SIZES: Final = 100_000


class ArtifactError(Exception):
    """An artifact cannot be used: it is missing, damaged, or locked by a key that this worker does not have."""


class ArtifactStore:
    """A directory of files named by their content: `<root>/<first two hex digits>/<sha256>`. Its methods block."""

    def __init__(self, root: Path, encryption: Encryption | None = None) -> None:
        self._root = root
        self._files = Directory(root)
        self._encryption = encryption
        self._sizes: dict[str, int] = {}

    def put(self, content: bytes) -> str:
        """Store bytes and return their digest; storing the same bytes again changes nothing."""
        with _explain_errors():
            digest = store_content(self._files, self._encryption, content)
        mark_used(self._path(digest))
        return digest

    def put_file(self, path: Path) -> str:
        """Store a file's bytes and return their digest."""
        if self._encryption:
            return self.put(path.read_bytes())
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            if self.has(digest):
                return self.put(path.read_bytes())
            file.seek(0)
            self._files.copy(artifact_key(digest), file)
        return digest

    def has(self, digest: str) -> bool:
        """Whether something is stored under this digest; its content is not checked."""
        return self._path(digest).is_file()

    def size(self, digest: str) -> int:
        """Return the size in bytes of the content under this digest. Raises `ArtifactError`."""
        try:
            stored = self._path(digest).stat().st_size
            mark_used(self._path(digest))
        except OSError as error:
            raise _missing(digest) from error
        if not self._encryption:
            return stored
        # Needed at every tool call, and encrypted content has to be decrypted to be measured.
        if (size := self._sizes.get(digest)) is None:
            if len(self._sizes) >= _MOST_SIZES:
                self._sizes.clear()
            size = self._sizes[digest] = len(self.read(digest))
        return size

    def open(self, digest: str, copy_to: Path) -> Path:
        """Return the path of the verified content on this machine. Raises `ArtifactError`.

        The path is that of the stored file or, if the content had to be decrypted, `copy_to`: only this user can read
        that copy, and the caller removes it.
        """
        if self._encryption:
            content = self.read(digest)
            with os.fdopen(os.open(copy_to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as private:
                private.write(content)
            return copy_to
        path = self._path(digest)
        try:
            with path.open("rb") as file:
                start = file.read(16)
                file.seek(0)
                actual_digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise _missing(digest) from error
        if actual_digest != digest:
            with _explain_errors():
                require_plain(digest, start)
            raise _damage_error(digest)
        return path

    def read(self, digest: str) -> bytes:
        """Return the verified content. Raises `ArtifactError`."""
        try:
            stored = self._path(digest).read_bytes()
            mark_used(self._path(digest))
        except OSError as error:
            raise _missing(digest) from error
        return _verify(self._encryption, digest, stored)

    def _path(self, digest: str) -> Path:
        if not _DIGEST.fullmatch(digest):
            raise ArtifactError("a digest is 64 hexadecimal digits in lower case")
        return self._root / digest[:2] / digest


class BucketStore:
    """A bucket with a cache directory. The content of a digest never changes, so it is fetched once."""

    def __init__(self, bucket: Bucket, cache: Path, encryption: Encryption | None = None) -> None:
        self._bucket = bucket
        self._directory = cache
        self._cache = ArtifactStore(cache, encryption)
        self._encryption = encryption

    def put(self, content: bytes) -> str:
        with _explain_errors():
            return store_content(self._bucket, self._encryption, content)

    def put_file(self, path: Path) -> str:
        return self.put(path.read_bytes())

    def has(self, digest: str) -> bool:
        return self._cache.has(digest) or self._size_there(digest) is not None

    def size(self, digest: str) -> int:
        if not self._cache.has(digest):
            size = self._size_there(digest)
            if size is None:
                return self._cache.size(digest)  # raises if it is missing
            if not self._encryption:
                return size
            # Encrypted content has to be decrypted to be measured.
        return self._from_cache(digest, lambda: self._cache.size(digest))

    def open(self, digest: str, copy_to: Path) -> Path:
        return self._from_cache(digest, lambda: self._cache.open(digest, copy_to))

    def read(self, digest: str) -> bytes:
        return self._from_cache(digest, lambda: self._cache.read(digest))

    def _size_there(self, digest: str) -> int | None:
        with _explain_errors():
            return self._bucket.size(artifact_key(digest))

    def _from_cache(self, digest: str, take: Callable[[], _T]) -> _T:
        """Read from the cache; fetch again if the cached copy is damaged."""
        path = self._directory / digest[:2] / digest
        if self._cache.has(digest):
            mark_used(path)
            try:
                return take()
            except ArtifactError:
                path.unlink(missing_ok=True)
        self._fetch(digest)
        return take()

    def _fetch(self, digest: str) -> None:
        """Fetch into the cache, if the content matches its digest."""
        with _explain_errors():
            if not self._encryption:
                self._fetch_file(digest)
                return
            stored = io.BytesIO()
            if self._bucket.fetch(artifact_key(digest), stored):
                self._cache.put(_verify(self._encryption, digest, stored.getvalue()))

    def _fetch_file(self, digest: str) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        draft = self._directory / f".draft-{secrets.token_hex(8)}"
        try:
            with draft.open("xb") as file:
                is_stored = self._bucket.fetch(artifact_key(digest), file)
            if is_stored and self._cache.put_file(draft) != digest:
                with draft.open("rb") as file:
                    require_plain(digest, file.read(16))
                raise _damage_error(digest)
        finally:
            draft.unlink(missing_ok=True)


Artifacts: TypeAlias = ArtifactStore | BucketStore
"""Both have the same methods."""


def open_artifacts(location: Path | str, cache: Path, encryption: Encryption | None = None) -> Artifacts:
    """Open a directory, or a bucket with a cache directory. Raises `BucketError`."""
    if bucket := bucket_location(location):
        return BucketStore(open_bucket(bucket), cache, encryption)
    return ArtifactStore(Path(location), encryption)


def _missing(digest: str) -> ArtifactError:
    return ArtifactError(
        f"nothing is stored under {digest}: upload it to the place from which this worker reads artifacts"
    )


def _damage_error(digest: str) -> ArtifactError:
    return ArtifactError(f"the content stored under {digest} is damaged: delete it and upload it again")


def _verify(encryption: Encryption | None, digest: str, stored: bytes) -> bytes:
    """Decrypt and verify stored bytes. Raises `ArtifactError`."""
    with _explain_errors():
        content = open_stored(encryption, digest, stored)
    if content is None:
        raise _damage_error(digest)
    return content


@contextmanager
def _explain_errors() -> Generator[None]:
    """Raise `ArtifactError` for a bucket that cannot be used, or content encrypted with a different key."""
    try:
        yield
    except BucketError as error:
        raise ArtifactError(str(error)) from error
    except ProtectionError as error:
        raise ArtifactError(str(error).rstrip(".")) from error
