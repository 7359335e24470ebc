"""External storage: payloads above a threshold are kept elsewhere, and Temporal keeps a reference.

A directory by default, which all clients and workers have to share; buckets of S3 and Google by extras. Payloads are
encrypted before they come here, if they are encrypted at all.
"""

import asyncio
import hashlib
import os
import re
import secrets
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    ExternalStorage,
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
)

from chargehand.payloads.bucket_drivers import bucket_driver
from chargehand.payloads.codec import ENCRYPTED
from chargehand.payloads.errors import ProtectionSettingsError, StoredPayloadDamaged, StoredPayloadMissing

THRESHOLD_BYTES: Final = 32 << 10
"""A payload of this size is stored elsewhere. Most reports are smaller, and all tools of Temporal show those."""

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_PLAIN: Final = b"\0"
_COMPRESSED: Final = b"\1"
_MOST_BYTES: Final = 256 << 20


@dataclass(frozen=True)
class Storage:
    """Where large payloads are stored, and from which size on."""

    driver: StorageDriver
    threshold_bytes: int = THRESHOLD_BYTES

    def external(self) -> ExternalStorage:
        """Build the SDK's external storage."""
        return ExternalStorage(drivers=[self.driver], payload_size_threshold=self.threshold_bytes)


def storage_from_text(place: str, namespace: str, threshold_bytes: int = THRESHOLD_BYTES) -> Storage:
    """Read a setting: a directory, `gs://BUCKET/PREFIX`, or `s3://BUCKET/PREFIX` with `region` and `endpoint` as query.

    Raises:
        ProtectionSettingsError: it is none of them.
    """
    if threshold_bytes < 0:
        raise ProtectionSettingsError("CHARGEHAND_STORAGE_THRESHOLD must be a number of bytes, 0 or more.")
    if place.startswith(("s3://", "gs://")):
        return Storage(bucket_driver(place), threshold_bytes)
    directory = Path(place).expanduser()
    if not directory.is_absolute():  # commands and workers run in different directories
        raise ProtectionSettingsError(
            "CHARGEHAND_STORAGE must be the absolute path of a directory, s3://BUCKET or gs://BUCKET."
        )
    return Storage(PayloadDirectory(directory, namespace), threshold_bytes)


class PayloadDirectory(StorageDriver):
    """Payloads as files named by their content: `ROOT/NAMESPACE/ab/abcd…`.

    A file appears whole or not at all, and is on the disk before Temporal hears of it. What is read is checked. Storing
    something again renews the file's time, by which `clean` goes.
    """

    def __init__(self, root: Path, namespace: str) -> None:
        self.folder = root / (quote(namespace, safe="").replace(".", "%2E") or "default")

    def name(self) -> str:
        """Return the name that references carry."""
        return "chargehand.directory"

    async def store(self, context: StorageDriverStoreContext, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:  # noqa: ARG002  # the SDK's signature
        """Write each payload, and return what finds it again."""
        digests = await asyncio.to_thread(lambda: [self._write(payload) for payload in payloads])
        return [StorageDriverClaim(claim_data={"sha256": digest}) for digest in digests]

    async def retrieve(
        self,
        context: StorageDriverRetrieveContext,  # noqa: ARG002  # the SDK's signature
        claims: Sequence[StorageDriverClaim],
    ) -> list[Payload]:
        """Read each payload and check that it is what was written.

        Raises:
            StoredPayloadMissing: there is no such file.
            StoredPayloadDamaged: it holds something else.
        """
        digests = [claim.claim_data.get("sha256", "") for claim in claims]
        return await asyncio.to_thread(lambda: [self._read(digest) for digest in digests])

    def path(self, digest: str) -> Path:
        """Return the file of a payload."""
        if not _DIGEST.fullmatch(digest):
            raise StoredPayloadMissing("of a reference without a digest", str(self.folder))
        return self.folder / digest[:2] / digest

    def _write(self, payload: Payload) -> str:
        content = payload.SerializeToString(deterministic=True)
        digest = hashlib.sha256(content).hexdigest()
        path = self.path(digest)
        if self._renew(path, digest):
            return digest
        body = _packed(content, is_encrypted=payload.metadata.get("encoding") == ENCRYPTED)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = path.with_name(f".{digest}.{secrets.token_hex(8)}")
        try:
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:  # noqa: PTH123  # pathlib takes no descriptor
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        _sync_folder(path.parent)
        return digest

    def _renew(self, path: Path, digest: str) -> bool:
        """Whether the payload is stored already; renews its time, so that it is kept for longer."""
        try:
            os.utime(path)
            self._read(digest)
        except (OSError, StoredPayloadMissing, StoredPayloadDamaged):
            return False
        return True

    def _read(self, digest: str) -> Payload:
        try:
            body = self.path(digest).read_bytes()
        except FileNotFoundError:
            raise StoredPayloadMissing(digest, str(self.folder)) from None
        content = _unpacked(body)
        if content is None or hashlib.sha256(content).hexdigest() != digest:
            raise StoredPayloadDamaged(digest, str(self.folder))
        return Payload.FromString(content)


def _packed(content: bytes, *, is_encrypted: bool) -> bytes:
    compressed = b"" if is_encrypted else zlib.compress(content, 1)
    return _COMPRESSED + compressed if compressed and len(compressed) < len(content) else _PLAIN + content


def _unpacked(body: bytes) -> bytes | None:
    if body[:1] == _PLAIN:
        return body[1:]
    if body[:1] != _COMPRESSED:
        return None
    unpacking = zlib.decompressobj()
    try:
        content = unpacking.decompress(body[1:], _MOST_BYTES)
    except zlib.error:
        return None
    return content if unpacking.eof else None


def _sync_folder(folder: Path) -> None:
    """Flush the directory entry to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
