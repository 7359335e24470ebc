"""Artefacts in an S3 bucket, for workers on several hosts, with a directory on each that keeps what was fetched."""

import hashlib
import secrets
from pathlib import Path

from activities.documents.artefacts import (
    ArtefactDamagedError,
    ArtefactError,
    ArtefactMissingError,
    Artefacts,
    ArtefactStore,
)
from activities.documents.sweeping import mark_used
from chargehand.bucket import Bucket, BucketError, bucket_location, open_bucket


class BucketStore:
    """A bucket read through a directory: under a digest nothing ever changes, so nothing is fetched twice."""

    def __init__(self, bucket: Bucket, cache: Path) -> None:
        self._bucket = bucket
        self._directory = cache
        self._cache = ArtefactStore(cache)

    def put(self, content: bytes) -> str:
        digest = hashlib.sha256(content).hexdigest()
        try:
            if self._bucket.size(digest) != len(content):
                self._bucket.put(digest, content)
        except BucketError as error:
            raise ArtefactError(str(error)) from error
        return digest

    def put_file(self, path: Path) -> str:
        return self.put(path.read_bytes())

    def has(self, digest: str) -> bool:
        try:
            self.size(digest)
        except ArtefactMissingError:
            return False
        return True

    def size(self, digest: str) -> int:
        if self._cache.has(digest):
            return self._cache.size(digest)
        try:
            size = self._bucket.size(digest)
        except BucketError as error:
            raise ArtefactError(str(error)) from error
        if size is None:
            return self._cache.size(digest)  # says that it is missing
        return size

    def open(self, digest: str) -> Path:
        if self._cache.has(digest):
            mark_used(self._directory / digest[:2] / digest)
            try:
                return self._cache.open(digest)
            except ArtefactDamagedError:
                (self._directory / digest[:2] / digest).unlink(missing_ok=True)
        self._fetch(digest)
        return self._cache.open(digest)

    def read(self, digest: str) -> bytes:
        return self.open(digest).read_bytes()

    def _fetch(self, digest: str) -> None:
        """Take it into the directory, if it is what its digest says."""
        self._directory.mkdir(parents=True, exist_ok=True)
        draft = self._directory / f".draft-{secrets.token_hex(8)}"
        try:
            with draft.open("xb") as file:
                found = self._bucket.fetch(digest, file)
            if found and self._cache.put_file(draft) != digest:
                raise ArtefactDamagedError(
                    f"what is stored under {digest} is damaged: delete that object and upload it again"
                )
        except BucketError as error:
            raise ArtefactError(str(error)) from error
        finally:
            draft.unlink(missing_ok=True)


def open_artefacts(location: Path | str, cache: Path) -> Artefacts:
    """Open a directory, or `s3://bucket/prefix` with a directory for what is fetched. Raises `BucketError`."""
    if bucket := bucket_location(location):
        return BucketStore(open_bucket(bucket), cache)
    return ArtefactStore(Path(location))
