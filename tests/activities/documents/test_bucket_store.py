"""What the store of uploaded documents in a bucket promises, against servers that speak the wires of S3 and Google."""

import hashlib
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from made_documents import HANDBOOK, manifest

from activities.documents.artifacts import ArtifactDamagedError, ArtifactError, ArtifactMissingError, ArtifactStore
from activities.documents.bucket_store import BucketStore, open_artifacts
from activities.documents.library import DocumentLibrary
from chargehand.upload import store_documents
from tests.google_server import serve_google
from tests.s3_server import BUCKET, serve_s3


class Cloud:
    """A bucket as its owner sees it, beside the store."""

    def __init__(self, scheme: str, bucket: Any) -> None:
        self.root = f"{scheme}://{BUCKET}/team/a"
        self.nowhere = f"{scheme}://elsewhere"
        self._bucket = bucket

    def read(self, digest: str) -> bytes:
        if self.root.startswith("gs:"):
            return self._bucket.blob(_key(digest)).download_as_bytes()
        return self._bucket.get_object(Bucket=BUCKET, Key=_key(digest))["Body"].read()

    def write(self, digest: str, content: bytes) -> None:
        if self.root.startswith("gs:"):
            self._bucket.blob(_key(digest)).upload_from_string(content)
        else:
            self._bucket.put_object(Bucket=BUCKET, Key=_key(digest), Body=content)


@pytest.fixture(scope="module", params=["s3", "gs"])
def cloud(request: pytest.FixtureRequest) -> Generator[Cloud]:
    with serve_s3() if request.param == "s3" else serve_google() as bucket:
        yield Cloud(request.param, bucket)


def _key(digest: str) -> str:
    return f"team/a/{digest[:2]}/{digest}"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_content_lies_under_its_digest(cloud: Cloud, tmp_path: Path) -> None:
    """The layout is that of a directory, below the prefix, so that one can be copied to the other."""
    digest = open_artifacts(cloud.root, tmp_path).put(b"layout")

    assert digest == _digest(b"layout")
    assert cloud.read(digest) == b"layout"


def test_another_host_reads_what_one_has_stored(cloud: Cloud, tmp_path: Path) -> None:
    """Through the bucket alone, whatever way it is read."""
    digest = open_artifacts(cloud.root, tmp_path / "one").put(b"shared words")

    other = open_artifacts(cloud.root, tmp_path / "other")

    assert (other.has(digest), other.size(digest)) == (True, 12)
    assert other.open(digest, tmp_path / "copy").read_bytes() == b"shared words"
    assert other.read(digest) == b"shared words"


def test_what_was_fetched_once_is_not_fetched_again(cloud: Cloud, tmp_path: Path) -> None:
    """Content under a digest never changes, so a host keeps it."""
    store = open_artifacts(cloud.root, tmp_path)
    digest = store.put(b"kept here")
    store.open(digest, tmp_path / "copy")

    cloud.write(digest, b"swapped!!")

    assert store.read(digest) == b"kept here"


def test_a_damaged_copy_on_the_host_is_fetched_anew(cloud: Cloud, tmp_path: Path) -> None:
    """The bucket has it whole."""
    store = open_artifacts(cloud.root, tmp_path)
    digest = store.put(b"whole words")
    store.open(digest, tmp_path / "copy").write_bytes(b"wh")

    assert store.read(digest) == b"whole words"


def test_damaged_content_is_refused(cloud: Cloud, tmp_path: Path) -> None:
    """An object that is not what its digest says is never handed out, nor kept under that digest."""
    store = open_artifacts(cloud.root, tmp_path)
    digest = _digest(b"true words")
    cloud.write(digest, b"lies")

    with pytest.raises(ArtifactDamagedError):
        store.open(digest, tmp_path / "copy")
    assert not ArtifactStore(tmp_path).has(digest)


@pytest.mark.parametrize("digest", ["0" * 64, "../../etc/passwd", "", "A" * 64])
def test_what_is_not_there_is_missing(cloud: Cloud, tmp_path: Path, digest: str) -> None:
    """The same error as from a directory, also for a name that is no digest."""
    store = open_artifacts(cloud.root, tmp_path)

    with pytest.raises(ArtifactMissingError):
        store.open(digest, tmp_path / "copy")
    for reach in (store.read, store.size):
        with pytest.raises(ArtifactMissingError):
            reach(digest)
    assert list(tmp_path.rglob("*")) == []


def test_a_bucket_that_is_not_there_is_named(cloud: Cloud, tmp_path: Path) -> None:
    """Whoever set it up learns what to look at."""
    with pytest.raises(ArtifactError, match=rf"{cloud.nowhere}/.*permissions of these credentials"):
        open_artifacts(cloud.nowhere, tmp_path).put(b"words")


def test_a_path_is_a_directory(tmp_path: Path) -> None:
    """Without a bucket everything is as it was."""
    assert isinstance(open_artifacts(tmp_path, tmp_path / "cache"), ArtifactStore)
    assert isinstance(open_artifacts(Path("s3://documents/x"), tmp_path), BucketStore)


async def test_documents_uploaded_by_the_client_are_read_on_another_host(cloud: Cloud, tmp_path: Path) -> None:
    """A folder and a file, from the client's bucket to a passage with its place."""
    (tmp_path / "staff").mkdir()
    (tmp_path / "staff" / "handbook.md").write_text(HANDBOOK)
    (tmp_path / "note.txt").write_text("The canteen closes at three o'clock on Fridays.\n")
    uris = store_documents([tmp_path / "staff", tmp_path / "note.txt"], cloud.root)

    library = DocumentLibrary(open_artifacts(cloud.root, tmp_path / "cache"), tmp_path / "index")
    opened = await library.open(uris)

    assert {passage.ref for passage in await opened.search("hotels canteen")} == {"handbook.md#L12", "note.txt#L1"}


async def test_a_bucket_out_of_reach_is_a_problem_of_its_documents(tmp_path: Path) -> None:
    """A session is told, rather than failed; Google does not tell a bucket that is not there from an empty one."""
    with serve_s3():
        library = DocumentLibrary(open_artifacts("s3://elsewhere", tmp_path / "cache"), tmp_path / "index")

        opened = await library.open((f"artifact:{'0' * 64}/a.md", f"artifact:{_digest(manifest([]))}/docs/"))

    file, folder = opened.catalog.documents
    assert file.problem.startswith("It was not found: nothing is stored under 0000")
    assert "s3://elsewhere/ cannot be used" in folder.problem
