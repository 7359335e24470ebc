"""Uploading documents: what lands in the artifact directory, what is left out and why."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from chargehand import upload
from chargehand.contracts.request import DocumentUri
from chargehand.errors import UploadRefused
from chargehand.upload import store_documents


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def manifest_of(uri: str, root: Path) -> dict[str, Any]:
    digest = uri.removeprefix("artifact:").partition("/")[0]
    content = (root / digest[:2] / digest).read_bytes()
    assert sha(content) == digest
    return json.loads(content)


def tree(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_file_is_stored_under_its_digest(tmp_path: Path) -> None:
    """A single file's URI is its digest and its name, with odd characters escaped; the bytes lie under the digest."""
    (tmp_path / "Q3 #1.md").write_bytes(b"# Results\n")
    digest = sha(b"# Results\n")

    uris = store_documents([tmp_path / "Q3 #1.md"], tmp_path / "artifacts")

    assert uris == (f"artifact:{digest}/Q3%20%231.md",)
    assert tree(tmp_path / "artifacts") == {f"{digest[:2]}/{digest}": b"# Results\n"}


def test_a_folder_is_a_manifest(tmp_path: Path) -> None:
    """A folder's URI names a manifest that lists its files by name, sorted, and those left out with reasons."""
    folder = tmp_path / "our docs"
    (folder / "b").mkdir(parents=True)
    (folder / "b" / "notes.py").write_text("print('ünïcode')")
    (folder / "a.csv").write_text("x,y\n1,2\n")
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
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
        ("picture.png", "its type is not supported"),
    ]


def test_uris_fit_the_contract(tmp_path: Path) -> None:
    """What the upload returns is what a request accepts."""
    folder = tmp_path / "ö % \N{SNOWMAN}"
    folder.mkdir()
    (folder / "ä b.txt").write_text("text")

    uris = store_documents([folder, folder / "ä b.txt"], tmp_path / "artifacts")

    assert [TypeAdapter(DocumentUri).validate_python(uri) for uri in uris] == list(uris)


def test_hidden_things_and_machinery_are_left_out(tmp_path: Path) -> None:
    """Version control, environments and hidden files are not documents, and neither is the artifact directory."""
    for name in (".git/config", ".venv/x.txt", "node_modules/x.txt", "__pycache__/x.txt", ".env", "artifacts/aa/bb"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("secret")
    (tmp_path / "kept.txt").write_text("kept")

    (uri,) = store_documents([tmp_path], tmp_path / "artifacts")

    manifest = manifest_of(uri, tmp_path / "artifacts")
    assert [file["name"] for file in manifest["files"]] == ["kept.txt"]
    assert manifest["skipped"] == []


def test_links_out_of_a_folder_are_not_followed(tmp_path: Path) -> None:
    """A link inside the folder is a document; one that leads out of it is named and left out."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "real.txt").write_text("real")
    (folder / "inside.txt").symlink_to("real.txt")
    (folder / "outside.txt").symlink_to("../secret.txt")
    (folder / "up").symlink_to("..")
    seen: list[tuple[str, str]] = []

    (uri,) = store_documents([folder], tmp_path / "artifacts", on_skip=lambda name, why: seen.append((name, why)))

    manifest = manifest_of(uri, tmp_path / "artifacts")
    assert [file["name"] for file in manifest["files"]] == ["inside.txt", "real.txt"]
    assert seen == [("outside.txt", "it is a link out of the folder")]


def test_what_cannot_be_used_is_named(tmp_path: Path) -> None:
    """A path that was asked for and cannot be used is an error, never a silent omission."""
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


def test_a_file_that_is_too_large_is_left_out(tmp_path: Path) -> None:
    """The ceiling is per file: 50 MB fit and one byte more does not."""
    for name, size in (("fits.txt", 50_000_000), ("large.csv", 50_000_001)):
        with (tmp_path / name).open("wb") as file:
            file.write(b"text")
            file.truncate(size)
    (tmp_path / "fits.txt").rename(tmp_path / "fits.md")

    (uri,) = store_documents([tmp_path], tmp_path / "artifacts")

    manifest = manifest_of(uri, tmp_path / "artifacts")
    assert [file["name"] for file in manifest["files"]] == ["fits.md"]
    assert manifest["skipped"] == [{"name": "large.csv", "reason": "it is larger than 50 MB"}]


def test_too_much_is_refused_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Totals are over everything that is uploaded together."""
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.txt").write_text(name * 10)

    monkeypatch.setattr(upload, "MOST_FILES", 2)
    with pytest.raises(UploadRefused, match=r"More than 2 files, reached at .*c\.txt"):
        store_documents([tmp_path / "a.txt", tmp_path / "b.txt", tmp_path / "c.txt"], tmp_path / "artifacts")
    monkeypatch.setattr(upload, "MOST_FILES", 3)
    monkeypatch.setattr(upload, "MOST_BYTES", 20)
    with pytest.raises(UploadRefused, match=r"reached at .*c\.txt: name a smaller folder"):
        store_documents([tmp_path], tmp_path / "artifacts")
