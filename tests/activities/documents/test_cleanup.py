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


def test_only_what_is_out_of_use_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Indexes, copies in folders of two digits, and notes, by their age, a few at once; nothing that is not ours."""
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


def test_what_somebody_begins_to_use_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Marked between the look and the removal, it is put back whole."""
    directory = _index(tmp_path, "a", 31)
    rename = Path.rename

    def used_in_this_moment(self: Path, target: Path) -> Path:
        if self == directory:
            assert mark_used(directory)
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", used_in_this_moment)

    assert sweep([tmp_path], _MONTH) == 0
    assert (directory / "index.sqlite").read_text() == "x"


async def test_a_worker_that_runs_for_long_removes_everything_unused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than one portion, drafts of killed processes too, and what falls out of use later."""
    monkeypatch.setattr(sweeping, "_MOST_AT_ONCE", 2)
    monkeypatch.setattr(sweeping, "_SWEPT_EVERY_SECONDS", 0.01)
    first = [_index(tmp_path, letter, 31) for letter in "abc"]
    draft = tmp_path / ".draft-1"
    draft.touch()
    running = asyncio.create_task(keep_swept([tmp_path], _MONTH))
    await until(lambda: not any(path.exists() for path in first), 30)
    _aged(draft, 31)

    await until(lambda: not draft.exists(), 30)
    running.cancel()


def test_what_is_stored_or_read_again_counts_as_used(tmp_path: Path) -> None:
    """A crew that sessions begin with for years, or a document that is named again, is not taken for unused."""
    store = ArtifactStore(tmp_path)
    digest = store.put(b"a crew")
    path = tmp_path / digest[:2] / digest
    for use in (lambda: store.put(b"a crew"), lambda: store.read(digest), lambda: store.size(digest)):
        _aged(path, 31)

        use()

        assert time.time() - path.stat().st_mtime < 3_600


async def test_an_index_in_use_stays_and_one_that_is_gone_is_built_again(tmp_path: Path) -> None:
    """Opening documents marks their index, also when this worker had them open already, and notices its loss."""
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
