"""Documents in Google Cloud Storage, by Google's own library."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, BinaryIO, Final

from chargehand.bucket import BucketError, BucketLocation

TIMEOUTS: Final = (5, 30)
"""Seconds to connect, and between two pieces of an answer."""


def google_client(location: BucketLocation) -> Any:
    """Build the client for a bucket; nothing is asked of it yet.

    Raises:
        BucketError: the extra is not installed, or there are no credentials.
    """
    try:
        from google.cloud import storage  # noqa: PLC0415 - of the extra `gcs`, and slow to import
    except ImportError as error:
        raise BucketError(f"{location} needs the extra `gcs`: pip install 'chargehand[gcs]'.") from error
    with explained(location):
        # Only buckets themselves belong to a project.
        return storage.Client(project=None)


class GoogleBucket:
    """Files in Google Cloud Storage."""

    def __init__(self, location: BucketLocation, client: Any) -> None:
        self._location = location
        self._bucket = client.bucket(location.bucket)

    def size(self, digest: str) -> int | None:
        with explained(self._location):
            blob = self._bucket.get_blob(self._location.key(digest), timeout=TIMEOUTS)
        return None if blob is None else int(blob.size)

    def put(self, digest: str, content: bytes) -> None:
        from google.cloud.storage.retry import DEFAULT_RETRY  # noqa: PLC0415 - of the extra `gcs`

        with explained(self._location):
            self._bucket.blob(self._location.key(digest)).upload_from_string(
                content, "application/octet-stream", timeout=TIMEOUTS, retry=DEFAULT_RETRY
            )

    def fetch(self, digest: str, target: BinaryIO) -> bool:
        from google.api_core.exceptions import NotFound  # noqa: PLC0415 - of the extra `gcs`

        with explained(self._location):
            try:
                self._bucket.blob(self._location.key(digest)).download_to_file(target, timeout=TIMEOUTS)
            except NotFound:
                return False
        return True


@contextmanager
def explained(location: BucketLocation) -> Generator[None]:
    """Say in our words what stands between us and a bucket."""
    from google.api_core.exceptions import GoogleAPIError  # noqa: PLC0415 - of the extra `gcs`
    from google.auth.exceptions import GoogleAuthError  # noqa: PLC0415
    from google.cloud.storage.exceptions import DataCorruption, InvalidResponse  # noqa: PLC0415
    from requests import RequestException  # noqa: PLC0415

    try:
        yield
    except (GoogleAPIError, GoogleAuthError, DataCorruption, InvalidResponse, RequestException) as error:
        raise BucketError(
            f"{location} cannot be used: {error}. Look at the bucket's name, at GOOGLE_APPLICATION_CREDENTIALS, and at "
            "what these credentials may do."
        ) from error
