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


async def test_a_stored_payload_is_one_compressed_private_file(tmp_path: Path) -> None:
    """Storing it again adds nothing but renews its modification time, which delays deletion."""
    directory = PayloadDirectory(_open_to_all(tmp_path), "default")
    await directory.store(STORING, [LARGE])
    [file] = _files(tmp_path)
    os.utime(file, (1, 1))
    await directory.store(STORING, [LARGE])

    assert _files(tmp_path) == [file]
    assert file.stat().st_mtime > 1
    assert file.stat().st_size < len(LARGE.data) / 10
    assert file.stat().st_mode & 0o777 == 0o600


async def test_payloads_round_trip_and_damaged_ones_can_be_stored_again(place: str) -> None:
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


async def test_a_missing_payload_error_names_its_digest_and_storage(place: str) -> None:
    gone = StorageDriverClaim(claim_data={"sha256": "0" * 64})

    with pytest.raises(StoredPayloadMissing, match=f"0000 is not in {place}/default"):
        await storage_from_text(place, "default").driver.retrieve(FETCHING, [gone])


async def test_a_forged_payload_reference_cannot_name_another_file(tmp_path: Path) -> None:
    for digest in ("../../secret", "", "A" * 64, "0" * 63, "0" * 64 + "/x"):
        (tmp_path / "secret").write_bytes(b"\0secret")
        with pytest.raises(StoredPayloadMissing):
            await PayloadDirectory(tmp_path, "default").retrieve(
                FETCHING, [StorageDriverClaim(claim_data={"sha256": digest})]
            )


def test_payload_namespaces_stay_below_the_storage_root(tmp_path: Path) -> None:
    for namespace in ("../..", "a/b", ".", "team.abc12"):
        assert PayloadDirectory(tmp_path, namespace).folder.resolve().parent == tmp_path.resolve()


async def test_only_large_payloads_are_stored_externally(tmp_path: Path) -> None:
    storage = Storage(PayloadDirectory(tmp_path, "default"))
    values = ["short", "canary " + os.urandom(40_000).hex()]
    for encryption in (None, Encryption({"one": bytes(32)}, "one")):
        converter = data_converter(encryption, storage)
        short, long = await converter.encode(values)
        assert await converter.decode([short, long], [str, str]) == values
        assert (len(short.external_payloads), len(long.data) < 400) == (0, True)
        assert long.external_payloads[0].size_bytes > 40_000

    assert sorted(b"binary/encrypted" in file.read_bytes() for file in _files(tmp_path)) == [False, True]


def test_an_unusable_storage_setting_is_refused() -> None:
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
def test_invalid_client_storage_settings_are_refused_by_name(name: str) -> None:
    with pytest.raises(ProtectionSettingsError, match=name):
        protection_from({name: "-many"}, "default")


@pytest.mark.parametrize(
    ("place", "adapter", "library"), [("s3://payloads", "s3", "boto3"), ("gs://payloads", "gcs", "google.cloud")]
)
def test_a_bucket_without_its_library_names_the_extra_to_install(
    monkeypatch: pytest.MonkeyPatch, place: str, adapter: str, library: str
) -> None:
    monkeypatch.delitem(sys.modules, f"chargehand_plugins.buckets.{adapter}", raising=False)
    monkeypatch.setitem(sys.modules, library, None)

    with pytest.raises(ProtectionSettingsError, match=r"chargehand\[(s3|gcs)\]"):
        storage_from_text(place, "default")


async def test_an_unwritable_storage_location_is_named(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    driver = PayloadDirectory(blocked, "default")

    with pytest.raises(BucketError, match=f"CHARGEHAND_STORAGE: nothing can be written in {blocked}.*: .*Check its"):
        await driver.store(READ_BY_CLIENTS, [Payload(data=b"x")])
    with pytest.raises(BucketError, match=f"CHARGEHAND_STORAGE: nothing can be read in {blocked}.*: Not a directory"):
        await driver.retrieve(FETCHING, [StorageDriverClaim(claim_data={"sha256": "0" * 64})])


async def test_an_undecryptable_failure_names_the_key_setting() -> None:
    failure = Failure()
    await data_converter(Encryption({"one": bytes(32)}, "one")).encode_failure(ApplicationError("why"), failure)
    told = ending("s", await data_converter().decode_failure(failure))

    assert str(told).startswith("Why it failed is encrypted, and there is no key here; set CHARGEHAND_ENCRYPTION_KEYS")
