"""Artifacts with a key: what lies in a directory or bucket, who reads it, and what is refused."""

import hashlib
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from made_documents import HANDBOOK

from activities.documents.artifacts import (
    ArtifactDamagedError,
    ArtifactLockedError,
    ArtifactMissingError,
    Artifacts,
    ArtifactStore,
)
from activities.documents.bucket_store import open_artifacts
from activities.documents.library import DocumentLibrary
from chargehand.errors import UploadRefused
from chargehand.payloads.encryption import Encryption, looks_sealed
from chargehand.payloads.errors import KeyMissing
from chargehand.upload import store_documents
from tests.s3_server import BUCKET, serve_s3

KEY, OTHER_KEY = bytes(range(32)), bytes(range(32, 64))
CANARY = b"canary-51d0"
CONTENT = CANARY + b" sings. " * 1_000


class Place:
    """A directory or a bucket, as stores and clients use it and as somebody without keys sees it."""

    def __init__(
        self, location: Path | str, folder: Path, read: Callable[[str], bytes], write: Callable[[str, bytes], object]
    ) -> None:
        self.location = location
        self.raw = read
        self.write = write
        self._folder = folder
        self._stores = 0

    def store(self, encryption: Encryption | None) -> Artifacts:
        """Open it as a worker that has just been started, on a host of its own."""
        self._stores += 1
        return open_artifacts(self.location, self._folder / f"fetched-{self._stores}", encryption)


@pytest.fixture(params=["directory", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Place]:
    if request.param == "directory":
        root = tmp_path / "artifacts"

        def path(digest: str) -> Path:
            (root / digest[:2]).mkdir(parents=True, exist_ok=True)
            return root / digest[:2] / digest

        yield Place(
            root, tmp_path, lambda digest: path(digest).read_bytes(), lambda digest, raw: path(digest).write_bytes(raw)
        )
        return
    team = tmp_path.name  # all servers of a process have the same objects
    with serve_s3() as s3:
        yield Place(
            f"s3://{BUCKET}/{team}",
            tmp_path,
            lambda digest: s3.get_object(Bucket=BUCKET, Key=f"{team}/{digest[:2]}/{digest}")["Body"].read(),
            lambda digest, raw: s3.put_object(Bucket=BUCKET, Key=f"{team}/{digest[:2]}/{digest}", Body=raw),
        )


def sealing(*, accept_plain: bool = False) -> Encryption:
    return Encryption({"one": KEY}, "one", accept_plain=accept_plain)


def holding(content: bytes, folder: Path) -> list[Path]:
    """Find the files in which something stands in clear."""
    return [path for path in folder.rglob("*") if path.is_file() and content in path.read_bytes()]


def test_content_lies_sealed_under_the_digest_of_its_plain_form(place: Place, tmp_path: Path) -> None:
    """A reference does not change with the key, and whoever has none sees nothing."""
    store = place.store(sealing())

    digest = store.put(CONTENT)

    elsewhere = place.store(sealing())
    opened = elsewhere.open(digest, tmp_path / "copy")
    assert digest == hashlib.sha256(CONTENT).hexdigest()
    assert looks_sealed(place.raw(digest))
    assert CANARY not in place.raw(digest)
    assert (elsewhere.has(digest), elsewhere.size(digest), elsewhere.read(digest)) == (True, len(CONTENT), CONTENT)
    assert (opened.read_bytes(), opened, opened.stat().st_mode & 0o777) == (CONTENT, tmp_path / "copy", 0o600)
    assert holding(CANARY, tmp_path) == [opened]


def test_the_same_content_again_changes_nothing(place: Place, tmp_path: Path) -> None:
    """Sealing is different each time, and yet what is there is left as it is, by workers and clients alike."""
    (tmp_path / "a.txt").write_bytes(CONTENT)
    digest = place.store(sealing()).put(CONTENT)
    before = place.raw(digest)

    place.store(sealing()).put(CONTENT)
    place.store(sealing()).put_file(tmp_path / "a.txt")
    store_documents([tmp_path / "a.txt"], place.location, encryption=sealing())

    assert place.raw(digest) == before


def test_what_was_changed_or_swapped_is_refused(place: Place, tmp_path: Path) -> None:
    """A flipped bit does not open, and what was sealed under another digest is not what this one names."""
    writer = place.store(sealing())
    flipped, swapped = writer.put(b"flipped"), writer.put(b"swapped")
    raw = place.raw(flipped)
    place.write(swapped, raw)
    place.write(flipped, raw[:-1] + bytes([raw[-1] ^ 1]))

    store = place.store(sealing())

    with pytest.raises(ArtifactLockedError, match="was changed"):
        store.read(flipped)
    with pytest.raises(ArtifactDamagedError):
        store.open(swapped, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_clear_content_is_refused_unless_it_is_accepted(place: Place) -> None:
    """Who can write where artifacts lie cannot slip one in; while encryption is switched on, old ones are read."""
    digest = place.store(None).put(CONTENT)

    with pytest.raises(ArtifactLockedError, match=r"is not encrypted.*ACCEPT_PLAIN"):
        place.store(sealing()).read(digest)
    assert place.store(sealing(accept_plain=True)).read(digest) == CONTENT


def test_clear_content_is_sealed_when_it_is_stored_again(place: Place) -> None:
    """Uploading once more is how old documents come under the key, even where clear ones are accepted."""
    digest = place.store(None).put(CONTENT)

    place.store(sealing(accept_plain=True)).put(CONTENT)

    assert sealing().open(place.raw(digest)) == CONTENT


def test_a_missing_key_is_named(place: Place) -> None:
    """Whoever reads the error learns which key to put back."""
    digest = place.store(sealing()).put(CONTENT)

    with pytest.raises(ArtifactLockedError, match="the key 'one'") as raised:
        place.store(Encryption({"two": OTHER_KEY}, "two")).read(digest)
    assert isinstance(raised.value.__cause__, KeyMissing)


def test_without_keys_sealed_content_is_named_and_not_replaced(place: Place, tmp_path: Path) -> None:
    """A worker or client whose keys were forgotten is told so, and does no harm to what others stored."""
    (tmp_path / "a.txt").write_bytes(CONTENT)
    digest = place.store(sealing()).put(CONTENT)
    before = place.raw(digest)
    without = place.store(None)

    attempts: list[Callable[[], object]] = [
        lambda: without.read(digest),
        lambda: without.open(digest, tmp_path / "copy"),
        lambda: without.put(CONTENT),
    ]
    for attempt in attempts:
        with pytest.raises(ArtifactLockedError, match="set CHARGEHAND_ENCRYPTION_KEYS"):
            attempt()
    with pytest.raises(UploadRefused, match=r"a\.txt cannot be uploaded: .*set CHARGEHAND_ENCRYPTION_KEYS"):
        store_documents([tmp_path / "a.txt"], place.location)
    assert place.raw(digest) == before


def test_what_nobody_stored_is_missing(tmp_path: Path) -> None:
    """With a key as without one."""
    store = ArtifactStore(tmp_path, sealing())

    with pytest.raises(ArtifactMissingError):
        store.open("0" * 64, tmp_path / "copy")
    with pytest.raises(ArtifactMissingError):
        store.read("0" * 64)
    with pytest.raises(ArtifactMissingError):
        store.size("0" * 64)


async def test_sealed_uploads_are_searched_and_clear_in_the_index_alone(place: Place, tmp_path: Path) -> None:
    """From a client's folder to a passage; what was decrypted for the parser is gone when the index is there."""
    documents = tmp_path / "staff"
    documents.mkdir()
    (documents / "handbook.md").write_text(HANDBOOK)
    (uri,) = store_documents([documents], place.location, encryption=sealing())
    library = DocumentLibrary(place.store(sealing()), tmp_path / "index")

    opened = await library.open((uri,))

    (passage,) = await opened.search("hotels", limit=1)
    assert passage.ref == "handbook.md#L12"
    assert opened.catalog.documents[0].bytes == len(HANDBOOK.encode())
    assert {path.name for path in holding(HANDBOOK.encode(), tmp_path)} == {"handbook.md", "index.sqlite"}


async def test_documents_that_cannot_be_opened_say_why(place: Place, tmp_path: Path) -> None:
    """A session whose worker lacks the key is told which, rather than failed."""
    (tmp_path / "a.md").write_bytes(CONTENT)
    uris = store_documents([tmp_path / "a.md"], place.location, encryption=sealing())
    library = DocumentLibrary(place.store(Encryption({"two": OTHER_KEY}, "two")), tmp_path / "index")

    opened = await library.open(uris)

    assert "the key 'one'" in opened.catalog.documents[0].problem
