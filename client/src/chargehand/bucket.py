"""Documents in a bucket, of S3's or of Google's: `<prefix>/<first two hex digits>/<sha256>` holds a file's bytes.

Needs the extra `s3` or `gcs`. Credentials, regions and other servers are found in the vendors' own ways: `AWS_…`,
`GOOGLE_APPLICATION_CREDENTIALS`, profiles and roles, `AWS_ENDPOINT_URL`, `STORAGE_EMULATOR_HOST`.
"""

import re
from typing import BinaryIO, Final, NamedTuple, Protocol

from chargehand.errors import ChargehandError

# A path that was a URL once has lost one of its slashes.
_LOCATION: Final = re.compile(r"(s3|gs):/{1,2}([a-z0-9][a-z0-9._-]{1,61}[a-z0-9])(?:/(.*))?")


class BucketError(ChargehandError):
    """A bucket cannot be used; the message says which and why."""


class BucketLocation(NamedTuple):
    """Where documents lie in a bucket."""

    scheme: str
    """s3 or gs."""
    bucket: str
    prefix: str
    """With a slash at its end, unless it is empty."""

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}/{self.prefix}"

    def key(self, digest: str) -> str:
        """Say under which name the bytes of a digest lie."""
        return f"{self.prefix}{digest[:2]}/{digest}"


def bucket_location(location: object) -> BucketLocation | None:
    """Read `s3://bucket/prefix` or `gs://bucket/prefix`; None for what is no such location, such as a path."""
    if not (match := _LOCATION.fullmatch(str(location))):
        return None
    prefix = (match.group(3) or "").strip("/")
    return BucketLocation(match.group(1), match.group(2), f"{prefix}/" if prefix else "")


class Bucket(Protocol):
    """Files named by their content. Its methods block, and may be called from several threads."""

    def size(self, digest: str) -> int | None:
        """Bytes stored under this digest; None if nothing is. Raises `BucketError`."""
        ...

    def put(self, digest: str, content: bytes) -> None:
        """Store bytes under a digest, their own or what they are sealed as. Raises `BucketError`."""
        ...

    def fetch(self, digest: str, target: BinaryIO) -> bool:
        """Write what is stored under this digest; False if nothing is. Raises `BucketError`."""
        ...


def open_bucket(location: BucketLocation) -> Bucket:
    """Open a bucket; nothing is asked of it yet. Raises `BucketError` if its extra is not installed."""
    if location.scheme == "gs":
        from chargehand.google_bucket import GoogleBucket, google_client  # noqa: PLC0415 - of the extra `gcs`

        return GoogleBucket(location, google_client(location))
    from chargehand.s3_bucket import S3Bucket, s3_client  # noqa: PLC0415 - of the extra `s3`

    return S3Bucket(location, s3_client(location))
