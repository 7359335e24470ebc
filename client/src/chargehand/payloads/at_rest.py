"""Artifacts as they lie in directories and buckets: sealed if there is a key, named by the SHA-256 of their content.

The name is that of the content and not of what is stored, so that references do not change with the key. What
cannot be opened here, or must not be read, raises an error of `payloads/errors.py`.
"""

import hashlib
import io

from chargehand.bucket import Bucket, artifact_key
from chargehand.payloads.encryption import Encryption, looks_sealed
from chargehand.payloads.errors import ProtectionError


def open_stored(encryption: Encryption | None, digest: str, stored: bytes) -> bytes | None:
    """Return the content of what is stored under a digest; None if it is not what the digest says."""
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
    """Store content under its digest unless it is there already; return the digest."""
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
    """Tell whether content need not be stored again: it is there, sealed, and can be opened."""
    try:
        return looks_sealed(stored) and open_stored(encryption, digest, stored) is not None
    except ProtectionError:
        return False


def require_plain(digest: str, start: bytes) -> None:
    """Refuse what others sealed where there are no keys: it cannot be read, and is not replaced by content in clear."""
    if looks_sealed(start):
        raise ProtectionError(
            f"The artifact {digest} is encrypted: set CHARGEHAND_ENCRYPTION_KEYS and "
            "CHARGEHAND_ENCRYPTION_KEY_ID here too."
        )
