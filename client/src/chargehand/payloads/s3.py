"""Large payloads in S3 and what speaks its wire, by the driver of Temporal's SDK. Needs the extra `s3`."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import parse_qs

from temporalio.api.common.v1 import Payload
from temporalio.contrib.aws.s3driver import S3StorageDriver, S3StorageDriverClient
from temporalio.converter import StorageDriver, StorageDriverClaim, StorageDriverRetrieveContext

from chargehand.bucket import BucketLocation
from chargehand.payloads.checked import storage_location, told_apart
from chargehand.payloads.errors import ProtectionSettingsError

_OPTIONS: Final = {"region": "region_name", "endpoint": "endpoint_url"}
_ABSENT: Final = frozenset({"404", "NoSuchKey", "NotFound"})


def s3_driver(place: str) -> StorageDriver:
    """Read `s3://BUCKET/PREFIX?region=…&endpoint=…`; credentials come from where AWS's own tools take them.

    Raises:
        ProtectionSettingsError: the address has other parts, or the extra is not installed.
    """
    address, _, query = place.partition("?")
    location = storage_location(address)
    options = {name: values[-1] for name, values in parse_qs(query).items()}
    if not options.keys() <= _OPTIONS.keys():
        raise ProtectionSettingsError(
            "CHARGEHAND_STORAGE for S3 is s3://BUCKET/PREFIX, with region and endpoint as its query if they are "
            "needed, such as s3://sessions?region=eu-central-1."
        )
    try:
        import boto3  # noqa: PLC0415  # an extra, slow to load
    except ImportError as error:
        raise ProtectionSettingsError(
            "CHARGEHAND_STORAGE names S3, which needs the package 'boto3': install chargehand[s3]."
        ) from error
    make: Any = boto3.client  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # boto3 has no types
    client = make("s3", **{_OPTIONS[name]: value for name, value in options.items()})
    return _CheckedS3(_Boto3Client(client, location.prefix), location)


class _CheckedS3(S3StorageDriver):
    """The SDK's driver, which checks what it reads, with our errors."""

    def __init__(self, client: S3StorageDriverClient, location: BucketLocation) -> None:
        super().__init__(client, location.bucket)
        self._location = location

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        with told_apart(claims, self._location, _is_absent):
            return await super().retrieve(context, claims)


class _Boto3Client(S3StorageDriverClient):
    """What the driver asks of S3, by boto3 in threads: its clients may be used from several."""

    def __init__(self, client: Any, prefix: str) -> None:
        self._client = client
        self._prefix = prefix

    async def put_object(self, *, bucket: str, key: str, data: bytes) -> None:
        await asyncio.to_thread(self._client.put_object, Bucket=bucket, Key=self._prefix + key, Body=data)

    async def object_exists(self, *, bucket: str, key: str) -> bool:
        try:
            await asyncio.to_thread(self._client.head_object, Bucket=bucket, Key=self._prefix + key)
        except Exception as error:
            if _is_absent(error):
                return False
            raise
        return True

    async def get_object(self, *, bucket: str, key: str) -> bytes:
        def get() -> bytes:
            return self._client.get_object(Bucket=bucket, Key=self._prefix + key)["Body"].read()

        return await asyncio.to_thread(get)


def _is_absent(error: BaseException | None) -> bool:
    """Tell whether S3 says that there is no such object; boto3 makes its exception classes at run time."""
    return getattr(error, "response", {}).get("Error", {}).get("Code") in _ABSENT
