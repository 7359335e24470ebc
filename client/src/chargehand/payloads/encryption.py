"""Encryption of payloads and artifacts: AES-256-GCM with named keys.

Sealed bytes describe themselves: `CHS1`, flags, the key's id, a random nonce, and the content with its tag. The header
and the purpose are authenticated together with the content: something sealed as an artifact cannot be passed off as a
payload.
"""

import asyncio
import base64
import json
import os
import re
import stat
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from chargehand.payloads.errors import KeyMissing, ProtectionSettingsError, SealBroken
from chargehand.strict_json import each_once

PAYLOAD: Final = "payload"
ARTIFACT: Final = "artifact"
ENCRYPTED: Final = b"binary/encrypted"
"""The encoding of an encrypted payload."""

MOST_UNPACKED_BYTES: Final = 256 << 20
"""Maximum size of decompressed content."""
_MAGIC: Final = b"CHS1"
_PLAIN: Final = 0
_COMPRESSED: Final = 1
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_KEY_BYTES: Final = 32
_KEY_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_COMPRESS_FROM_BYTES: Final = 1_024
_ENOUGH_FOR_A_THREAD: Final = 256 << 10
_MOST_FILE_CHARACTERS: Final = 1 << 20


class Encryption:
    """Seals with the current key, and opens with any listed key."""

    def __init__(self, keys: Mapping[str, bytes], current: str, *, accept_plain: bool = False) -> None:
        """Take keys of 32 bytes by key id.

        Args:
            accept_plain: also read unencrypted payloads, while encryption is being introduced for running
                sessions. Everything written is encrypted.
        """
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415  # an extra, slow to load
        except ImportError as error:
            raise ProtectionSettingsError(
                "Encryption needs the package 'cryptography': install chargehand[encryption]."
            ) from error
        for key_id, key in keys.items():
            _check_key(key_id, key)
        if current not in keys:
            raise ProtectionSettingsError(
                f"CHARGEHAND_ENCRYPTION_KEY_ID names '{current}', which is not among CHARGEHAND_ENCRYPTION_KEYS."
            )
        self.current = current
        self.accept_plain = accept_plain
        self._ciphers = {key_id: AESGCM(key) for key_id, key in keys.items()}

    @classmethod
    def from_text(cls, keys: str, current: str = "", *, accept_plain: bool = False) -> "Encryption":
        """Parse keys from a setting: a JSON object of base64 by key id, or the path of a file with one.

        The last one is current unless another is named.
        """
        text = keys if keys.lstrip().startswith("{") else _private_text(Path(keys))
        try:
            named: Any = json.loads(text, object_pairs_hook=each_once)
            decoded = {str(key_id): base64.b64decode(key, validate=True) for key_id, key in named.items()}
        except (ValueError, TypeError, AttributeError, RecursionError):
            raise ProtectionSettingsError(
                "CHARGEHAND_ENCRYPTION_KEYS is not a JSON object of keys in base64 by their ids, each id once, such as "
                '{"2026-11": "…44 characters…"}. `openssl rand -base64 32` makes a key.'
            ) from None
        return cls(decoded, current or next(reversed(decoded), ""), accept_plain=accept_plain)

    def seal(self, content: bytes, purpose: str = ARTIFACT) -> bytes:
        """Encrypt with the current key, compressed if that is smaller."""
        done, body = _PLAIN, content
        if len(content) >= _COMPRESS_FROM_BYTES:
            compressed = zlib.compress(content, 1)
            if len(compressed) < len(content):
                done, body = _COMPRESSED, compressed
        key_id = self.current.encode()
        header = _MAGIC + bytes((done, len(key_id))) + key_id
        nonce = os.urandom(_NONCE_BYTES)
        return header + nonce + self._ciphers[self.current].encrypt(nonce, body, header + purpose.encode())

    def open(self, sealed: bytes, purpose: str = ARTIFACT) -> bytes:
        """Decrypt content that was sealed for this purpose."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415  # an extra; loaded with the cipher

        key_id, header_length = _key_id(sealed)
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise KeyMissing(key_id)
        header, nonce = sealed[:header_length], sealed[header_length : header_length + _NONCE_BYTES]
        try:
            body = cipher.decrypt(nonce, sealed[header_length + _NONCE_BYTES :], header + purpose.encode())
        except InvalidTag:
            raise SealBroken(
                f"it was changed, or its key '{key_id}' is another one than the key of that name here"
            ) from None
        content = unpack(body) if sealed[len(_MAGIC)] == _COMPRESSED else body
        if content is None:
            raise SealBroken(f"it cannot be unpacked, is cut short, or is more than {MOST_UNPACKED_BYTES} bytes")
        return content


def looks_sealed(content: bytes) -> bool:
    return content.startswith(_MAGIC)


async def off_the_loop(work: Callable[[bytes], bytes], contents: Sequence[bytes]) -> list[bytes]:
    """Process bytes, in a thread if there are many, to keep the event loop free."""
    if sum(map(len, contents)) < _ENOUGH_FOR_A_THREAD:
        return [work(content) for content in contents]
    return await asyncio.to_thread(lambda: [work(content) for content in contents])


def _check_key(key_id: str, key: bytes) -> None:
    if not _KEY_ID.fullmatch(key_id):
        raise ProtectionSettingsError(
            "CHARGEHAND_ENCRYPTION_KEYS holds a key id that cannot be used: it has up to 64 letters, digits, '.', '_' "
            "and '-', and begins with a letter or digit."
        )
    if len(key) != _KEY_BYTES:
        raise ProtectionSettingsError(
            f"CHARGEHAND_ENCRYPTION_KEYS: the key '{key_id}' has {len(key)} bytes; {_KEY_BYTES} are needed. "
            "`openssl rand -base64 32` makes one."
        )


def _private_text(path: Path) -> str:
    with suppress(RuntimeError):  # no such home directory
        path = path.expanduser()
    if not path.is_absolute():  # commands and workers run in different directories
        raise ProtectionSettingsError(
            "CHARGEHAND_ENCRYPTION_KEYS is neither a JSON object nor the absolute path of a file with one."
        )
    if path.is_fifo():  # opening it would block
        raise ProtectionSettingsError("CHARGEHAND_ENCRYPTION_KEYS is neither a JSON object nor a regular file.")
    try:
        with path.open(encoding="utf-8") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise ProtectionSettingsError(
                    f"The file of keys {path} can be read by others: give it the mode 600, `chmod 600 {path}`."
                )
            return file.read(_MOST_FILE_CHARACTERS)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ProtectionSettingsError(
            f"CHARGEHAND_ENCRYPTION_KEYS is neither a JSON object nor the path of a file that can be read: {reason}."
        ) from None


def _key_id(sealed: bytes) -> tuple[str, int]:
    """Parse the key's id and the length of the header."""
    start = len(_MAGIC) + 2
    if len(sealed) < start or not sealed.startswith(_MAGIC) or sealed[len(_MAGIC)] not in (_PLAIN, _COMPRESSED):
        raise SealBroken("it does not begin as encrypted content does")
    end = start + sealed[start - 1]
    key_id = sealed[start:end].decode("ascii", errors="replace")
    if len(sealed) < end + _NONCE_BYTES + _TAG_BYTES or not _KEY_ID.fullmatch(key_id):
        raise SealBroken("it is cut short, or names no key")
    return key_id, end


def unpack(body: bytes) -> bytes | None:
    """Decompress; None if truncated or larger than `MOST_UNPACKED_BYTES`."""
    unpacking = zlib.decompressobj()
    try:
        content = unpacking.decompress(body, MOST_UNPACKED_BYTES)
    except zlib.error:
        return None
    return content if unpacking.eof else None
