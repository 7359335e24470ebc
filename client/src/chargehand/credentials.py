"""Credentials of the calling user: sealed before they enter a request, and opened for single tool calls.

A sealed credential is valid for one tenant and one name. Histories, clients and models see sealed text only; the keys
differ from those that encrypt payloads, which all readers of histories have.
"""

import base64
import os
from collections.abc import Mapping
from typing import Final

from chargehand.contracts.request import SEALED
from chargehand.errors import InvalidInput
from chargehand.payloads.encryption import Encryption
from chargehand.payloads.errors import ProtectionError, ProtectionSettingsError
from chargehand.payloads.settings import KEYS

CREDENTIAL_KEYS: Final = "CHARGEHAND_CREDENTIAL_KEYS"
SHORTEST: Final = 8
"""Minimum characters; when hiding values, shorter ones could not be distinguished from ordinary words."""
_LONGEST: Final = 4_000


def credential_keys(text: str | None) -> Encryption | None:
    """Parse the keys of a setting; the last key is used for sealing. None if the setting is absent.

    Raises:
        ProtectionSettingsError: the keys are unusable.
    """
    try:
        return Encryption.from_text(text) if text else None
    except ProtectionSettingsError as error:
        raise ProtectionSettingsError(str(error).replace(KEYS, CREDENTIAL_KEYS)) from None


def seal_credentials(
    values: Mapping[str, str], *, tenant: str = "default", keys: Encryption | None = None
) -> dict[str, str]:
    """Seal a user's credentials for the field `credentials` of requests of a tenant.

    Args:
        values: by the names that tools and MCP servers request; 8 to 4,000 characters each.
        tenant: the request's tenant.
        keys: the workers' keys; CHARGEHAND_CREDENTIAL_KEYS if absent.

    Raises:
        InvalidInput: a value is too short or too long.
        ProtectionSettingsError: there are no keys, or they are unusable.
    """
    keys = keys or credential_keys(os.environ.get(CREDENTIAL_KEYS))
    if keys is None:
        raise ProtectionSettingsError(f"{CREDENTIAL_KEYS} is not set: without keys no credential can be handed over.")
    for name, value in values.items():
        if not SHORTEST <= len(value) <= _LONGEST:
            raise InvalidInput(f"credentials.{name}: has {len(value)} characters; {SHORTEST} to {_LONGEST:,} can be")
    return {
        name: SEALED + base64.urlsafe_b64encode(keys.seal(value.encode(), _purpose(tenant, name))).decode()
        for name, value in values.items()
    }


def open_credential(keys: Encryption | None, tenant: str, name: str, sealed: str) -> str:
    """Open a credential.

    Raises:
        ProtectionError: there are no keys, or it was sealed with others or for another tenant or name.
    """
    if keys is None:
        raise ProtectionError(f"This worker has no {CREDENTIAL_KEYS}, so it cannot open credentials.")
    try:
        return keys.open(base64.urlsafe_b64decode(sealed.removeprefix(SEALED)), _purpose(tenant, name)).decode()
    except (ProtectionError, ValueError):
        raise ProtectionError(
            f"The credential '{name}' cannot be opened here: it was sealed with other keys than {CREDENTIAL_KEYS}, "
            "for another tenant, or under another name."
        ) from None


def _purpose(tenant: str, name: str) -> str:
    return f"credential:{tenant}:{name}"
