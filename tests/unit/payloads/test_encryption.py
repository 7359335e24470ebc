"""Sealing and opening: what goes in comes out, and nothing else does."""

import base64
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chargehand.payloads.encryption import ARTIFACT, PAYLOAD, Encryption
from chargehand.payloads.errors import KeyMissing, ProtectionSettingsError, SealBroken
from chargehand.payloads.settings import encryption_from

OLD, NEW = bytes(range(32)), bytes(range(32, 64))
SEALED = Path(__file__).parents[3] / "examples" / "typescript" / "sealed.json"
ENCRYPTION = Encryption({"old": OLD, "new": NEW}, "new")


@given(st.binary(max_size=4_000), st.sampled_from([PAYLOAD, ARTIFACT]))
def test_encrypted_content_can_be_decrypted(content: bytes, purpose: str) -> None:
    assert ENCRYPTION.open(ENCRYPTION.seal(content, purpose), purpose) == content


@pytest.mark.parametrize("example", json.loads(SEALED.read_bytes()), ids=lambda example: example["key_id"])
def test_payloads_in_the_shared_encryption_format_can_be_decrypted(example: dict[str, str]) -> None:
    """The format must not change: these are the examples that the TypeScript codec decrypts."""
    encryption = Encryption({example["key_id"]: base64.b64decode(example["key"])}, example["key_id"])

    assert encryption.open(base64.b64decode(example["sealed"]), PAYLOAD) == example["content"].encode()


def test_encrypted_content_reveals_nothing() -> None:
    content = b"the canary sings " * 200
    sealed = ENCRYPTION.seal(content) + ENCRYPTION.seal(b"the canary sings")

    assert b"canary" not in sealed
    assert NEW not in sealed
    assert len(sealed) < len(content)  # the long one was compressed
    assert ENCRYPTION.seal(b"same") != ENCRYPTION.seal(b"same")


@given(st.data(), st.booleans())
def test_tampered_or_truncated_content_is_refused(data: st.DataObject, is_cut: bool) -> None:  # noqa: FBT001
    sealed = bytearray(ENCRYPTION.seal(b"content" * 300))
    place = data.draw(st.integers(0, len(sealed) - 1))
    if is_cut:
        del sealed[place:]
    else:
        sealed[place] ^= 1 << data.draw(st.integers(0, 7))

    with pytest.raises((SealBroken, KeyMissing)):
        ENCRYPTION.open(bytes(sealed))


def test_old_keys_still_decrypt_after_a_rotation() -> None:
    before = Encryption({"old": OLD}, "old").seal(b"content")

    assert ENCRYPTION.open(before) == b"content"
    assert Encryption({"new": NEW}, "new").open(ENCRYPTION.seal(b"content")) == b"content"


def _keys(**keys: bytes) -> str:
    return json.dumps({name: base64.b64encode(key).decode() for name, key in keys.items()})


def test_encryption_keys_are_read_from_a_setting_or_a_private_file(tmp_path: Path) -> None:
    """A file that others can read is refused with the remedy."""
    file = tmp_path / "keys.json"
    file.write_text(_keys(one=OLD))
    file.chmod(0o600)
    inline, named = encryption_from(_keys(one=OLD), "one"), encryption_from(str(file), "one")

    assert inline
    assert named
    assert named.open(inline.seal(b"content")) == b"content"
    file.chmod(0o640)
    with pytest.raises(ProtectionSettingsError, match="chmod 600"):
        encryption_from(str(file), "one")
    file.unlink()
    os.mkfifo(file, 0o600)
    with pytest.raises(ProtectionSettingsError, match="nor a regular file"):
        encryption_from(str(file), "one")


def test_unusable_encryption_settings_are_refused() -> None:
    """An incomplete or invalid setting is an error; a worker never falls back to starting without encryption."""
    cases: list[tuple[str | None, str | None, str]] = [
        (_keys(one=OLD), None, "CHARGEHAND_ENCRYPTION_KEY_ID is not set"),
        (None, "one", "CHARGEHAND_ENCRYPTION_KEYS is not set"),
        (_keys(one=OLD), "two", "names 'two', which is not among"),
        (_keys(one=OLD[:16]), "one", "the key 'one' has 16 bytes; 32 are needed"),
        ('{"one": "no base64!"}', "one", "not a JSON object of keys in base64"),
        ('{"one": 5}', "one", "not a JSON object of keys in base64"),
        ("{", "one", "not a JSON object of keys in base64"),
        ('{"one":' * 50_000, "one", "not a JSON object of keys in base64"),
        (_keys(one=OLD)[:-1] + "," + _keys(one=NEW)[1:], "one", "each id once"),
        (_keys(**{"a b": OLD}), "a b", "a key id that cannot be used"),
        ("keys.json", "one", "nor the absolute path of a file"),
        ("/does/not/exist", "one", "No such file"),
    ]
    for keys, key_id, message in cases:
        with pytest.raises(ProtectionSettingsError, match=message) as refusal:
            encryption_from(keys, key_id)
        assert base64.b64encode(OLD).decode() not in str(refusal.value)


def test_content_is_decrypted_only_with_the_same_purpose_and_key() -> None:
    with pytest.raises(SealBroken):
        ENCRYPTION.open(ENCRYPTION.seal(b"content", ARTIFACT), PAYLOAD)
    with pytest.raises(SealBroken, match="another one than the key of that name"):
        Encryption({"new": OLD}, "new").open(ENCRYPTION.seal(b"content"))
    with pytest.raises(KeyMissing, match="encrypted with the key 'new'") as refusal:
        Encryption({"old": OLD}, "old").open(ENCRYPTION.seal(b"content"))
    assert refusal.value.key_id == "new"
