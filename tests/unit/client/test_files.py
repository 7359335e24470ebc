"""Files on their way to the workers and back: where each ends up, and what is left out and why."""

import base64
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from activities.documents.artifacts import ArtifactStore
from activities.documents.formats.registry import FORMATS
from chargehand import upload
from chargehand.bucket import bucket_location
from chargehand.contracts import Artifact
from chargehand.contracts.request import DocumentUri
from chargehand.errors import DownloadRefused, UploadRefused
from chargehand.payloads.encryption import Encryption
from chargehand.shared_files import Downloaded, download_artifacts, read_artifact
from chargehand.upload import READABLE, store_documents


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def manifest_of(uri: str, root: Path) -> dict[str, Any]:
    digest = uri.removeprefix("artifact:").partition("/")[0]
    content = (root / digest[:2] / digest).read_bytes()
    assert sha(content) == digest
    return json.loads(content)


def test_a_folder_is_uploaded_as_a_manifest(tmp_path: Path) -> None:
    folder = tmp_path / "our docs"
    (folder / "b").mkdir(parents=True)
    (folder / "b" / "notes.py").write_text("print('ünïcode')")
    (folder / "a.csv").write_text("x,y\n1,2\n")
    (folder / "tool.bin").write_bytes(b"\x7fELF\0\0")
    (folder / "empty.txt").touch()
    (uri,) = store_documents([folder], tmp_path / "artifacts")

    manifest = manifest_of(uri, tmp_path / "artifacts")
    assert uri.endswith("/our%20docs/")
    assert manifest["format"] == "chargehand-manifest-1"
    assert manifest["files"] == [
        {"name": "a.csv", "sha256": sha(b"x,y\n1,2\n"), "bytes": 8},
        {"name": "b/notes.py", "sha256": sha("print('ünïcode')".encode()), "bytes": 18},
    ]
    assert [(one["name"], one["reason"].partition(" (")[0]) for one in manifest["skipped"]] == [
        ("empty.txt", "it is empty"),
        ("tool.bin", "its type is not supported"),
    ]


def test_clients_upload_every_format_that_workers_read() -> None:
    assert {suffix for known in FORMATS for suffix in known.suffixes} == READABLE


def test_a_file_is_stored_under_its_digest(tmp_path: Path) -> None:
    (tmp_path / "ä #1 %\N{SNOWMAN}.md").write_bytes(b"# Results\n")
    digest = sha(b"# Results\n")
    uris = store_documents([tmp_path / "ä #1 %\N{SNOWMAN}.md"], tmp_path / "artifacts")

    assert uris == (f"artifact:{digest}/%C3%A4%20%231%20%25%E2%98%83.md",)
    assert TypeAdapter(DocumentUri).validate_python(uris[0]) == uris[0]
    assert (tmp_path / "artifacts" / digest[:2] / digest).read_bytes() == b"# Results\n"


def test_hidden_files_and_links_out_of_a_folder_are_skipped(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    for name in (".git/config", ".venv/x.txt", "node_modules/x.txt", "__pycache__/x.txt", ".env", "artifacts/aa/bb"):
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text("secret")
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "real.txt").write_text("real")
    (folder / "inside.txt").symlink_to("real.txt")
    (folder / "outside.txt").symlink_to("../secret.txt")
    (folder / "up").symlink_to("..")
    seen: list[tuple[str, str]] = []
    (uri,) = store_documents([folder], folder / "artifacts", on_skip=lambda name, why: seen.append((name, why)))

    manifest = manifest_of(uri, folder / "artifacts")
    assert [file["name"] for file in manifest["files"]] == ["inside.txt", "real.txt"]
    assert seen == [("outside.txt", "it is a link out of the folder")]


def test_an_unusable_document_path_is_an_error(tmp_path: Path) -> None:
    unusable: list[tuple[Callable[[Path], object], str]] = [
        (lambda _: None, "There is no file or folder .*thing"),
        (lambda path: path.mkdir(), "holds no document that can be read"),
        (lambda path: path.touch(), "cannot be used: it is empty"),
        (lambda path: path.write_bytes(b"\0\xff"), "cannot be used: its type is not supported"),
        (lambda path: path.symlink_to(path.name), "cannot be uploaded|There is no file"),
    ]
    for number, (make, message) in enumerate(unusable):
        thing = tmp_path / f"thing{number}"
        make(thing)
        with pytest.raises(UploadRefused, match=message):
            store_documents([thing], tmp_path / "artifacts")


def test_files_over_50_mb_are_skipped(tmp_path: Path) -> None:
    for name, size in (("fits.txt", 50_000_000), ("large.csv", 50_000_001)):
        with (tmp_path / name).open("wb") as file:
            file.write(b"text")
            file.truncate(size)
    (tmp_path / "fits.txt").rename(tmp_path / "fits.md")
    (uri,) = store_documents([tmp_path], tmp_path / "artifacts")

    manifest = manifest_of(uri, tmp_path / "artifacts")
    assert [file["name"] for file in manifest["files"]] == ["fits.md"]
    assert manifest["skipped"] == [{"name": "large.csv", "reason": "it is larger than 50 MB"}]


def test_an_upload_over_the_total_limits_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.txt").write_text(name * 10)

    monkeypatch.setattr(upload, "MOST_FILES", 2)
    with pytest.raises(UploadRefused, match=r"More than 2 files, reached at .*c\.txt"):
        store_documents([tmp_path / "a.txt", tmp_path / "b.txt", tmp_path / "c.txt"], tmp_path / "artifacts")
    monkeypatch.setattr(upload, "MOST_FILES", 3)
    monkeypatch.setattr(upload, "MOST_BYTES", 20)
    with pytest.raises(UploadRefused, match=r"reached at .*c\.txt: name a smaller folder"):
        store_documents([tmp_path], tmp_path / "artifacts")


_KEYS = f'{{"one": "{base64.b64encode(bytes(range(32))).decode()}"}}'


def _artifact(content: bytes, name: str = "chart.png") -> Artifact:
    return Artifact(uri=f"artifact:{sha(content)}/{name}", name=name, media_type="image/png", bytes=len(content))


def _store(root: Path, *contents: bytes) -> Path:
    for content in contents:
        ArtifactStore(root).put(content)
    return root


@pytest.mark.parametrize(
    "name",
    [
        *("../../escaped.png", "/no-such-folder/job", "..\\up.png", "..", "", ".bashrc", "a\0\x1b[31mb.png", "x" * 300),
        *("あ" * 1_000 + ".txt", "x." + "日" * 100, "𝔞" * 300, "\0", "\ud800.txt", "\u202e"),
    ],
)
def test_no_artifact_name_escapes_the_download_folder(tmp_path: Path, name: str) -> None:
    root, to = _store(tmp_path / "store", b"one", b"two"), tmp_path / "to"
    made = [_artifact(content).model_copy(update={"name": name}) for content in (b"one", b"two")]
    paths = [each.path for each in download_artifacts(made, root, to, replace=True)]

    assert [path.read_bytes() for path in paths] == [b"one", b"two"]
    assert {*to.iterdir()} == {*paths}
    assert all(path.name.isprintable() and not path.name.startswith(".") for path in paths)
    assert {each.name for each in tmp_path.iterdir()} == {"store", "to"}


def test_two_artifacts_with_the_same_name_are_both_downloaded(tmp_path: Path) -> None:
    root = _store(tmp_path / "store", b"one", b"two")
    one, two = _artifact(b"one"), _artifact(b"two", "CHART.png")
    downloaded = [*download_artifacts([one, two, one], root, tmp_path / "to")]

    assert downloaded == [
        Downloaded(one, tmp_path / "to" / "chart.png"),
        Downloaded(two, tmp_path / "to" / "CHART (2).png"),
    ]
    assert [each.path.read_bytes() for each in downloaded] == [b"one", b"two"]


def test_existing_files_are_kept_unless_replace_is_set(tmp_path: Path) -> None:
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


def test_downloads_do_not_follow_symbolic_links(tmp_path: Path) -> None:
    root, to, outside = _store(tmp_path / "store", b"made"), tmp_path / "to", tmp_path / "outside"
    to.mkdir()
    (to / "chart.png").symlink_to(outside)
    for replace in (False, True):
        (downloaded,) = download_artifacts([_artifact(b"made")], root, to, replace=replace)
        assert (outside.exists(), (to / "chart.png").is_symlink()) == (False, not replace)
        assert bool(downloaded.problem) is not replace


def test_invalid_artifact_uris_and_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    for uri in ("artifact:../secret", "file:///etc/passwd", f"artifact:{'0' * 63}/x", f"artifact:{'A' * 64}/x"):
        with pytest.raises(DownloadRefused, match="not the address"):
            read_artifact(uri, tmp_path)
    with pytest.raises(DownloadRefused, match="cannot be used as a folder"):
        next(download_artifacts([_artifact(b"made")], tmp_path, tmp_path / "secret"))


def test_a_lost_file_does_not_prevent_other_downloads(tmp_path: Path) -> None:
    root = _store(tmp_path / "store", b"good", b"changed")
    damaged, missing, good = _artifact(b"changed", "a.png"), _artifact(b"never stored", "b.png"), _artifact(b"good")
    digest = sha(b"changed")
    (root / digest[:2] / digest).write_bytes(b"Changed")
    downloaded = [*download_artifacts([damaged, missing, good], root, tmp_path / "to")]

    assert [bool(each.problem) for each in downloaded] == [True, True, False]
    assert "is damaged: restore it from a backup" in downloaded[0].problem
    assert "Nothing is stored under" in downloaded[1].problem
    assert [*(tmp_path / "to").iterdir()] == [tmp_path / "to" / "chart.png"]


def test_encrypted_files_are_downloaded_only_with_their_key(tmp_path: Path) -> None:
    encryption, root = Encryption.from_text(_KEYS, "one"), tmp_path / "store"
    ArtifactStore(root, encryption).put(b"made")
    (opened,) = download_artifacts([_artifact(b"made")], root, tmp_path / "with", encryption=encryption)
    (locked,) = download_artifacts([_artifact(b"made")], root, tmp_path / "without")

    assert (opened.problem, opened.path.read_bytes()) == ("", b"made")
    assert "set CHARGEHAND_ENCRYPTION_KEYS and CHARGEHAND_ENCRYPTION_KEY_ID here too" in locked.problem
    assert not locked.path.exists()


def test_a_bucket_url_survives_conversion_to_a_path() -> None:
    """Options and settings pass `s3://…` as a path, which loses one slash."""
    assert str(bucket_location(Path("s3://documents/artifacts"))) == "s3://documents/artifacts/"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0", "\u202ex.txt", "\ud800"])
def test_impossible_file_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UploadRefused):
        store_documents([(name, b"text")], tmp_path)
    with pytest.raises(UploadRefused):
        store_documents([Path("a\0b")], tmp_path)
