"""The store of uploaded documents, in a directory and in a bucket, with a key and without one."""

import hashlib
import io
import os
import stat
from collections.abc import Callable, Generator
from itertools import product
from pathlib import Path

import pytest
from made_documents import HANDBOOK

from activities.documents.artifacts import ArtifactError, Artifacts, open_artifacts
from activities.documents.library import DocumentLibrary
from chargehand.bucket import Directory, open_folder
from chargehand.errors import UploadRefused
from chargehand.payloads.encryption import Encryption, looks_sealed
from chargehand.payloads.errors import KeyMissing
from chargehand.upload import store_documents
from tests.google_server import serve_google
from tests.s3_server import BUCKET, serve_s3

KEY, OTHER_KEY = bytes(range(32)), bytes(range(32, 64))
CANARY = b"canary-51d0"
CONTENT = CANARY + b" sings. " * 1_000


class Place:
    """A directory or a bucket, as stores and clients use it, and as its owner reads and writes it without keys."""

    def __init__(self, location: Path | str, folder: Path) -> None:
        self.location = location
        self._bucket = open_folder(location)
        self._folder = folder
        self._stores = 0

    def store(self, encryption: Encryption | None = None) -> Artifacts:
        """Open it as a newly started worker on a separate host would."""
        self._stores += 1
        return open_artifacts(self.location, self._folder / f"fetched-{self._stores}", encryption)

    def raw(self, digest: str) -> bytes:
        content = io.BytesIO()
        assert self._bucket.fetch(f"{digest[:2]}/{digest}", content)
        return content.getvalue()

    def write(self, digest: str, raw: bytes) -> None:
        self._bucket.put(f"{digest[:2]}/{digest}", raw)


@pytest.fixture(scope="module")
def s3() -> Generator[object]:
    """Serve an S3 for all of these tests, each with its own prefix."""
    with serve_s3() as client:
        yield client


@pytest.fixture(params=["directory", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "directory":
        return Place(tmp_path / "stored", tmp_path)
    request.getfixturevalue("s3")
    return Place(f"s3://{BUCKET}/{tmp_path.name}", tmp_path)


@pytest.fixture(params=["with a key", "without a key"])
def encryption(request: pytest.FixtureRequest) -> Encryption | None:
    return sealing() if request.param == "with a key" else None


def sealing(*, accept_plain: bool = False) -> Encryption:
    return Encryption({"one": KEY}, "one", accept_plain=accept_plain)


def files_with(content: bytes, folder: Path) -> list[Path]:
    """Find the files that contain something unencrypted."""
    return [path for path in folder.rglob("*") if path.is_file() and content in path.read_bytes()]


def test_artifacts_stored_on_one_host_are_read_on_another(
    place: Place, tmp_path: Path, encryption: Encryption | None
) -> None:
    """Every store has the same layout, so one can be copied to another; encryption changes no digest."""
    digest = place.store(encryption).put(CONTENT)

    elsewhere = place.store(encryption)
    opened = elsewhere.open(digest, tmp_path / "copy")
    assert digest == hashlib.sha256(CONTENT).hexdigest()
    assert (elsewhere.has(digest), elsewhere.size(digest), elsewhere.read(digest)) == (True, len(CONTENT), CONTENT)
    assert opened.read_bytes() == CONTENT
    if encryption is None:
        assert place.raw(digest) == CONTENT
    else:
        assert looks_sealed(place.raw(digest))
        assert (opened, opened.stat().st_mode & 0o777) == (tmp_path / "copy", 0o600)
        assert files_with(CANARY, tmp_path) == [opened]


def test_storing_the_same_content_again_changes_nothing(
    place: Place, tmp_path: Path, encryption: Encryption | None
) -> None:
    """Encryption differs each time, yet workers and clients leave existing content as it is."""
    (tmp_path / "a.txt").write_bytes(CONTENT)
    digest = place.store(encryption).put(CONTENT)
    before = place.raw(digest)

    place.store(encryption).put(CONTENT)
    place.store(encryption).put_file(tmp_path / "a.txt")
    store_documents([tmp_path / "a.txt"], place.location, encryption=encryption)

    assert place.raw(digest) == before
    assert list(tmp_path.rglob(".*")) == []


def test_missing_content_raises_an_artifact_error(place: Place, tmp_path: Path, encryption: Encryption | None) -> None:
    """Every store raises the same error, also for a name that is not a digest."""
    store = place.store(encryption)
    reaches: list[Callable[[str], object]] = [
        lambda digest: store.open(digest, tmp_path / "copy"),
        store.read,
        store.size,
    ]
    for digest, reach in product(["0" * 64, "../../etc/passwd", "", "A" * 64], reaches):
        with pytest.raises(ArtifactError, match=r"nothing is stored|64 hexadecimal"):
            reach(digest)

    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("place", ["bucket"], indirect=True)
def test_fetched_content_is_cached_until_the_copy_is_damaged(place: Place, tmp_path: Path) -> None:
    """Content under a digest never changes, so it is fetched once; a damaged copy is fetched again."""
    store = place.store()
    digest = store.put(b"kept here")
    copy = store.open(digest, tmp_path / "copy")

    place.write(digest, b"swapped!!")
    kept = store.read(digest)
    place.write(digest, b"kept here")
    copy.write_bytes(b"ke")

    assert (kept, store.read(digest)) == (b"kept here", b"kept here")


@pytest.mark.parametrize(("scheme", "serve"), [("s3", serve_s3), ("gs", serve_google)])
def test_a_missing_bucket_is_named_in_the_error(scheme: str, serve: Callable[..., object], tmp_path: Path) -> None:
    """The error also points the operator to the permissions of the credentials."""
    with serve(), pytest.raises(ArtifactError, match=rf"{scheme}://elsewhere/.*permissions of these credentials"):  # pyright: ignore[reportGeneralTypeIssues]  # both are context managers
        open_artifacts(f"{scheme}://elsewhere", tmp_path).put(b"words")


def test_changed_or_swapped_encrypted_content_is_refused(place: Place, tmp_path: Path) -> None:
    """A flipped bit fails authentication, and content encrypted for another digest does not match this one."""
    writer = place.store(sealing())
    flipped, swapped = writer.put(b"flipped"), writer.put(b"swapped")
    raw = place.raw(flipped)
    place.write(swapped, raw)
    place.write(flipped, raw[:-1] + bytes([raw[-1] ^ 1]))

    store = place.store(sealing())

    with pytest.raises(ArtifactError, match="was changed"):
        store.read(flipped)
    with pytest.raises(ArtifactError, match="is damaged"):
        store.open(swapped, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_unencrypted_content_is_refused_unless_accepted(place: Place) -> None:
    """During a switch to encryption, old documents can be read, and uploading them again encrypts them."""
    digest = place.store().put(CONTENT)
    accepting = place.store(sealing(accept_plain=True))

    with pytest.raises(ArtifactError, match=r"is not encrypted.*ACCEPT_PLAIN"):
        place.store(sealing()).read(digest)
    assert accepting.read(digest) == CONTENT
    accepting.put(CONTENT)
    assert sealing().open(place.raw(digest)) == CONTENT


def test_encrypted_content_without_keys_is_reported_and_not_replaced(place: Place, tmp_path: Path) -> None:
    """A worker or client without keys gets an error that names the setting, and overwrites nothing."""
    (tmp_path / "a.txt").write_bytes(CONTENT)
    digest = place.store(sealing()).put(CONTENT)
    before = place.raw(digest)
    without = place.store()

    attempts: list[Callable[[], object]] = [
        lambda: without.read(digest),
        lambda: without.open(digest, tmp_path / "copy"),
        lambda: without.put(CONTENT),
    ]
    for attempt in attempts:
        with pytest.raises(ArtifactError, match="set CHARGEHAND_ENCRYPTION_KEYS"):
            attempt()
    with pytest.raises(UploadRefused, match=r"a\.txt cannot be uploaded: .*set CHARGEHAND_ENCRYPTION_KEYS"):
        store_documents([tmp_path / "a.txt"], place.location)
    assert place.raw(digest) == before


async def test_a_missing_encryption_key_is_named(place: Place, tmp_path: Path) -> None:
    """The error and the document's problem name the key, and the session does not fail."""
    (tmp_path / "a.md").write_bytes(CONTENT)
    uris = store_documents([tmp_path / "a.md"], place.location, encryption=sealing())
    store = place.store(Encryption({"two": OTHER_KEY}, "two"))

    opened = await DocumentLibrary(store, tmp_path / "index").open(uris)

    assert "the key 'one'" in opened.catalog.documents[0].problem
    with pytest.raises(ArtifactError, match="the key 'one'") as raised:
        store.read(hashlib.sha256(CONTENT).hexdigest())
    assert isinstance(raised.value.__cause__, KeyMissing)


async def test_uploads_are_searched_on_another_host(
    place: Place, tmp_path: Path, encryption: Encryption | None
) -> None:
    """With encryption, the only decrypted copies are the user's own file and the index."""
    documents = tmp_path / "staff"
    documents.mkdir()
    (documents / "handbook.md").write_text(HANDBOOK)
    (uri,) = store_documents([documents], place.location, encryption=encryption)
    library = DocumentLibrary(place.store(encryption), tmp_path / "index")

    opened = await library.open((uri,))

    (passage,) = (await opened.search("hotels", limit=1)).passages
    assert passage.ref == "handbook.md#L12"
    assert opened.catalog.documents[0].bytes == len(HANDBOOK.encode())
    if encryption is not None:
        assert {path.name for path in files_with(HANDBOOK.encode(), tmp_path)} == {"handbook.md", "index.sqlite"}


@pytest.mark.parametrize(("mode", "file", "folder"), [(0o700, 0o600, 0o700), (0o755, 0o644, 0o755)])
def test_files_below_a_private_folder_are_private(tmp_path: Path, mode: int, file: int, folder: int) -> None:
    """Whatever is stored below a folder of one user, such as the state directory, is for that user alone."""
    before = os.umask(0o022)
    try:
        state = tmp_path / "state"
        state.mkdir(mode)
        for name in ("ab/abcd", "cd/cdef"):
            Directory(state / "artifacts").put(name, b"content")
    finally:
        os.umask(before)

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in state.rglob("*")}
    assert modes == {"artifacts": folder, "ab": folder, "cd": folder, "abcd": file, "cdef": file}


def test_damaged_content_is_refused_and_replaced(place: Place, tmp_path: Path) -> None:
    """Content that does not match its digest is never returned or cached; the next upload replaces it."""
    digest = hashlib.sha256(CONTENT).hexdigest()
    for content in (b"lies", b"", CONTENT[:5]):
        place.write(digest, content)
        store = place.store()
        for reach in (lambda: store.open(digest, tmp_path / "copy"), lambda: store.read(digest)):  # noqa: B023  # called at once
            with pytest.raises(ArtifactError, match="is damaged"):
                reach()

    assert not list(tmp_path.glob(f"fetched-*/*/{digest}"))
    place.store().put(CONTENT)
    assert place.store().read(digest) == CONTENT
