"""Files that tools made, on their way from the store to a folder of the user's."""

import base64
import hashlib
from pathlib import Path

import pytest

from activities.documents.artifacts import ArtifactStore, BucketStore
from chargehand.bucket import bucket_location, open_bucket
from chargehand.contracts import Artifact
from chargehand.download import Downloaded, download_artifacts, read_artifact
from chargehand.errors import DownloadRefused
from chargehand.payloads.encryption import Encryption
from tests.s3_server import BUCKET, serve_s3

_KEYS = f'{{"one": "{base64.b64encode(bytes(range(32))).decode()}"}}'


def _artifact(content: bytes, name: str = "chart.png") -> Artifact:
    digest = hashlib.sha256(content).hexdigest()
    return Artifact(uri=f"artifact:{digest}/{name}", name=name, media_type="image/png", bytes=len(content))


def _store(root: Path, *contents: bytes) -> Path:
    for content in contents:
        ArtifactStore(root).put(content)
    return root


def test_no_name_leads_out_of_the_folder(tmp_path: Path) -> None:
    """Whatever a tool called its file, it becomes one visible file of the folder, and nothing else is written."""
    root = _store(tmp_path / "store", b"made")
    names = (
        "../../escaped.png",
        "/no-such-folder/job",
        "..\\up.png",
        "..",
        "",
        ".bashrc",
        "a\0\x1b[31mb.png",
        "x" * 300,
    )
    for number, name in enumerate(names):
        to = tmp_path / f"to{number}"
        (downloaded,) = download_artifacts([_artifact(b"made", name)], root, to)
        assert [*to.iterdir()] == [downloaded.path]
        assert downloaded.path.read_bytes() == b"made"
        assert downloaded.path.name.isprintable()
        assert not downloaded.path.name.startswith(".")

    assert {each.name for each in tmp_path.iterdir()} == {"store", *(f"to{number}" for number in range(len(names)))}


def test_two_files_of_one_name_are_two(tmp_path: Path) -> None:
    """Two subtasks that both made `chart.png` lose nothing; one file that is named twice is brought once."""
    root = _store(tmp_path / "store", b"one", b"two")
    one, two = _artifact(b"one"), _artifact(b"two", "CHART.png")

    downloaded = [*download_artifacts([one, two, one], root, tmp_path / "to")]

    assert downloaded == [
        Downloaded(one, tmp_path / "to" / "chart.png"),
        Downloaded(two, tmp_path / "to" / "CHART (2).png"),
    ]
    assert [each.path.read_bytes() for each in downloaded] == [b"one", b"two"]


def test_what_is_there_is_left_alone_unless_it_may_be_replaced(tmp_path: Path) -> None:
    """Another file of the name stays as it is, and is named; the same file is no problem; `replace` replaces."""
    root, to, made = _store(tmp_path / "store", b"made"), tmp_path / "to", _artifact(b"made")
    to.mkdir()
    (to / "chart.png").write_bytes(b"the user's own")

    (refused,) = download_artifacts([made], root, to)
    kept = (to / "chart.png").read_bytes()
    (replaced,) = download_artifacts([made], root, to, replace=True)
    (again,) = download_artifacts([made], root, to)

    assert (refused.problem, kept) == (
        "Another file of this name exists already and was left alone.",
        b"the user's own",
    )
    assert (replaced.problem, again.problem) == ("", "")
    assert [*to.iterdir()] == [to / "chart.png"]
    assert (to / "chart.png").read_bytes() == b"made"


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    """A link in the folder leads no bytes elsewhere: it is left alone, or replaced by the file."""
    root, to, outside = _store(tmp_path / "store", b"made"), tmp_path / "to", tmp_path / "outside"
    to.mkdir()
    (to / "chart.png").symlink_to(outside)
    for replace in (False, True):
        (downloaded,) = download_artifacts([_artifact(b"made")], root, to, replace=replace)
        assert (outside.exists(), (to / "chart.png").is_symlink()) == (False, not replace)
        assert bool(downloaded.problem) is not replace


def test_what_cannot_be_used_is_said_so(tmp_path: Path) -> None:
    """Only a digest names a file: no path gets into the store; a file where the folder should be is refused at once."""
    (tmp_path / "secret").write_bytes(b"secret")
    for uri in ("artifact:../secret", "file:///etc/passwd", f"artifact:{'0' * 63}/x", f"artifact:{'A' * 64}/x"):
        with pytest.raises(DownloadRefused, match="not the address"):
            read_artifact(uri, tmp_path)
    with pytest.raises(DownloadRefused, match="cannot be used as a folder"):
        next(download_artifacts([_artifact(b"made")], tmp_path, tmp_path / "secret"))


def test_one_file_that_is_lost_does_not_keep_the_others(tmp_path: Path) -> None:
    """What is missing or damaged is named with its remedy, and everything else is brought."""
    root = _store(tmp_path / "store", b"good", b"changed")
    damaged, missing, good = _artifact(b"changed", "a.png"), _artifact(b"never stored", "b.png"), _artifact(b"good")
    digest = hashlib.sha256(b"changed").hexdigest()
    (root / digest[:2] / digest).write_bytes(b"Changed")

    downloaded = [*download_artifacts([damaged, missing, good], root, tmp_path / "to")]

    assert [bool(each.problem) for each in downloaded] == [True, True, False]
    assert "is damaged: restore it from a backup" in downloaded[0].problem
    assert "Nothing is stored under" in downloaded[1].problem
    assert [*(tmp_path / "to").iterdir()] == [tmp_path / "to" / "chart.png"]


def test_sealed_files_are_opened_with_their_key_only(tmp_path: Path) -> None:
    """From a directory or a bucket, what workers sealed arrives in clear; without the keys the settings are named.

    Options and settings hand `s3://…` on as a path, which has one slash less; what is missing is missing there.
    """
    encryption = Encryption.from_text(_KEYS, "one")
    bucket = f"s3://{BUCKET}/artifacts"
    location = bucket_location(bucket)
    assert location
    with serve_s3():
        ArtifactStore(tmp_path / "store", encryption).put(b"made")
        BucketStore(open_bucket(location), tmp_path / "cache", encryption).put(b"made")
        for root in (str(tmp_path / "store"), Path(bucket)):
            to = tmp_path / f"from-{type(root).__name__}"
            (opened,) = download_artifacts([_artifact(b"made")], root, to, encryption=encryption)
            (locked,) = download_artifacts([_artifact(b"made")], root, tmp_path / "without")
            assert (opened.problem, opened.path.read_bytes()) == ("", b"made")
            assert "set CHARGEHAND_ENCRYPTION_KEYS and CHARGEHAND_ENCRYPTION_KEY_ID here too" in locked.problem
            assert not locked.path.exists()
        (missing,) = download_artifacts([_artifact(b"other")], Path(bucket), tmp_path)

    assert f"in {bucket}/: name the place" in missing.problem
