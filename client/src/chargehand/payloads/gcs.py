"""Large payloads in Google Cloud Storage, by the driver of Temporal's SDK. Needs the extra `gcs`."""

import asyncio
from collections.abc import Sequence
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.contrib.gcp.gcsdriver import GCSStorageDriver, GCSStorageDriverClient
from temporalio.converter import StorageDriver, StorageDriverClaim, StorageDriverRetrieveContext

from chargehand.bucket import BucketError, BucketLocation
from chargehand.google_bucket import TIMEOUTS, google_client
from chargehand.payloads.checked import storage_location, told_apart
from chargehand.payloads.errors import ProtectionSettingsError


def gcs_driver(place: str) -> StorageDriver:
    """Read `gs://BUCKET/PREFIX`; credentials come from where Google's own tools take them.

    Raises:
        ProtectionSettingsError: the address has other parts, the extra is not installed, or there are no credentials.
    """
    location = storage_location(place)
    try:
        client = google_client(location)
    except BucketError as error:
        raise ProtectionSettingsError(f"CHARGEHAND_STORAGE: {error}") from error
    return _CheckedGcs(_GoogleClient(client, location.prefix), location)


class _CheckedGcs(GCSStorageDriver):
    """The SDK's driver, which checks what it reads, with our errors."""

    def __init__(self, client: GCSStorageDriverClient, location: BucketLocation) -> None:
        super().__init__(client, location.bucket)
        self._location = location

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        with told_apart(claims, self._location, _is_absent):
            return await super().retrieve(context, claims)


class _GoogleClient(GCSStorageDriverClient):
    """What the driver asks of Google, by its library in threads: its clients may be used from several.

    The SDK's own client stands on gcloud-aio-storage, which is neither Google's nor of use for documents.
    """

    def __init__(self, client: Any, prefix: str) -> None:
        self._client = client
        self._prefix = prefix

    async def put_object(self, *, bucket: str, object_name: str, data: bytes) -> None:
        from google.cloud.storage.retry import DEFAULT_RETRY  # noqa: PLC0415 - of the extra `gcs`

        # Whoever stores the same name stores the same bytes, so that it may be tried again.
        upload = self._blob(bucket, object_name).upload_from_string
        await asyncio.to_thread(upload, data, "application/octet-stream", timeout=TIMEOUTS, retry=DEFAULT_RETRY)

    async def object_exists(self, *, bucket: str, object_name: str) -> bool:
        return await asyncio.to_thread(self._blob(bucket, object_name).exists, timeout=TIMEOUTS)

    async def get_object(self, *, bucket: str, object_name: str) -> bytes:
        return await asyncio.to_thread(self._blob(bucket, object_name).download_as_bytes, timeout=TIMEOUTS)

    def _blob(self, bucket: str, object_name: str) -> Any:
        return self._client.bucket(bucket).blob(self._prefix + object_name)


def _is_absent(error: BaseException | None) -> bool:
    return getattr(error, "code", None) == 404
