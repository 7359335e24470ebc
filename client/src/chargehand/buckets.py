"""Open a bucket by the adapter of its vendor, which needs an extra."""

from chargehand.bucket import Bucket, BucketLocation
from chargehand.errors import BucketError


def open_bucket(location: BucketLocation, *, region: str | None = None, endpoint: str | None = None) -> Bucket:
    """Build the client of a bucket, without calling it. `region` and `endpoint` are for S3.

    Raises:
        BucketError: the extra is not installed, or there are no credentials.
    """
    try:
        if location.scheme == "gs":
            from chargehand.gcs_bucket import GcsBucket  # noqa: PLC0415 - imports the extra `gcs`

            return GcsBucket(location)
        from chargehand.s3_bucket import S3Bucket  # noqa: PLC0415 - imports the extra `s3`

        return S3Bucket(location, region, endpoint)
    except ImportError as error:
        extra = "gcs" if location.scheme == "gs" else "s3"
        raise BucketError(f"{location} needs the extra `{extra}`: pip install 'chargehand[{extra}]'.") from error
