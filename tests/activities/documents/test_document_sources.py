"""Which files a session's URIs lead to, and which they never lead to."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from made_documents import manifest

from activities.documents.artifacts import ArtifactStore
from activities.documents.locations import DocumentSources


def _sources(tmp_path: Path, *allowed: Path) -> tuple[DocumentSources, ArtifactStore]:
    store = ArtifactStore(tmp_path / "artifacts")
    return DocumentSources(store, allowed), store


def test_names_are_unique(tmp_path: Path) -> None:
    """Percent-escapes are undone; files of one name are told apart by their folder, else by a number."""
    sources, store = _sources(tmp_path)
    digest = store.put(b"A")
    folder = store.put(manifest([("café menu.md", digest, 1)]))

    uris = [f"artifact:{digest}/caf%C3%A9%20menu.md", f"artifact:{folder}/my%20docs/"]
    listing = sources.list([*uris, uris[0]])

    assert [file.name for file in listing.files] == ["café menu.md", "my docs/café menu.md", "café menu (2).md"]


def test_a_name_cannot_lead_elsewhere(tmp_path: Path) -> None:
    """Names come from outside and are only ever relative paths."""
    sources, store = _sources(tmp_path)
    digest = store.put(b"A")

    listing = sources.list(
        [f"artifact:{digest}/{name}" for name in ("../a.md", "/etc/passwd", "x/../../a.md", "a%00b.md", "a%0Ab.md")]
    )

    assert [file.problem for file in listing.files] == ["Its name is not a relative path."] * 5


def test_what_was_not_uploaded_is_a_problem_of_its_document(tmp_path: Path) -> None:
    """A missing file or folder, and what is no list of files, are reported by name; the others are still listed."""
    sources, store = _sources(tmp_path)
    gone = "0" * 64
    no_lists = [b"{}", b"[]", b"not json", b'{"format": "other", "files": []}', b"\xff\xfe"]

    listing = sources.list(
        [
            *(f"artifact:{digest}/docs/" for digest in (gone, *map(store.put, no_lists))),
            f"artifact:{gone}/a.md",
            f"artifact:{store.put(b'B')}/b.md",
        ]
    )

    assert [bool(file.problem) for file in listing.files] == [True] * 7 + [False]
    assert [file.name for file in listing.files[-3:]] == ["docs (6)", "a.md", "b.md"]


def test_a_local_folder_is_walked_in_order(tmp_path: Path) -> None:
    """Hidden files, caches and links are left out."""
    docs = tmp_path / "docs"
    for name in ("b.md", "a/c.md", ".git/config", "node_modules/x.md", ".hidden.md"):
        (docs / name).parent.mkdir(parents=True, exist_ok=True)
        (docs / name).write_text("words")
    (docs / "link.md").symlink_to(docs / "b.md")
    sources, _ = _sources(tmp_path, docs)

    listing = sources.list([f"file:{docs}/"])

    assert [file.name for file in listing.files] == ["b.md", "a/c.md"]
    assert listing.skipped == ["link.md: not a regular file"]


def test_every_spelling_of_a_local_uri_works(tmp_path: Path) -> None:
    """One, two or three slashes, and percent-escapes, all name the same file."""
    (tmp_path / "my notes.md").write_text("words")
    sources, _ = _sources(tmp_path, tmp_path)
    for form in ("file:{}", "file://{}", "file://localhost{}"):
        listing = sources.list([form.format(f"{tmp_path}/my%20notes.md")])
        assert [(file.name, file.bytes) for file in listing.files] == [("my notes.md", 5)], form


@pytest.mark.parametrize(
    ("swap", "refusal"),
    [(partial(os.symlink, "../secret.md"), "symbolic|links"), (os.mkfifo, "not a regular file")],
    ids=["link", "pipe"],
)
def test_a_file_swapped_after_its_listing_is_not_read(
    tmp_path: Path, swap: Callable[[Path], None], refusal: str
) -> None:
    """A link is not followed, and a pipe, which would wait for a writer for ever, is not opened."""
    (tmp_path / "secret.md").write_text("secret")
    note = tmp_path / "docs" / "note.md"
    note.parent.mkdir()
    note.write_text("words")
    sources, _ = _sources(tmp_path, note.parent)
    [file] = sources.list([f"file:{note}"]).files

    note.unlink()
    swap(note)

    with pytest.raises(OSError, match=refusal):
        sources.fetch(file, tmp_path / "copy")
