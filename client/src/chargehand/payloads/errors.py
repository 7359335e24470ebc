"""What can go wrong with protected payloads. The messages name keys, digests and folders, never content.

ChargehandError
└── ProtectionError
    ├── ProtectionSettingsError  keys, key id or storage cannot be used as they are set
    ├── KeyMissing               a payload was encrypted with a key that is not here
    ├── SealBroken               what claims to be encrypted was changed, cut or made with another key
    ├── StoredPayloadMissing     a payload that was stored elsewhere is not there
    ├── StoredPayloadDamaged     it is there, but is not what was stored
    ├── ArtifactInClear          an artifact is not encrypted, although there is a key
    └── ArtifactSealed           an artifact is encrypted, and no keys are set

A worker that meets one of the four in the middle in a payload does not get on with the task at hand; Temporal hands
the task out again until the key or the payload is back.
"""

from chargehand.errors import ChargehandError


class ProtectionError(ChargehandError):
    """A protected payload cannot be written or read."""


class ProtectionSettingsError(ProtectionError):
    """Keys, key id or storage cannot be used as they are set."""


class KeyMissing(ProtectionError):  # noqa: N818  # reads as a statement: `except KeyMissing`
    """A payload was encrypted with a key that is not here."""

    def __init__(self, key_id: str) -> None:
        super().__init__(
            f"This was encrypted with the key '{key_id}', which is not among CHARGEHAND_ENCRYPTION_KEYS here. "
            "Keys that were rotated out have to stay in the list for as long as sessions of their time are kept."
        )
        self.key_id = key_id


class SealBroken(ProtectionError):  # noqa: N818  # as above
    """What claims to be encrypted was changed, cut or made with another key."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"Encrypted content cannot be trusted: {problem}.")


class StoredPayloadMissing(ProtectionError):  # noqa: N818  # as above
    """A payload that was stored elsewhere is not there."""

    def __init__(self, digest: str, place: str) -> None:
        super().__init__(
            f"The payload {digest} is not in {place}. Either this is not the storage that it was written to, or it was "
            "deleted: put it back from a backup, and whatever waits for it goes on by itself."
        )


class StoredPayloadDamaged(ProtectionError):  # noqa: N818  # as above
    """What is stored is not what was stored."""

    def __init__(self, digest: str, place: str) -> None:
        super().__init__(
            f"The payload {digest} in {place} is damaged: it is not what was stored. Put it back from a backup, and "
            "whatever waits for it goes on by itself."
        )


class ArtifactInClear(ProtectionError):  # noqa: N818  # as above
    """An artifact is not encrypted, although there is a key."""

    def __init__(self, digest: str) -> None:
        super().__init__(
            f"What is stored under {digest} is not encrypted, and is not read here for that reason. Upload it again "
            "with the keys set, or set CHARGEHAND_ENCRYPTION_ACCEPT_PLAIN while encryption is being switched on."
        )


class ArtifactSealed(ProtectionError):  # noqa: N818  # as above
    """An artifact is encrypted, and no keys are set."""

    def __init__(self, digest: str) -> None:
        super().__init__(
            f"What is stored under {digest} is encrypted: set CHARGEHAND_ENCRYPTION_KEYS and "
            "CHARGEHAND_ENCRYPTION_KEY_ID here too."
        )
