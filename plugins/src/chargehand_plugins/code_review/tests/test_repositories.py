"""Hostile repositories, and diffs that lie."""

import os
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from dulwich import porcelain
from dulwich.objects import Blob

from chargehand_plugins.code_review.diff import ChangedFile, Line, parse_diff
from chargehand_plugins.code_review.git_folder import GitFolder, RepositoryError, RepositoryReader
from chargehand_plugins.code_review.repository import Repository


def repository(folder: Path, *versions: str, seconds: int | None = None) -> Path:
    folder.mkdir()
    with porcelain.open_repo_closing(porcelain.init(str(folder))) as repo:
        for number, text in enumerate(versions, start=1):
            (folder / "a.py").write_text(text, encoding="utf-8")
            porcelain.add(repo, [str(folder / "a.py")])
            by: dict[str, Any] = {"author": b"A <a@b>", "committer": b"A <a@b>", "commit_timestamp": seconds}
            porcelain.commit(repo, f"Version {number}\n\nWhy.", sign=False, **by)
    return folder


def _link_git(folder: Path, outside: Path) -> None:
    (folder / ".git").rename(outside / "git")
    (folder / ".git").symlink_to(outside / "git")


def _git_file(folder: Path, outside: Path) -> None:
    (folder / ".git").rename(outside / "git")
    (folder / ".git").write_text(f"gitdir: {outside / 'git'}\n")


def _link_inside(folder: Path, outside: Path) -> None:
    (folder / ".git/objects").rename(outside / "objects")
    (folder / ".git/objects").symlink_to(outside / "objects")


def _alternates(folder: Path, outside: Path) -> None:
    (folder / ".git/objects/info").mkdir(exist_ok=True)
    (folder / ".git/objects/info/alternates").write_text(f"{outside}\n")


def _pipe(folder: Path, _: Path) -> None:
    os.mkfifo(folder / ".git/FETCH_HEAD")


@pytest.mark.parametrize("trick", [_link_git, _git_file, _link_inside, _alternates, _pipe])
def test_a_repository_that_points_outside_itself_is_refused(
    tmp_path: Path, trick: Callable[[Path, Path], None]
) -> None:
    """Links, a .git file, alternates and pipes cannot make a reviewer read anything else."""
    (tmp_path / "outside").mkdir()
    folder = repository(tmp_path / "repo", "a = 1\n")
    trick(folder, tmp_path / "outside")

    with pytest.raises(RepositoryError):
        Repository(folder)


def test_the_newest_commit_is_reviewed_with_its_history(tmp_path: Path) -> None:
    """Files are read as of that commit, and commits are listed with their notes."""
    folder = repository(tmp_path / "repo", "a = 1\n", "a = 1\n\fb = 2\n")
    found = Repository(folder)
    porcelain.notes_add(str(folder), found.id.encode(), b"Reviewed:\nno form feeds.", author=b"A <a@b>")

    [file] = parse_diff(found.diff())
    assert (file.path, file.added, file.removed) == ("a.py", {2: "\fb = 2"}, 0)
    assert found.read("a.py") == "a = 1\n\fb = 2\n"
    assert found.read("../../etc/passwd") is None
    history = [(commit.subject, commit.note) for commit in found.history("a.py", 20)]
    assert history == [("Version 2", "Reviewed: no form feeds."), ("Version 1", "")]


def test_an_out_of_range_commit_time_is_clamped(tmp_path: Path) -> None:
    """A hostile commit time of 10^18 seconds becomes the year 9999."""
    [late] = Repository(repository(tmp_path / "repo", "a = 1\n", seconds=10**18)).history("a.py", 20)

    assert datetime.fromtimestamp(late.seconds, UTC).year == 9999


@pytest.mark.nightly
async def test_a_decompression_bomb_in_git_does_not_break_the_worker(tmp_path: Path) -> None:
    """The reading process refuses it, and the next repository is read."""
    hostile, honest = repository(tmp_path / "hostile", "a = 1\n"), repository(tmp_path / "honest", "a = 1\n")
    packing = zlib.compressobj()
    head = packing.compress(b"blob 4000000000\0") + packing.flush(zlib.Z_FULL_FLUSH)
    zeros = packing.compress(bytes(1 << 24)) + packing.flush(zlib.Z_FULL_FLUSH)
    blob = Blob.from_string(b"a = 1\n").id.decode()
    stored = hostile / ".git/objects" / blob[:2] / blob[2:]
    stored.chmod(0o600)
    stored.write_bytes(head + 256 * zeros)
    reader = RepositoryReader()

    with pytest.raises(RepositoryError, match="more memory"):
        await GitFolder(hostile, reader).read("a.py")
    [change] = await GitFolder(honest, reader).change()
    text = await GitFolder(honest, reader).read("a.py")
    await reader.close()

    assert (change.added, text) == ({1: "a = 1"}, "a = 1\n")


def test_a_hunk_that_counts_too_many_lines_hides_no_file() -> None:
    """The next file is read, lines that look like headers stay lines, and diffs of one file are merged."""
    text = (
        "--- a/a.py\n+++ b/a.py\n@@ -1,90 +1,90 @@\n+++ added\n context\ndiff --git a/b.py b/b.py\n"
        "--- a/b.py\n+++ b/b.py\n@@ -0,0 +1 @@\n+b = 1\n"
    )

    assert parse_diff(text) == (
        ChangedFile("a.py", (Line("+", 1, "++ added"), Line(" ", 2, "context"))),
        ChangedFile("b.py", (Line("+", 1, "b = 1"),)),
    )
    more = "--- a/b.py\n+++ b/b.py\n@@ -1 +1,2 @@\n b = 1\n+c = 2\n"
    assert parse_diff(text, more)[1].added == {1: "b = 1", 2: "c = 2"}
    quoted = '--- /dev/null\n+++ "b/\\303\\234ber \\"uns\\".md"\n@@ -0,0 +1 @@\n+a\n'
    assert [file.path for file in parse_diff(quoted)] == ['Über "uns".md']
