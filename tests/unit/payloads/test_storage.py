"""Large payloads in a directory and in buckets: stored payloads come back, or an error says why not."""

import os
import sys
from pathlib import Path

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.converter import StorageDriverClaim, StorageDriverRetrieveContext, StorageDriverStoreContext
from temporalio.exceptions import ApplicationError

from chargehand.bucket import Directory, artifact_key, bucket_location, open_bucket
from chargehand.converter import data_converter
from chargehand.errors import BucketError
from chargehand.payloads.encryption import Encryption
from chargehand.payloads.errors import ProtectionSettingsError, StoredPayloadDamaged, StoredPayloadMissing
from chargehand.payloads.settings import protection_from
from chargehand.payloads.storage import READ_BY_CLIENTS, PayloadDirectory, Storage, storage_from_text
from chargehand.temporal_errors import ending

LARGE = Payload(metadata={"encoding": b"json/plain"}, data=b'"' + b"many words " * 20_000 + b'"')
STORING, FETCHING = StorageDriverStoreContext(), StorageDriverRetrieveContext()


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def _open_to_all(folder: Path) -> Path:
    """Make a folder readable to others: everything below a private one is private."""
    folder.chmod(0o755)
    return folder


async def test_a_payload_is_one_private_file(tmp_path: Path) -> None:
    """It lies compressed; storing it again adds nothing, and renews the time by which old payloads are deleted."""
    directory = PayloadDirectory(_open_to_all(tmp_path), "default")
    await directory.store(STORING, [LARGE])
    [file] = _files(tmp_path)
    os.utime(file, (1, 1))

    await directory.store(STORING, [LARGE])

    assert _files(tmp_path) == [file]
    assert file.stat().st_mtime > 1
    assert file.stat().st_size < len(LARGE.data) / 10
    assert file.stat().st_mode & 0o777 == 0o600


async def test_payloads_come_back_from_every_place_and_a_damaged_one_can_be_stored_anew(place: str) -> None:
    """Storing one twice is harmless; other content is never read as if it were right; storing again mends it."""
    driver = storage_from_text(place, "default").driver
    payloads = [LARGE, Payload(metadata={"encoding": b"json/plain"}, data=b"1"), LARGE]
    claims = await driver.store(STORING, payloads)
    assert await driver.retrieve(FETCHING, claims) == payloads

    location = bucket_location(f"{place}/default")
    files = open_bucket(location) if location else Directory(Path(place) / "default")
    files.put(artifact_key(claims[0].claim_data["sha256"]), b"\0changed")
    with pytest.raises(StoredPayloadDamaged, match="is damaged"):
        await driver.retrieve(FETCHING, claims)
    await driver.store(STORING, [LARGE])

    assert await driver.retrieve(FETCHING, claims) == payloads


async def test_a_missing_payload_is_named(place: str) -> None:
    """A payload that is gone is an error that says which and where it was looked for."""
    gone = StorageDriverClaim(claim_data={"sha256": "0" * 64})

    with pytest.raises(StoredPayloadMissing, match=f"0000 is not in {place}/default"):
        await storage_from_text(place, "default").driver.retrieve(FETCHING, [gone])


async def test_a_reference_leads_nowhere_else(tmp_path: Path) -> None:
    """A reference that is no digest is refused, so a forged one cannot name another file."""
    for digest in ("../../secret", "", "A" * 64, "0" * 63, "0" * 64 + "/x"):
        (tmp_path / "secret").write_bytes(b"\0secret")
        with pytest.raises(StoredPayloadMissing):
            await PayloadDirectory(tmp_path, "default").retrieve(
                FETCHING, [StorageDriverClaim(claim_data={"sha256": digest})]
            )


def test_namespaces_stay_below_the_root(tmp_path: Path) -> None:
    """Whatever a namespace is called, its payloads lie in one folder right below the root."""
    for namespace in ("../..", "a/b", ".", "team.abc12"):
        assert PayloadDirectory(tmp_path, namespace).folder.resolve().parent == tmp_path.resolve()


async def test_only_large_payloads_are_stored_elsewhere(tmp_path: Path) -> None:
    """Above the threshold the history has a reference, and readers see no difference; encryption holds there too."""
    storage = Storage(PayloadDirectory(tmp_path, "default"))
    values = ["short", "canary " + os.urandom(40_000).hex()]
    for encryption in (None, Encryption({"one": bytes(32)}, "one")):
        converter = data_converter(encryption, storage)
        short, long = await converter.encode(values)
        assert await converter.decode([short, long], [str, str]) == values
        assert (len(short.external_payloads), len(long.data) < 400) == (0, True)
        assert long.external_payloads[0].size_bytes > 40_000

    assert sorted(b"binary/encrypted" in file.read_bytes() for file in _files(tmp_path)) == [False, True]


def test_storage_that_cannot_be_used_is_refused() -> None:
    """A setting that names no storage is an error that shows how one is named."""
    cases = [
        ("payloads", "absolute path"),
        ("ftp://host/x", "absolute path"),
        ("s3://", "s3://BUCKET"),
        ("s3://bucket?colour=red", "s3://BUCKET"),
        ("gs://", "gs://BUCKET"),
        ("gs://bucket?colour=red", "gs://BUCKET"),
    ]
    for place, message in cases:
        with pytest.raises(ProtectionSettingsError, match=message):
            storage_from_text(place, "default")


@pytest.mark.parametrize("name", ["CHARGEHAND_STORAGE_THRESHOLD", "CHARGEHAND_ENCRYPTION_ACCEPT_PLAIN"])
def test_settings_of_clients_are_checked(name: str) -> None:
    """A value of the wrong kind is an error that names the setting."""
    with pytest.raises(ProtectionSettingsError, match=name):
        protection_from({name: "-many"}, "default")


@pytest.mark.parametrize(
    ("place", "adapter", "library"), [("s3://payloads", "s3", "boto3"), ("gs://payloads", "gcs", "google.cloud")]
)
def test_a_bucket_needs_its_extra(monkeypatch: pytest.MonkeyPatch, place: str, adapter: str, library: str) -> None:
    """Without the vendor's library the error names the extra to install."""
    monkeypatch.delitem(sys.modules, f"chargehand_plugins.buckets.{adapter}", raising=False)
    monkeypatch.setitem(sys.modules, library, None)

    with pytest.raises(ProtectionSettingsError, match=r"chargehand\[(s3|gcs)\]"):
        storage_from_text(place, "default")


async def test_a_place_that_nothing_can_be_written_to_is_named(tmp_path: Path) -> None:
    """Writing and reading there say which setting names it, where it is, and what the system said."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    driver = PayloadDirectory(blocked, "default")

    with pytest.raises(BucketError, match=f"CHARGEHAND_STORAGE: nothing can be written in {blocked}.*: .*Check its"):
        await driver.store(READ_BY_CLIENTS, [Payload(data=b"x")])
    with pytest.raises(BucketError, match=f"CHARGEHAND_STORAGE: nothing can be read in {blocked}.*: Not a directory"):
        await driver.retrieve(FETCHING, [StorageDriverClaim(claim_data={"sha256": "0" * 64})])


async def test_a_failure_that_is_encrypted_names_the_keys() -> None:
    """A client without keys is told of the settings, not in the SDK's words."""
    failure = Failure()
    await data_converter(Encryption({"one": bytes(32)}, "one")).encode_failure(ApplicationError("why"), failure)

    told = ending("s", await data_converter().decode_failure(failure))

    assert str(told).startswith("Why it failed is encrypted, and there is no key here; set CHARGEHAND_ENCRYPTION_KEYS")
