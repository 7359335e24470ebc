"""Documents in an S3 bucket: `<prefix>/<first two hex digits>/<sha256>` holds a file's bytes.

Needs the extra `s3`. Credentials, region and endpoint are found in AWS's own ways (`AWS_…`, profiles, roles), so that
any server that speaks S3's wire can be named by `AWS_ENDPOINT_URL`.
"""

import base64
import hashlib
import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, BinaryIO, Final, NamedTuple, Protocol, cast

from chargehand.errors import ChargehandError

# A path that was a URL once has lost one of its slashes.
_LOCATION: Final = re.compile(r"s3:/{1,2}([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(.*))?")
_CHUNK: Final = 1 << 20
_MISSING: Final = frozenset({"404", "NoSuchKey", "NotFound"})


class BucketError(ChargehandError):
    """A bucket cannot be used; the message says which and why."""


class BucketLocation(NamedTuple):
    """Where documents lie in S3."""

    bucket: str
    prefix: str
    """With a slash at its end, unless it is empty."""

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"


def bucket_location(location: object) -> BucketLocation | None:
    """Read `s3://bucket/prefix`; None for what is no such location, such as a path."""
    if not (match := _LOCATION.fullmatch(str(location))):
        return None
    prefix = (match.group(2) or "").strip("/")
    return BucketLocation(match.group(1), f"{prefix}/" if prefix else "")


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


class Bucket:
    """Files named by their content. Its methods block, and may be called from several threads."""

    def __init__(self, location: BucketLocation, client: S3Client) -> None:
        self._location = location
        self._client = client

    def size(self, digest: str) -> int | None:
        """Bytes stored under this digest; None if nothing is. Raises `BucketError`."""
        with self._explained():
            try:
                head = self._client.head_object(Bucket=self._location.bucket, Key=self._key(digest))
            except Exception as error:
                if _code(error) in _MISSING:
                    return None
                raise
        return int(head["ContentLength"])

    def put(self, digest: str, content: bytes) -> None:
        """Store bytes under a digest, their own or what they are sealed as; S3 checks them. Raises `BucketError`."""
        with self._explained():
            self._client.put_object(
                Bucket=self._location.bucket,
                Key=self._key(digest),
                Body=content,
                ChecksumSHA256=base64.b64encode(hashlib.sha256(content).digest()).decode(),
            )

    def fetch(self, digest: str, target: BinaryIO) -> bool:
        """Write what is stored under this digest; False if nothing is. Raises `BucketError`."""
        with self._explained():
            try:
                body = cast(
                    "BinaryIO", self._client.get_object(Bucket=self._location.bucket, Key=self._key(digest))["Body"]
                )
            except Exception as error:
                if _code(error) in _MISSING:
                    return False
                raise
            with body:
                while chunk := body.read(_CHUNK):
                    target.write(chunk)
        return True

    def _key(self, digest: str) -> str:
        return f"{self._location.prefix}{digest[:2]}/{digest}"

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


def open_bucket(location: BucketLocation) -> Bucket:
    """Open a bucket; nothing is asked of it yet. Raises `BucketError` if the extra is not installed."""
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
        client = cast("S3Client", boto3.client("s3", config=config))  # pyright: ignore[reportUnknownMemberType] - boto3 has no types
    except Exception as error:
        raise BucketError(f"{location} cannot be used: {error}.") from error
    return Bucket(location, client)


def _code(error: Exception) -> str:
    response: dict[str, Any] = getattr(error, "response", {})
    return str(response.get("Error", {}).get("Code", ""))
