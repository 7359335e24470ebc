"""What the SDK's drivers for buckets raise when a stored payload is gone or damaged, in our errors."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from temporalio.converter import StorageDriverClaim

from chargehand.bucket import BucketLocation, bucket_location
from chargehand.payloads.errors import ProtectionSettingsError, StoredPayloadDamaged, StoredPayloadMissing


def storage_location(place: str) -> BucketLocation:
    """Read where in which bucket payloads lie.

    Raises:
        ProtectionSettingsError: it names no bucket.
    """
    location = bucket_location(place)
    if location is None:
        raise ProtectionSettingsError(
            f"CHARGEHAND_STORAGE names no bucket: it is s3://BUCKET/PREFIX or gs://BUCKET/PREFIX, not {place}."
        )
    return location


@contextmanager
def told_apart(
    claims: Sequence[StorageDriverClaim], location: BucketLocation, is_absent: Callable[[BaseException | None], bool]
) -> Generator[None]:
    """Tell payloads that are gone, and damaged ones, from a bucket that does not answer.

    Raises:
        StoredPayloadDamaged: what is stored is something else.
        StoredPayloadMissing: nothing is stored.
    """
    digests = ", ".join(claim.claim_data.get("hash_value", "?") for claim in claims)
    try:
        yield
    except ValueError as error:
        raise StoredPayloadDamaged(digests, str(location)) from error
    except RuntimeError as error:
        if is_absent(error.__cause__):
            raise StoredPayloadMissing(digests, str(location)) from error
        raise
