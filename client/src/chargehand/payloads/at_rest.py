"""Files in directories and buckets, which are encrypted if there is a key.

Artifacts are named by the SHA-256 of their plain content, which keeps references unchanged when the key changes.
Unreadable or forbidden content raises an error of `payloads/errors.py`.
"""

import hashlib
import io
from dataclasses import dataclass

from chargehand.bucket import Bucket, artifact_key
from chargehand.payloads.encryption import Encryption, looks_sealed
from chargehand.payloads.errors import ProtectionError, SealBroken


def open_stored(encryption: Encryption | None, digest: str, stored: bytes) -> bytes | None:
    """Return the content stored under a digest; None if it does not match the digest."""
    if encryption is None:
        content = stored
    elif looks_sealed(stored):
        content = encryption.open(stored)
    elif encryption.accept_plain:
        content = stored
    else:
        raise ProtectionError(
            f"The artifact {digest} is not encrypted, and is therefore refused. Upload it again with the keys set, "
            "or set CHARGEHAND_ENCRYPTION_ACCEPT_PLAIN while you are introducing encryption."
        )
    if hashlib.sha256(content).hexdigest() == digest:
        return content
    if encryption is None:
        require_plain(digest, stored)
    return None


def store_content(files: Bucket, encryption: Encryption | None, content: bytes) -> str:
    """Store content under its digest unless it is already stored; return the digest."""
    digest = hashlib.sha256(content).hexdigest()
    size = files.size(artifact_key(digest))
    if size is not None and (encryption or size != len(content)):
        stored = io.BytesIO()
        files.fetch(artifact_key(digest), stored)
        if encryption is None:
            require_plain(digest, stored.getvalue())
        elif _is_kept(encryption, digest, stored.getvalue()):
            return digest
    elif size is not None:
        return digest
    files.put(artifact_key(digest), encryption.seal(content) if encryption else content)
    return digest


def _is_kept(encryption: Encryption, digest: str, stored: bytes) -> bool:
    try:
        return looks_sealed(stored) and open_stored(encryption, digest, stored) is not None
    except ProtectionError:
        return False


def require_plain(digest: str, start: bytes) -> None:
    """Refuse encrypted content if there are no keys, so that plain content never replaces it."""
    if looks_sealed(start):
        raise ProtectionError(
            f"The artifact {digest} is encrypted: set CHARGEHAND_ENCRYPTION_KEYS and "
            "CHARGEHAND_ENCRYPTION_KEY_ID here too."
        )


@dataclass(frozen=True)
class SealedFiles:
    """Small files by key, encrypted for one purpose. Methods block and raise `OSError` or `ChargehandError`."""

    files: Bucket
    encryption: Encryption | None
    purpose: str

    def add(self, key: str, content: bytes) -> bool:
        """Store a file if the key is free; return whether it was stored."""
        return self.files.put_new(key, self._seal(content))

    def put(self, key: str, content: bytes) -> None:
        """Store a file, replacing any existing one."""
        self.files.put(key, self._seal(content))

    def read(self, key: str) -> bytes | None:
        """Return the content of a file; None if it does not exist."""
        stored = io.BytesIO()
        if not self.files.fetch(key, stored):
            return None
        content = stored.getvalue()
        if self.encryption and (looks_sealed(content) or not self.encryption.accept_plain):
            return self.encryption.open(content, self.purpose)
        if looks_sealed(content):
            raise SealBroken("it is encrypted, and no keys are set here")
        return content

    def _seal(self, content: bytes) -> bytes:
        return self.encryption.seal(content, self.purpose) if self.encryption else content
