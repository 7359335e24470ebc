"""What the store of uploaded documents promises."""

import hashlib
from pathlib import Path

import pytest

from activities.documents.artifacts import ArtifactDamagedError, ArtifactMissingError, ArtifactStore


def test_content_lies_under_its_digest(tmp_path: Path) -> None:
    """Clients write to the same directory, so the layout is fixed: two digits, then the digest."""
    digest = ArtifactStore(tmp_path).put(b"words")

    assert digest == hashlib.sha256(b"words").hexdigest()
    assert (tmp_path / digest[:2] / digest).read_bytes() == b"words"


def test_storing_twice_leaves_one_file(tmp_path: Path) -> None:
    """The same content is stored once and no temporary file stays behind."""
    store = ArtifactStore(tmp_path)

    assert store.put(b"words") == store.put(b"words")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [hashlib.sha256(b"words").hexdigest()]


def test_a_file_cut_short_is_replaced(tmp_path: Path) -> None:
    """What a crashed writer left under a digest does not stay there for good."""
    store = ArtifactStore(tmp_path)
    path = store.open(store.put(b"words"), tmp_path / "copy")
    path.write_bytes(b"wo")

    store.put(b"words")

    assert store.read(path.name) == b"words"


def test_damaged_content_is_refused(tmp_path: Path) -> None:
    """Content that is not what its digest says is never handed out."""
    store = ArtifactStore(tmp_path)
    path = store.open(store.put(b"words"), tmp_path / "copy")
    path.write_bytes(b"wards")

    with pytest.raises(ArtifactDamagedError):
        store.open(path.name, tmp_path / "copy")
    with pytest.raises(ArtifactDamagedError):
        store.read(path.name)


@pytest.mark.parametrize("digest", ["0" * 64, "../../etc/passwd", "", "A" * 64])
def test_what_is_not_there_is_missing(tmp_path: Path, digest: str) -> None:
    """A digest that nobody stored, and a name that is no digest, end in the same error."""
    store = ArtifactStore(tmp_path)

    with pytest.raises(ArtifactMissingError):
        store.open(digest, tmp_path / "copy")
    for reach in (store.read, store.size):
        with pytest.raises(ArtifactMissingError):
            reach(digest)
