"""Large payloads in S3 or Google Cloud Storage, by the storage drivers of Temporal's SDK."""

import asyncio
import io
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from urllib.parse import parse_qs

from temporalio.api.common.v1 import Payload
from temporalio.contrib.aws.s3driver import S3StorageDriver, S3StorageDriverClient
from temporalio.contrib.gcp.gcsdriver import GCSStorageDriver, GCSStorageDriverClient
from temporalio.converter import StorageDriver, StorageDriverClaim, StorageDriverRetrieveContext

from chargehand.bucket import Bucket, BucketLocation, bucket_location, open_bucket
from chargehand.errors import BucketError
from chargehand.payloads.errors import ProtectionSettingsError, StoredPayloadDamaged, StoredPayloadMissing


def bucket_driver(place: str) -> StorageDriver:
    """Parse `gs://BUCKET/PREFIX` or `s3://BUCKET/PREFIX?region=…&endpoint=…`.

    Raises:
        ProtectionSettingsError: the address has other parts, the extra is not installed, or there are no credentials.
    """
    is_s3 = place.startswith("s3://")
    address, _, query = place.partition("?")
    options = {name: values[-1] for name, values in parse_qs(query).items()}
    location = bucket_location(address)
    if location is None or not options.keys() <= ({"region", "endpoint"} if is_s3 else set()):
        raise ProtectionSettingsError(
            f"CHARGEHAND_STORAGE is gs://BUCKET/PREFIX, or s3://BUCKET/PREFIX with region and endpoint as its query "
            f"where needed, such as s3://sessions?region=eu-central-1; not {place}."
        )
    try:
        bucket = open_bucket(location, **options)
    except BucketError as error:
        raise ProtectionSettingsError(f"CHARGEHAND_STORAGE: {error}") from error
    return _S3Driver(bucket, location) if is_s3 else _GcsDriver(bucket, location)


class _Objects:
    """The calls that both drivers make, over a `Bucket` in threads."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    async def put(self, key: str, data: bytes) -> None:
        await asyncio.to_thread(self._bucket.put, key, data)

    async def exists(self, key: str) -> bool:
        return await asyncio.to_thread(self._bucket.size, key) is not None

    async def get(self, key: str) -> bytes:
        content = io.BytesIO()
        if not await asyncio.to_thread(self._bucket.fetch, key, content):
            raise FileNotFoundError(key)
        return content.getvalue()


class _S3Client(_Objects, S3StorageDriverClient):
    async def put_object(self, *, bucket: str, key: str, data: bytes) -> None:  # noqa: ARG002 - the bucket is bound
        await self.put(key, data)

    async def object_exists(self, *, bucket: str, key: str) -> bool:  # noqa: ARG002 - as above
        return await self.exists(key)

    async def get_object(self, *, bucket: str, key: str) -> bytes:  # noqa: ARG002 - as above
        return await self.get(key)


class _GcsClient(_Objects, GCSStorageDriverClient):
    # The SDK's own client needs gcloud-aio-storage, which is not Google's library.
    async def put_object(self, *, bucket: str, object_name: str, data: bytes) -> None:  # noqa: ARG002 - as above
        await self.put(object_name, data)

    async def object_exists(self, *, bucket: str, object_name: str) -> bool:  # noqa: ARG002 - as above
        return await self.exists(object_name)

    async def get_object(self, *, bucket: str, object_name: str) -> bytes:  # noqa: ARG002 - as above
        return await self.get(object_name)


class _S3Driver(S3StorageDriver):
    def __init__(self, bucket: Bucket, location: BucketLocation) -> None:
        super().__init__(_S3Client(bucket), location.bucket)
        self._location = location

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        with _typed_errors(claims, self._location):
            return await super().retrieve(context, claims)


class _GcsDriver(GCSStorageDriver):
    def __init__(self, bucket: Bucket, location: BucketLocation) -> None:
        super().__init__(_GcsClient(bucket), location.bucket)
        self._location = location

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        with _typed_errors(claims, self._location):
            return await super().retrieve(context, claims)


@contextmanager
def _typed_errors(claims: Sequence[StorageDriverClaim], location: BucketLocation) -> Generator[None]:
    """Tell missing and damaged payloads from a bucket that does not answer."""
    digests = ", ".join(claim.claim_data.get("hash_value", "?") for claim in claims)
    try:
        yield
    except ValueError as error:
        raise StoredPayloadDamaged(digests, str(location)) from error
    except RuntimeError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise StoredPayloadMissing(digests, str(location)) from error
        raise
