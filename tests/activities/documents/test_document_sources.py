"""Which files a session's URIs lead to, and which they never lead to, whatever is swapped meanwhile."""

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_documents import manifest

from activities.documents.artifacts import ArtifactStore
from activities.documents.library import DocumentLibrary
from activities.documents.locations import DocumentSources
from activities.documents.safe_open import Beneath, locate, open_below, walk_below


def _sources(tmp_path: Path, *allowed: Path) -> tuple[DocumentSources, ArtifactStore]:
    store = ArtifactStore(tmp_path / "artifacts")
    return DocumentSources(store, allowed), store


def test_names_are_unique(tmp_path: Path) -> None:
    """Percent-escapes are decoded; equal names are prefixed with their folder, or else numbered."""
    sources, store = _sources(tmp_path)
    digest = store.put(b"A")
    folder = store.put(manifest([("café menu.md", digest, 1)]))

    uris = [f"artifact:{digest}/caf%C3%A9%20menu.md", f"artifact:{folder}/my%20docs/"]
    listing = sources.list([*uris, uris[0]])

    assert [file.name for file in listing.files] == ["café menu.md", "my docs/café menu.md", "café menu (2).md"]


def test_document_names_must_be_relative_paths(tmp_path: Path) -> None:
    """Absolute paths, `..` and control characters are refused."""
    sources, store = _sources(tmp_path)
    digest = store.put(b"A")

    names = ("../a.md", "/etc/passwd", "x/../../a.md", "a%00b.md", "a%0Ab.md")
    listing = sources.list([f"artifact:{digest}/{name}" for name in names])

    assert [file.problem for file in listing.files] == ["Its name is not a relative path."] * 5


def test_missing_uploads_are_reported_per_document(tmp_path: Path) -> None:
    """A missing file or folder, or an invalid manifest, is reported by name, and the others are still listed."""
    sources, store = _sources(tmp_path)
    gone = "0" * 64
    no_lists = [b"{}", b"[]", b"[" * 9_000, b"not json", b'{"format": "other", "files": []}', b"\xff\xfe"]

    folders = [f"artifact:{digest}/docs/" for digest in (gone, *map(store.put, no_lists))]
    listing = sources.list([*folders, f"artifact:{gone}/a.md", f"artifact:{store.put(b'B')}/b.md"])

    assert [bool(file.problem) for file in listing.files] == [True] * 8 + [False]
    assert [file.name for file in listing.files[-3:]] == ["docs (7)", "a.md", "b.md"]


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


@pytest.mark.parametrize("is_uploaded", [True, False])
async def test_undecodable_file_names_are_shown_with_replacement_characters(
    tmp_path: Path, *, is_uploaded: bool
) -> None:
    """The file itself is read, and so is the rest of its folder."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / os.fsdecode(b"\xff.md")).write_text("# Fees\n\nThe fee is 5 euro.\n")
    os.mkfifo(folder / os.fsdecode(b"\xfe.md"))
    sources, store = _sources(tmp_path, folder)
    uploaded = store.put(manifest([("\udcff.md", store.put(b"# Fees\n\nThe fee is 5 euro.\n"), 30)]))
    uri = f"artifact:{uploaded}/docs/" if is_uploaded else f"file:{folder}/"
    catalog = (await DocumentLibrary(store, tmp_path / "indexes", (folder,)).open((uri,))).catalog

    assert [each.name for each in catalog.documents] == ["\ufffd.md"]
    assert catalog.model_dump_json()
    assert is_uploaded or sources.list([uri]).skipped == ["\ufffd.md: not a regular file"]


def test_every_spelling_of_a_local_uri_works(tmp_path: Path) -> None:
    """One, two or three slashes, a localhost authority and percent-escapes name the same file."""
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
    """A link is not followed, and a pipe, which would block forever, is not opened."""
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


_STEPS = st.sampled_from(
    ["..", ".", "", "docs", "inside", "outside", "secret.md", "note.md", "deep", "out", "round", "loop", "NOTE.MD",
     "..%2f", "%2e%2e", "．．", "..\\", "~", "proc", "self", "fd", "3", "cwd", "root", "\0", "\ud800", "a" * 300]
)  # fmt: skip


def _quoted_twice(text: str) -> str:
    return quote(quote(text))


@pytest.fixture(scope="module")
def grounds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An allowed folder `inside` with files, folders and links in and out, next to a forbidden one."""
    grounds = tmp_path_factory.mktemp("grounds")
    for name in ("inside/note.md", "inside/docs/deep/note.md", "outside/secret.md", "outside/docs/note.md"):
        (grounds / name).parent.mkdir(parents=True, exist_ok=True)
        (grounds / name).write_text(name)
    (grounds / "inside" / "out").symlink_to(grounds / "outside")
    (grounds / "inside" / "docs" / "secret.md").symlink_to("../../outside/secret.md")
    (grounds / "inside" / "round").symlink_to(grounds / "inside" / "docs")
    (grounds / "inside" / "loop").symlink_to(grounds / "inside" / "loop")
    return grounds


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100, deadline=None)
@given(
    steps=st.lists(_STEPS, max_size=7),
    start=st.sampled_from(["{inside}/", "{inside}/../", "/", "", "//", "//localhost{inside}/"]),
    escape=st.sampled_from([str, quote, _quoted_twice]),
)
def test_no_path_escapes_the_allowed_folder(
    grounds: Path, steps: list[str], start: str, escape: Callable[[str], str]
) -> None:
    """Whatever the URI, every listed or opened file is inside the allowed folder."""
    inside = grounds / "inside"
    sources = DocumentSources(ArtifactStore(grounds / "artifacts"), (inside,))
    with suppress(UnicodeEncodeError):
        steps = [escape(step) for step in steps]
    allowed = {inside.stat().st_ino, *(path.stat(follow_symlinks=False).st_ino for path in inside.rglob("*"))}

    listing = sources.list([f"file:{start.format(inside=inside)}{'/'.join(steps)}"])

    for file in listing.files:
        assert (file.place is None) == bool(file.problem)
        if file.place is not None:
            descriptor = open_below(file.place)
            opened = os.fstat(descriptor).st_ino
            os.close(descriptor)
            assert opened in allowed


@pytest.mark.parametrize("swapped", ["docs", "docs/note.md"], ids=["folder", "file"])
def test_swapping_a_path_for_a_link_never_escapes_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swapped: str
) -> None:
    """A directory replaced by a link between check and open, or during a walk, is not followed."""
    for name in ("inside/docs", "outside"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "note.md").write_text(name)
    inside, step = tmp_path / "inside", tmp_path / "inside" / swapped
    place = locate(str(inside / "docs" / "note.md"), (inside,))
    assert place is not None
    open_step = os.open

    def swap_before(path: os.PathLike[str] | str, flags: int, *, dir_fd: int | None = None) -> int:
        if dir_fd is not None and path == step.name:
            step.rename(inside / "aside")
            step.symlink_to(tmp_path / swapped.replace("docs", "outside"))
        return open_step(path, flags, dir_fd=dir_fd)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", swap_before)
        with pytest.raises(OSError, match=r"symbolic|Not a directory"):
            open_below(place)

    walked = {entry.status.st_ino for entry in walk_below(Beneath(inside, ()), frozenset()) if entry.is_regular}
    assert walked == {path.stat().st_ino for path in inside.glob("aside/note.md" if swapped == "docs" else "aside")}
