"""Errors of protected payloads. The messages name keys, digests and folders, but never content.

If the key or stored payload of an activity's or child's result is missing or broken, the workflow task fails, and
Temporal retries it until that is restored. Input and messages are refused instead.
"""

from typing import Final

from chargehand.errors import ChargehandError

NO_KEYS: Final = (
    "is encrypted, and there is no key here; "
    "set CHARGEHAND_ENCRYPTION_KEYS and CHARGEHAND_ENCRYPTION_KEY_ID alike for all workers, commands and clients"
)


class ProtectionError(ChargehandError):
    """A protected payload cannot be written or read."""


class ProtectionSettingsError(ProtectionError):
    """Keys, key id or storage are misconfigured."""


class KeyMissing(ProtectionError):  # noqa: N818  # reads as a statement: `except KeyMissing`
    """A payload was encrypted with an unknown key."""

    def __init__(self, key_id: str) -> None:
        super().__init__(
            f"This was encrypted with the key '{key_id}', which is not among CHARGEHAND_ENCRYPTION_KEYS here. "
            "Rotated keys must stay in the list for as long as the sessions that used them are kept."
        )
        self.key_id = key_id


class SealBroken(ProtectionError):  # noqa: N818  # as above
    """Encrypted content was changed, truncated or made with another key."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"Encrypted content cannot be trusted: {problem}.")


class StorageNotSet(ProtectionError):  # noqa: N818  # as above
    """A payload is stored outside Temporal, but no storage is set."""

    def __init__(self) -> None:
        super().__init__(
            "This is stored outside of Temporal: set CHARGEHAND_STORAGE here as it is set for the workers."
        )


class StoredPayloadMissing(ProtectionError):  # noqa: N818  # as above
    """An externally stored payload is missing."""

    def __init__(self, digest: str, place: str) -> None:
        super().__init__(
            f"The payload {digest} is not in {place}. Either it was written to another storage, or it was "
            "deleted: restore it from a backup, and the sessions that need it continue."
        )


class StoredPayloadDamaged(ProtectionError):  # noqa: N818  # as above
    """An externally stored payload has changed."""

    def __init__(self, digest: str, place: str) -> None:
        super().__init__(
            f"The payload {digest} in {place} is damaged: its content has changed. Restore it from a backup, and the "
            "sessions that need it continue."
        )
