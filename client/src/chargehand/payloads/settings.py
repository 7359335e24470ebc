"""Settings of payload protection, under the same names for workers, clients and commands.

Unusable settings raise `ProtectionSettingsError`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from chargehand.payloads.encryption import Encryption
from chargehand.payloads.errors import ProtectionSettingsError

if TYPE_CHECKING:
    from chargehand.payloads.storage import Storage

KEYS: Final = "CHARGEHAND_ENCRYPTION_KEYS"
KEY_ID: Final = "CHARGEHAND_ENCRYPTION_KEY_ID"
ACCEPT_PLAIN: Final = "CHARGEHAND_ENCRYPTION_ACCEPT_PLAIN"
STORAGE: Final = "CHARGEHAND_STORAGE"
STORAGE_THRESHOLD: Final = "CHARGEHAND_STORAGE_THRESHOLD"

_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_FALSE: Final = frozenset({"", "0", "false", "no", "off"})


@dataclass(frozen=True)
class Protection:
    """Encryption and external storage of payloads; both are off by default."""

    encryption: Encryption | None = None
    storage: "Storage | None" = None


def encryption_from(keys: str | None, key_id: str | None, *, accept_plain: bool = False) -> Encryption | None:
    """Build the encryption from its two settings; None if neither is set."""
    if not keys and not key_id:
        return None
    if not keys or not key_id:
        missing = KEY_ID if keys else KEYS
        raise ProtectionSettingsError(f"{missing} is not set: encryption needs {KEYS} and {KEY_ID}.")
    return Encryption.from_text(keys, key_id, accept_plain=accept_plain)


def storage_from(
    place: str | None, namespace: str, threshold_bytes: int | None = None, *, results: bool = False
) -> "Storage | None":
    """Build the external storage; None if the setting is empty or `off`."""
    if not place or place == "off":
        return None
    from chargehand.payloads.storage import THRESHOLD_BYTES, storage_from_text  # noqa: PLC0415  # loads temporalio, which offline commands do not need

    threshold = THRESHOLD_BYTES if threshold_bytes is None else threshold_bytes
    return storage_from_text(place, namespace, threshold, results=results)


def encryption_of(environment: Mapping[str, str]) -> Encryption | None:
    """Read a client's encryption settings from the environment."""
    return encryption_from(
        environment.get(KEYS), environment.get(KEY_ID), accept_plain=_truth(environment, ACCEPT_PLAIN)
    )


def protection_from(environment: Mapping[str, str], namespace: str, *, usual_storage: str | None = None) -> Protection:
    """Read a client's payload protection settings from the environment."""
    return Protection(
        encryption=encryption_of(environment),
        storage=storage_from(
            environment.get(STORAGE) or usual_storage, namespace, _number(environment, STORAGE_THRESHOLD)
        ),
    )


def _truth(environment: Mapping[str, str], name: str) -> bool:
    value = environment.get(name, "").lower()
    if value not in _TRUE | _FALSE:
        raise ProtectionSettingsError(f"{name} must be true or false.")
    return value in _TRUE


def _number(environment: Mapping[str, str], name: str) -> int | None:
    value = environment.get(name)
    if not value:
        return None
    if not value.isascii() or not value.isdigit():
        raise ProtectionSettingsError(f"{name} must be a number of bytes, 0 or more.")
    return int(value)
