"""Artifacts in a bucket, for workers on several hosts, with a cache directory on each host."""

import hashlib
import io
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from activities.documents.artifacts import (
    ArtifactError,
    Artifacts,
    ArtifactStore,
    damaged,
    locked_if_protected,
    verified,
)
from activities.documents.cleanup import mark_used
from chargehand.bucket import Bucket, artifact_key, bucket_location, open_bucket
from chargehand.errors import BucketError
from chargehand.payloads.at_rest import is_kept, require_plain
from chargehand.payloads.encryption import Encryption

_T = TypeVar("_T")


class BucketStore:
    """A bucket with a cache directory. The content of a digest never changes, so it is fetched once."""

    def __init__(self, bucket: Bucket, cache: Path, encryption: Encryption | None = None) -> None:
        self._bucket = bucket
        self._directory = cache
        self._cache = ArtifactStore(cache, encryption)
        self._encryption = encryption

    def put(self, content: bytes) -> str:
        digest = hashlib.sha256(content).hexdigest()
        try:
            self._put(digest, content)
        except BucketError as error:
            raise ArtifactError(str(error)) from error
        return digest

    def put_file(self, path: Path) -> str:
        return self.put(path.read_bytes())

    def has(self, digest: str) -> bool:
        return self._cache.has(digest) or self._size_there(digest) is not None

    def size(self, digest: str) -> int:
        if self._cache.has(digest):
            return self._from_cache(digest, lambda: self._cache.size(digest))
        size = self._size_there(digest)
        if size is None:
            return self._cache.size(digest)  # raises that it is missing
        # Encrypted content has to be decrypted to be measured.
        return self._from_cache(digest, lambda: self._cache.size(digest)) if self._encryption else size

    def open(self, digest: str, copy_to: Path) -> Path:
        return self._from_cache(digest, lambda: self._cache.open(digest, copy_to))

    def read(self, digest: str) -> bytes:
        return self._from_cache(digest, lambda: self._cache.read(digest))

    def _put(self, digest: str, content: bytes) -> None:
        size = self._bucket.size(artifact_key(digest))
        if self._encryption is None and size == len(content):
            return
        there = b"" if size is None else self._stored(digest)
        if self._encryption is None:
            with locked_if_protected():
                require_plain(digest, there)
            self._bucket.put(artifact_key(digest), content)
        elif not is_kept(self._encryption, digest, there):
            self._bucket.put(artifact_key(digest), self._encryption.seal(content))

    def _size_there(self, digest: str) -> int | None:
        try:
            return self._bucket.size(artifact_key(digest))
        except BucketError as error:
            raise ArtifactError(str(error)) from error

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
        try:
            if self._encryption:
                if stored := self._stored(digest):
                    self._cache.put(verified(self._encryption, digest, stored))
            else:
                self._fetch_file(digest)
        except BucketError as error:
            raise ArtifactError(str(error)) from error

    def _fetch_file(self, digest: str) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        draft = self._directory / f".draft-{secrets.token_hex(8)}"
        try:
            with draft.open("xb") as file:
                found = self._bucket.fetch(artifact_key(digest), file)
            if found and self._cache.put_file(draft) != digest:
                with draft.open("rb") as file, locked_if_protected():
                    require_plain(digest, file.read(16))
                raise damaged(digest)
        finally:
            draft.unlink(missing_ok=True)

    def _stored(self, digest: str) -> bytes:
        """The stored bytes as they are; empty if there are none."""
        stored = io.BytesIO()
        self._bucket.fetch(artifact_key(digest), stored)
        return stored.getvalue()


def open_artifacts(location: Path | str, cache: Path, encryption: Encryption | None = None) -> Artifacts:
    """Open a directory, or a bucket with a cache directory. Raises `BucketError`."""
    if bucket := bucket_location(location):
        return BucketStore(open_bucket(bucket), cache, encryption)
    return ArtifactStore(Path(location), encryption)
