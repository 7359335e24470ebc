"""An untrusted git repository, whose objects are read by dulwich without running or applying anything in it.

Hooks, attributes and configuration are ignored, and no `git` is started. A `.git` that leads elsewhere, by a
link, an alternate or a common directory, is refused. Runs in a limited process, which `git_folder` starts.
"""

import difflib
import os
import stat
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from dulwich.diff_tree import tree_changes
from dulwich.errors import NotTreeError
from dulwich.notes import NotesTree
from dulwich.object_store import DiskObjectStore, tree_lookup_path
from dulwich.objects import Blob, Commit, ObjectID, Tree
from dulwich.refs import DiskRefsContainer, Ref

from activities.processes import limits
from chargehand_plugins.code_review.diff import MOST_BYTES, lines_of
from chargehand_plugins.code_review.git_folder import PastCommit, RepositoryError

_MEMORY_BYTES: Final = 1 << 30
_FILE_BYTES: Final = 64 << 20
_LEADS_ELSEWHERE: Final = ("commondir", "objects/info/alternates", "objects/info/http-alternates")
_MOST_ENTRIES: Final = 50_000
_MOST_FILES: Final = 500
_LARGEST_BLOB: Final = 1 << 20
_MOST_COMMITS: Final = 1_000
_MAIN_BRANCHES: Final = (b"refs/heads/main", b"refs/heads/master")
_NOTES: Final = Ref(b"refs/notes/commits")
_LONGEST_NOTE: Final = 2_000
_LAST_SECOND: Final = 253_402_300_799
"""The last second of the year 9999, since commits may state any time."""


class Repository:
    """HEAD and the commits before it. Methods block."""

    def __init__(self, folder: Path) -> None:
        git = folder / ".git"
        _require_self_contained(git)
        self._store = DiskObjectStore(str(git / "objects"))
        self._refs = DiskRefsContainer(str(git))
        try:
            self._head = self._commit(self._refs[Ref(b"HEAD")])
        except (KeyError, ValueError, OSError) as error:
            raise RepositoryError("its HEAD names no commit") from error

    @property
    def id(self) -> str:
        return self._head.id.decode()

    def diff(self) -> str:
        """Compare HEAD with its merge base with main or, on main itself, with the previous commit."""
        base = self._base()
        diffs: list[str] = []
        files, size = 0, 0
        for change in tree_changes(self._store, base.tree if base else None, self._head.tree):
            if files >= _MOST_FILES or size >= MOST_BYTES:
                break
            if change.new is None or not change.new.path or not stat.S_ISREG(change.new.mode or 0):
                continue
            path = change.new.path.decode(errors="replace")
            if not path.isprintable():
                continue  # a line break in a name would forge lines of the diff
            before = self._text(change.old.sha) if change.old and change.old.sha else ""
            after = self._text(change.new.sha) if change.new.sha else ""
            if before is not None and after is not None:
                names = f"a/{path}", f"b/{path}"
                diff = "\n".join(difflib.unified_diff(lines_of(before), lines_of(after), *names, n=8, lineterm=""))
                diffs.append(diff)
                files, size = files + 1, size + len(diff)
        return "\n".join(diffs)

    def read(self, path: str) -> str | None:
        """Read a text file of HEAD; None if it does not exist."""
        try:
            mode, sha = tree_lookup_path(self._store.__getitem__, self._head.tree, path.encode())
        except (KeyError, NotTreeError, ValueError):
            return None
        return self._text(sha) if stat.S_ISREG(mode) else None

    def history(self, path: str, most: int) -> list[PastCommit]:
        """List the newest commits that changed a file, along first parents."""
        commits: list[PastCommit] = []
        for commit, parent in self._first_parents():
            if len(commits) >= most:
                break
            if self._entry(commit, path) != (self._entry(parent, path) if parent else None):
                subject = commit.message.decode(errors="replace").strip().partition("\n")[0][:200]
                author = commit.author.decode(errors="replace").partition("<")[0].strip()[:100]
                seconds = min(max(commit.commit_time, 0), _LAST_SECOND)
                commits.append(PastCommit(commit.id.decode()[:12], author, subject, seconds, self._note(commit)))
        return commits

    def _note(self, commit: Commit) -> str:
        try:
            notes = self._store[self._commit(self._refs[_NOTES]).tree]
        except KeyError:
            return ""
        note = NotesTree(notes, self._store).get_note(commit.id) if isinstance(notes, Tree) else None
        return " ".join((note or b"")[:_LONGEST_NOTE].decode(errors="replace").split())

    def _base(self) -> Commit | None:
        for name in _MAIN_BRANCHES:
            try:
                main = self._refs[Ref(name)]
            except (KeyError, ValueError, OSError):
                continue
            if main == self._head.id:
                break
            mains = {commit.id for commit, _ in self._first_parents(self._commit(main))}
            left = next((commit for commit, _ in self._first_parents() if commit.id in mains), None)
            if left is not None:
                return left
        return self._parent(self._head)

    def _first_parents(self, commit: Commit | None = None) -> Iterator[tuple[Commit, Commit | None]]:
        current = commit or self._head
        for _ in range(_MOST_COMMITS):
            parent = self._parent(current)
            yield current, parent
            if parent is None:
                return
            current = parent

    def _parent(self, commit: Commit) -> Commit | None:
        # The first commit has no parent, and neither has the last one of a shallow clone.
        return self._commit(commit.parents[0]) if commit.parents and commit.parents[0] in self._store else None

    def _commit(self, sha: ObjectID) -> Commit:
        commit = self._store[sha]
        if not isinstance(commit, Commit):
            raise RepositoryError("an id of a commit names something else")
        return commit

    def _entry(self, commit: Commit, path: str) -> bytes | None:
        try:
            return tree_lookup_path(self._store.__getitem__, commit.tree, path.encode())[1]
        except (KeyError, NotTreeError, ValueError):
            return None

    def _text(self, sha: ObjectID) -> str | None:
        """Return the text of a blob; None if it is large or not text."""
        blob = self._store[sha]
        if not isinstance(blob, Blob) or blob.raw_length() > _LARGEST_BLOB or b"\0" in blob.data:
            return None
        return blob.data.decode(errors="replace")


def _require_self_contained(git: Path) -> None:
    """Refuse a `.git` that refers to other folders.

    Raises:
        RepositoryError: it is a link or a file, or has links, devices or alternates in it.
    """
    try:
        if not stat.S_ISDIR(git.lstat().st_mode):
            raise RepositoryError("its .git is a link or a file, so that it may lead outside")
        if any((git / name).exists() for name in _LEADS_ELSEWHERE):
            raise RepositoryError("it takes objects from other repositories")
        seen = 0
        for folder, folders, files in os.walk(git):
            seen += len(folders) + len(files)
            if seen > _MOST_ENTRIES:
                raise RepositoryError("its .git has too many files; run `git gc`")
            for name in (*folders, *files):
                mode = os.lstat(Path(folder, name)).st_mode
                if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                    raise RepositoryError("its .git has links or devices in it, so that it may lead outside")
    except OSError as error:
        raise RepositoryError("it has no .git that can be read") from error


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """Answer a question about a repository."""
    if not question:
        return {}
    try:
        return _read(Repository(Path(question["folder"])), question)
    except RepositoryError as error:
        return {"problem": str(error)}
    except MemoryError:
        return {"problem": "it takes more memory to read than a repository may"}
    except Exception as error:  # noqa: BLE001 - hostile objects may raise anything
        return {"problem": f"it is broken ({type(error).__name__})"}


def _read(repository: Repository, question: dict[str, Any]) -> dict[str, Any]:
    match question["ask"]:
        case "diff":
            Path(question["result"]).write_bytes(repository.diff().encode(errors="replace"))
            return {}
        case "read":
            return {"text": repository.read(question["path"])}
        case "history":
            return {"commits": [asdict(commit) for commit in repository.history(question["path"], question["most"])]}
        case _:
            return {"id": repository.id}


if __name__ == "__main__":
    limits.confine(_MEMORY_BYTES, _FILE_BYTES)
    limits.serve(answer)
