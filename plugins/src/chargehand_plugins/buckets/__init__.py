"""Documents, files and large payloads in buckets of S3 and of Google Cloud Storage."""

from chargehand.plugins import Registry


def register(registry: Registry) -> None:
    """Add a client for each scheme; each needs the vendor's library."""
    registry.bucket("s3", f"{__name__}.s3:S3Bucket")
    registry.bucket("gs", f"{__name__}.gcs:GcsBucket")
