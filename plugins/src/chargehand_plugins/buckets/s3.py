"""A bucket of S3 or a compatible server."""

import base64
import hashlib
import io
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, Final, cast

import boto3
from botocore.awsrequest import AWSResponse
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from chargehand.bucket import MOST_ANSWER_BYTES, BoundedWriter, BucketLocation, holds
from chargehand.errors import BucketError

_CHUNK: Final = 1 << 20
_MISSING: Final = frozenset({"404", "NoSuchKey", "NotFound"})
_TAKEN: Final = frozenset({"PreconditionFailed", "ConditionalRequestConflict"})
_CONFIG: Final = Config(
    connect_timeout=5,
    read_timeout=30,
    retries={"mode": "standard", "max_attempts": 3},
    # Few other servers support the checksums that AWS has added.
    request_checksum_calculation="when_required",
    response_checksum_validation="when_required",
)


class _BoundedSession:
    """Sends requests, and reads only the beginning of responses that are not objects."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def send(self, request: Any) -> AWSResponse:
        # Other responses would be read completely.
        is_object, request.stream_output = request.stream_output, True
        response = self._session.send(request)
        if is_object and response.status_code < 300:
            return response
        body = _Body(response.raw.read(MOST_ANSWER_BYTES))
        response.raw.close()
        return AWSResponse(response.url, response.status_code, response.headers, body)

    def close(self) -> None:
        self._session.close()


class _Body(io.BytesIO):
    def stream(self, **_: object) -> Iterator[bytes]:
        """Yield the content, with urllib3's interface."""
        yield self.read()


class S3Bucket:
    def __init__(self, location: BucketLocation, region: str | None = None, endpoint: str | None = None) -> None:
        self._location = location
        make = cast("Any", boto3).client  # boto3 has no types
        try:
            self._client: Any = make("s3", config=_CONFIG, region_name=region, endpoint_url=endpoint)
            # boto3 has no public API for this.
            self._client._endpoint.http_session = _BoundedSession(self._client._endpoint.http_session)  # noqa: SLF001  # as above
        except (BotoCoreError, ValueError) as error:
            raise BucketError(f"{location} cannot be used: {error}.") from error

    def size(self, key: str) -> int | None:
        with self._explained_errors():
            head = self._unless_missing(self._client.head_object, key)
        return None if head is None else int(head["ContentLength"])

    def put(self, key: str, content: bytes) -> None:
        with self._explained_errors():
            self._put(key, content)

    def put_new(self, key: str, content: bytes) -> bool:
        with self._explained_errors():
            try:
                self._put(key, content, IfNoneMatch="*")
            except ClientError as error:
                if _code_of(error) not in _TAKEN:
                    raise
                return holds(self, key, content)
        return True

    def _put(self, key: str, content: bytes, **condition: str) -> None:
        self._client.put_object(
            Bucket=self._location.bucket,
            Key=self._location.prefix + key,
            Body=content,
            ChecksumSHA256=base64.b64encode(hashlib.sha256(content).digest()).decode(),
            **condition,
        )

    def fetch(self, key: str, target: BinaryIO) -> bool:
        with self._explained_errors():
            response = self._unless_missing(self._client.get_object, key)
            if response is None:
                return False
            writer = BoundedWriter(target, self._location)
            with response["Body"] as body:
                while chunk := body.read(_CHUNK):
                    writer.write(chunk)
        return True

    def names(self, folder: str) -> Sequence[str]:
        prefix = f"{self._location.prefix}{folder}/"
        with self._explained_errors():
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._location.bucket, Prefix=prefix)
            return sorted(each["Key"].removeprefix(prefix) for page in pages for each in page.get("Contents", ()))

    def _unless_missing(self, call: Any, key: str) -> dict[str, Any] | None:
        try:
            return call(Bucket=self._location.bucket, Key=self._location.prefix + key)
        except ClientError as error:
            if _code_of(error) in _MISSING:
                return None
            raise

    @contextmanager
    def _explained_errors(self) -> Generator[None]:
        try:
            yield
        except (BotoCoreError, ClientError) as error:
            raise BucketError(
                f"{self._location} cannot be used: {error}. Check the bucket's name, AWS_REGION, AWS_ENDPOINT_URL and "
                "the permissions of these credentials."
            ) from error


def _code_of(error: ClientError) -> str | None:
    return cast("Any", error).response.get("Error", {}).get("Code")
