"""Documents, files and large payloads in buckets of S3 and of Google Cloud Storage."""

from chargehand.plugins import Registry


def register(registry: Registry) -> None:
    registry.bucket("s3", f"{__name__}.s3:S3Bucket")
    registry.bucket("gs", f"{__name__}.gcs:GcsBucket")
