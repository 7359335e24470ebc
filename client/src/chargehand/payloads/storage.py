"""External storage: payloads above a threshold are stored outside Temporal, which only keeps a reference.

The storage is a directory shared by all clients and workers or, with extras, a bucket of S3 or Google. If encryption is
on, payloads are encrypted before they are stored.
"""

import asyncio
import hashlib
import io
import re
import zlib
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, quote

from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    ExternalStorage,
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverSelectContext,
    StorageDriverStoreContext,
    StorageDriverWorkflowInfo,
)

from chargehand.bucket import Bucket, Directory, artifact_key, bucket_location, open_bucket, sync_folder
from chargehand.errors import BucketError
from chargehand.payloads.encryption import ENCRYPTED, unpack
from chargehand.payloads.errors import ProtectionSettingsError, StoredPayloadDamaged, StoredPayloadMissing

THRESHOLD_BYTES: Final = 32 << 10
"""Payloads of at least this size are stored externally."""
READ_BY_CLIENTS: Final = StorageDriverStoreContext(target=StorageDriverWorkflowInfo(id="", namespace=""))
"""Context of results, responses to queries and updates, and Web UI details, which any client can read."""

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_PLAIN: Final = b"\0"
_COMPRESSED: Final = b"\1"


@dataclass(frozen=True)
class Storage:
    """Where large payloads are stored, and their minimum size."""

    driver: StorageDriver
    threshold_bytes: int = THRESHOLD_BYTES
    results: bool = False
    """Whether payloads for clients are stored too, which requires clients to have this storage."""

    def external(self) -> ExternalStorage:
        return ExternalStorage(
            drivers=[self.driver], driver_selector=self._select, payload_size_threshold=self.threshold_bytes
        )

    def _select(self, context: StorageDriverSelectContext, payload: Payload) -> StorageDriver | None:  # noqa: ARG002  # the SDK's signature
        return self.driver if self.results or context.target is not READ_BY_CLIENTS.target else None


def storage_from_text(
    place: str, namespace: str, threshold_bytes: int = THRESHOLD_BYTES, *, results: bool = False
) -> Storage:
    """Parse a setting: a directory, `gs://BUCKET/PREFIX`, or `s3://BUCKET/PREFIX?region=…&endpoint=…`."""
    if threshold_bytes < 0:
        raise ProtectionSettingsError("CHARGEHAND_STORAGE_THRESHOLD must be a number of bytes, 0 or more.")
    if place.startswith(("s3://", "gs://")):
        return Storage(_bucket(place, namespace), threshold_bytes, results)
    directory = Path(place).expanduser()
    if not directory.is_absolute():  # commands and workers run in different directories
        raise ProtectionSettingsError(
            "CHARGEHAND_STORAGE must be the absolute path of a directory, s3://BUCKET or gs://BUCKET."
        )
    return Storage(PayloadDirectory(directory, namespace), threshold_bytes, results)


class PayloadStore(StorageDriver):
    """Payloads named by their content: `NAMESPACE/ab/abcd…`.

    Reads are verified. Storing a payload again renews the modification time used by `clean` and lifecycle rules.
    """

    def __init__(self, name: str, files: Bucket, place: str) -> None:
        self._name = name
        self._files = files
        self._place = place

    def name(self) -> str:
        """Return the driver name in references."""
        return self._name

    async def store(self, context: StorageDriverStoreContext, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:  # noqa: ARG002  # the SDK's signature
        digests = await asyncio.gather(*(asyncio.to_thread(self._write, payload) for payload in payloads))
        return [StorageDriverClaim(claim_data={"sha256": digest}) for digest in digests]

    async def retrieve(
        self,
        context: StorageDriverRetrieveContext,  # noqa: ARG002  # the SDK's signature
        claims: Sequence[StorageDriverClaim],
    ) -> list[Payload]:
        """Read payloads and verify their content."""
        digests = [claim.claim_data.get("sha256", "") for claim in claims]
        return await asyncio.gather(*(asyncio.to_thread(self._read, digest) for digest in digests))

    def _write(self, payload: Payload) -> str:
        content = payload.SerializeToString(deterministic=True)
        digest = hashlib.sha256(content).hexdigest()
        body = _pack(content, is_encrypted=payload.metadata.get("encoding") == ENCRYPTED)
        with self._usable("written"):
            self._files.put(artifact_key(digest), body)
        return digest

    def _read(self, digest: str) -> Payload:
        if not _DIGEST.fullmatch(digest):
            raise StoredPayloadMissing("of a reference without a digest", self._place)
        stored = io.BytesIO()
        with self._usable("read"):
            found = self._files.fetch(artifact_key(digest), stored)
        if not found:
            raise StoredPayloadMissing(digest, self._place)
        content = _unpack(stored.getvalue())
        if content is None or hashlib.sha256(content).hexdigest() != digest:
            raise StoredPayloadDamaged(digest, self._place)
        return Payload.FromString(content)

    @contextmanager
    def _usable(self, done: str) -> Generator[None]:
        try:
            yield
        except OSError as error:
            problem = error.strerror or type(error).__name__
            raise BucketError(
                f"CHARGEHAND_STORAGE: nothing can be {done} in {self._place}: {problem}. "
                "Check its space and who may use it, or name another place."
            ) from error


class PayloadDirectory(PayloadStore):
    """Payloads as private files, flushed to disk before Temporal gets the reference."""

    def __init__(self, root: Path, namespace: str) -> None:
        self.folder = root / _folder_name(namespace)
        super().__init__("chargehand.directory", Directory(self.folder, is_private=True), str(self.folder))

    def _write(self, payload: Payload) -> str:
        digest = super()._write(payload)
        sync_folder((self.folder / artifact_key(digest)).parent)
        return digest


def _folder_name(namespace: str) -> str:
    return quote(namespace, safe="").replace(".", "%2E") or "default"


def _bucket(place: str, namespace: str) -> PayloadStore:
    """Parse `gs://BUCKET/PREFIX` or `s3://BUCKET/PREFIX?region=…&endpoint=…`."""
    address, _, query = place.partition("?")
    options = {name: values[-1] for name, values in parse_qs(query).items()}
    location = None
    with suppress(BucketError):
        location = bucket_location(address)
    if location is None or not options.keys() <= ({"region", "endpoint"} if location.scheme == "s3" else set()):
        raise ProtectionSettingsError(
            f"CHARGEHAND_STORAGE is gs://BUCKET/PREFIX, or s3://BUCKET/PREFIX with region and endpoint as its query "
            f"where needed, such as s3://sessions?region=eu-central-1; not {place}."
        )
    location = location._replace(prefix=f"{location.prefix}{_folder_name(namespace)}/")
    try:
        return PayloadStore("chargehand.bucket", open_bucket(location, **options), str(location))
    except BucketError as error:
        raise ProtectionSettingsError(f"CHARGEHAND_STORAGE: {error}") from error


def _pack(content: bytes, *, is_encrypted: bool) -> bytes:
    compressed = b"" if is_encrypted else zlib.compress(content, 1)
    return _COMPRESSED + compressed if compressed and len(compressed) < len(content) else _PLAIN + content


def _unpack(body: bytes) -> bytes | None:
    if body[:1] == _PLAIN:
        return body[1:]
    return unpack(body[1:]) if body[:1] == _COMPRESSED else None
