"""What a worker removes, and what it never removes."""

import asyncio
import os
import time
from datetime import timedelta
from pathlib import Path

import pytest
from made_documents import HANDBOOK, folder, library

from activities.documents import cleanup as sweeping
from activities.documents.artifacts import ArtifactStore
from activities.documents.cleanup import keep_swept, mark_used, sweep
from tests.waiting import until

_MONTH = timedelta(days=30)


def _aged(path: Path, days: float) -> Path:
    then = time.time() - days * 24 * 3_600
    os.utime(path, (then, then))
    return path


def _index(root: Path, letter: str, days: float) -> Path:
    directory = root / (letter * 64)
    directory.mkdir(parents=True)
    (directory / "index.sqlite").write_text("x")
    return _aged(directory, days)


def test_only_unused_files_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old indexes, copies and notes are removed in small batches; files that are not ours are left alone."""
    monkeypatch.setattr(sweeping, "_MOST_AT_ONCE", 3)
    indexes, copies = tmp_path / "indexes", tmp_path / "copies"
    old, young = _index(indexes, "a", 31), _index(indexes, "b", 29)
    halfway = _aged(_index(indexes, "c", 31).rename(indexes / ".removing-1"), 31)
    building = _aged(_index(indexes, "d", 31).rename(indexes / ".building-1"), 31)
    foreign = _aged(_index(indexes, "e", 31).rename(indexes / "my notes"), 31)
    (copies / "ff").mkdir(parents=True)
    copy, note = copies / "ff" / ("f" * 64), copies / f"{'0' * 64}.json"
    for file in (copy, note):
        file.touch()
        _aged(file, 31)

    removed = [sweep([indexes, copies, tmp_path / "missing"], _MONTH) for _ in range(3)]

    assert removed == [3, 1, 0]
    assert [path.exists() for path in (old, halfway, copy, note)] == [False] * 4
    assert [path.exists() for path in (young, building, foreign)] == [True] * 3


def test_an_index_used_during_its_removal_is_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index marked as used between the check and the removal is put back complete."""
    directory = _index(tmp_path, "a", 31)
    rename = Path.rename

    def used_in_this_moment(self: Path, target: Path) -> Path:
        if self == directory:
            assert mark_used(directory)
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", used_in_this_moment)

    assert sweep([tmp_path], _MONTH) == 0
    assert (directory / "index.sqlite").read_text() == "x"


async def test_a_long_running_worker_keeps_removing_unused_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It removes more than one batch, drafts of killed processes, and what becomes unused later."""
    monkeypatch.setattr(sweeping, "_MOST_AT_ONCE", 2)
    monkeypatch.setattr(sweeping, "_SWEPT_EVERY_SECONDS", 0.01)
    first = [_index(tmp_path, letter, 31) for letter in "abc"]
    draft = tmp_path / ".draft-1"
    draft.touch()
    running = asyncio.create_task(keep_swept([tmp_path], _MONTH))
    await until(lambda: not any(path.exists() for path in first))
    _aged(draft, 31)

    await until(lambda: not draft.exists())
    running.cancel()


def test_storing_or_reading_content_again_marks_it_as_used(tmp_path: Path) -> None:
    """A crew or document that sessions have used for years is not removed as unused."""
    store = ArtifactStore(tmp_path)
    digest = store.put(b"a crew")
    path = tmp_path / digest[:2] / digest
    for use in (lambda: store.put(b"a crew"), lambda: store.read(digest), lambda: store.size(digest)):
        _aged(path, 31)

        use()

        assert time.time() - path.stat().st_mtime < 3_600


async def test_an_index_in_use_is_kept_and_a_removed_one_is_rebuilt(tmp_path: Path) -> None:
    """Opening documents marks their index as used, even if it was open already, and notices its removal."""
    docs = tmp_path / "docs"
    uri = folder(docs, a__md=HANDBOOK)
    documents = library(tmp_path, docs)
    for removed in (0, 1):
        await documents.open((uri,))
        [index] = (tmp_path / "index").iterdir()
        _aged(index, 31)
        opened = await documents.open((uri,)) if not removed else None
        assert sweep([tmp_path / "index"], _MONTH) == removed
        opened = opened or await documents.open((uri,))
        assert (await opened.search("hotels")).passages[0].ref == "a.md#L12"
