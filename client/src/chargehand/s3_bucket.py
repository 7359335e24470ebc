"""Documents in S3, by boto3."""

import base64
import hashlib
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, BinaryIO, Final, Protocol, cast

from chargehand.bucket import BucketError, BucketLocation

_CHUNK: Final = 1 << 20
_MISSING: Final = frozenset({"404", "NoSuchKey", "NotFound"})


class S3Client(Protocol):
    """As much of boto3's client as is used here."""

    def head_object(self, *, Bucket: str, Key: str) -> dict[str, Any]: ...  # noqa: N803 - boto3's names
    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]: ...  # noqa: N803
    def put_object(
        self,
        *,
        Bucket: str,  # noqa: N803
        Key: str,  # noqa: N803
        Body: bytes,  # noqa: N803
        ChecksumSHA256: str,  # noqa: N803
    ) -> dict[str, Any]: ...


class S3Bucket:
    """Files in S3, or in what speaks its wire."""

    def __init__(self, location: BucketLocation, client: S3Client) -> None:
        self._location = location
        self._client = client

    def size(self, digest: str) -> int | None:
        with self._explained():
            try:
                head = self._client.head_object(Bucket=self._location.bucket, Key=self._location.key(digest))
            except Exception as error:
                if _code(error) in _MISSING:
                    return None
                raise
        return int(head["ContentLength"])

    def put(self, digest: str, content: bytes) -> None:
        with self._explained():
            self._client.put_object(
                Bucket=self._location.bucket,
                Key=self._location.key(digest),
                Body=content,
                ChecksumSHA256=base64.b64encode(hashlib.sha256(content).digest()).decode(),
            )

    def fetch(self, digest: str, target: BinaryIO) -> bool:
        with self._explained():
            try:
                found = self._client.get_object(Bucket=self._location.bucket, Key=self._location.key(digest))
            except Exception as error:
                if _code(error) in _MISSING:
                    return False
                raise
            with cast("BinaryIO", found["Body"]) as body:
                while chunk := body.read(_CHUNK):
                    target.write(chunk)
        return True

    @contextmanager
    def _explained(self) -> Generator[None]:
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - of the extra `s3`

        try:
            yield
        except (BotoCoreError, ClientError) as error:
            raise BucketError(
                f"{self._location} cannot be used: {error}. Look at the bucket's name, at AWS_REGION and "
                "AWS_ENDPOINT_URL, and at what these credentials may do."
            ) from error


def s3_client(location: BucketLocation) -> S3Client:
    """Build the client for a bucket; nothing is asked of it yet. Raises `BucketError` if the extra is not installed."""
    try:
        import boto3  # noqa: PLC0415 - of the extra `s3`, and slow to import
        from botocore.config import Config  # noqa: PLC0415
    except ImportError as error:
        raise BucketError(f"{location} needs the extra `s3`: pip install 'chargehand[s3]'.") from error
    config = Config(
        connect_timeout=5,
        read_timeout=30,
        retries={"mode": "standard", "max_attempts": 3},
        # Servers that speak S3's wire seldom know the checksums that AWS has added to it.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    try:
        return cast("S3Client", boto3.client("s3", config=config))  # pyright: ignore[reportUnknownMemberType] - boto3 has no types
    except Exception as error:
        raise BucketError(f"{location} cannot be used: {error}.") from error


def _code(error: Exception) -> str:
    response: dict[str, Any] = getattr(error, "response", {})
    return str(response.get("Error", {}).get("Code", ""))
