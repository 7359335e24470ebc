"""A bucket of Google Cloud Storage. Needs the extra `gcs`."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, BinaryIO, Final, cast

from google.api_core.exceptions import GoogleAPIError, NotFound
from google.auth.exceptions import GoogleAuthError
from google.cloud import storage
from google.cloud.storage.exceptions import DataCorruption, InvalidResponse
from google.cloud.storage.retry import DEFAULT_RETRY
from requests import RequestException

from chargehand.bucket import BucketLocation
from chargehand.errors import BucketError

_TIMEOUTS: Final = (5, 30)
"""Seconds to connect, and between two parts of an answer."""


class GcsBucket:
    """Objects in Google Cloud Storage."""

    def __init__(self, location: BucketLocation) -> None:
        self._location = location
        with self._explained_errors():
            client = cast("Any", storage.Client(project=None))  # untyped; only creating buckets needs a project
        self._bucket = client.bucket(location.bucket)

    def size(self, key: str) -> int | None:
        with self._explained_errors():
            blob = self._bucket.get_blob(self._location.prefix + key, timeout=_TIMEOUTS)
        return None if blob is None else int(blob.size)

    def put(self, key: str, content: bytes) -> None:
        with self._explained_errors():
            # A key always holds the same content, so that a repeated upload is harmless.
            self._blob(key).upload_from_string(
                content, "application/octet-stream", timeout=_TIMEOUTS, retry=DEFAULT_RETRY
            )

    def fetch(self, key: str, target: BinaryIO) -> bool:
        with self._explained_errors():
            try:
                self._blob(key).download_to_file(target, timeout=_TIMEOUTS)
            except NotFound:
                return False
        return True

    def _blob(self, key: str) -> Any:
        return self._bucket.blob(self._location.prefix + key)

    @contextmanager
    def _explained_errors(self) -> Generator[None]:
        try:
            yield
        except (GoogleAPIError, GoogleAuthError, DataCorruption, InvalidResponse, RequestException) as error:
            raise BucketError(
                f"{self._location} cannot be used: {error}. Check the bucket's name, GOOGLE_APPLICATION_CREDENTIALS "
                "and the permissions of these credentials."
            ) from error
