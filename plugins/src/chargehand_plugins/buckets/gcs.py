"""A bucket of Google Cloud Storage."""

import io
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, Final, cast

from google.api_core.exceptions import GoogleAPIError, NotFound, PreconditionFailed
from google.auth.exceptions import GoogleAuthError
from google.cloud import storage
from google.cloud.storage.exceptions import DataCorruption, InvalidResponse
from google.cloud.storage.retry import DEFAULT_RETRY
from requests import PreparedRequest, RequestException, Response
from requests.adapters import HTTPAdapter
from urllib3 import HTTPResponse

from chargehand.bucket import MOST_ANSWER_BYTES, BoundedWriter, BucketLocation, holds
from chargehand.errors import BucketError

_RETRY: Final = DEFAULT_RETRY
_TIMEOUTS: Final = (5, 30)
"""Seconds to connect, and between two parts of an answer."""


class _BoundedAdapter(HTTPAdapter):
    """Sends requests, and reads only the beginning of responses that are not objects."""

    def send(self, request: PreparedRequest, *args: Any, **options: Any) -> Response:
        response = super().send(request, *args, **options)
        if "alt=media" in (request.url or "") and response.status_code < 300:
            return response
        body = io.BytesIO(response.raw.read(MOST_ANSWER_BYTES, decode_content=True))
        response.raw.close()
        response.raw = HTTPResponse(body=body, status=response.status_code, preload_content=False)
        return response


class GcsBucket:
    def __init__(self, location: BucketLocation) -> None:
        self._location = location
        with self._explained_errors():
            client = cast("Any", storage.Client(project=None))  # untyped; only creating buckets needs a project
            session = client._http  # noqa: SLF001  # the library has no public name for it
            session.max_redirects = 0
            for scheme in ("https://", "http://"):
                session.mount(scheme, _BoundedAdapter())
        self._bucket = client.bucket(location.bucket)

    def size(self, key: str) -> int | None:
        with self._explained_errors():
            blob = self._bucket.get_blob(self._location.prefix + key, timeout=_TIMEOUTS, retry=_RETRY)
        return None if blob is None else int(blob.size)

    def put(self, key: str, content: bytes) -> None:
        with self._explained_errors():
            # A key always holds the same content, so that a repeated upload is harmless.
            self._put(key, content)

    def put_new(self, key: str, content: bytes) -> bool:
        with self._explained_errors():
            try:
                self._put(key, content, if_generation_match=0)
            except PreconditionFailed:
                return holds(self, key, content)
        return True

    def _put(self, key: str, content: bytes, **condition: int) -> None:
        upload = self._blob(key).upload_from_string
        upload(content, "application/octet-stream", timeout=_TIMEOUTS, retry=_RETRY, **condition)

    def fetch(self, key: str, target: BinaryIO) -> bool:
        with self._explained_errors():
            try:
                writer = BoundedWriter(target, self._location)
                self._blob(key).download_to_file(writer, timeout=_TIMEOUTS, retry=_RETRY)
            except NotFound:
                return False
        return True

    def names(self, folder: str) -> Sequence[str]:
        prefix = f"{self._location.prefix}{folder}/"
        with self._explained_errors():
            listed = self._bucket.list_blobs(prefix=prefix, timeout=_TIMEOUTS, retry=_RETRY)
            return sorted(each.name.removeprefix(prefix) for each in listed)

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
