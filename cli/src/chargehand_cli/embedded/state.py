"""The state directory: its files, its locks and the note that says where the server is. Standard library only."""

import fcntl
import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, cast


@dataclass(frozen=True)
class ServerNote:
    """What `server.json` says; it is there exactly while the server is up and its keeper alive."""

    address: str
    ui_url: str
    keeper_pid: int
    server_pid: int
    worker_pid: int | None = None
    """None while it waits to be started again."""
    worker_deaths: int = 0
    """How often in a row the worker has ended, soon after its start, although nobody asked it to."""
    worker_exit_code: int | None = None
    """How the last one of them ended."""


@dataclass(frozen=True)
class StateDirectory:
    """Where an embedded server keeps everything that outlives a process."""

    path: Path

    @property
    def database(self) -> Path:
        return self.path / "temporal.db"

    @property
    def artifacts(self) -> Path:
        return self.path / "artifacts"

    @property
    def sessions(self) -> Path:
        """One folder a session, with the files that `chargehand run` writes."""
        return self.path / "sessions"

    @property
    def in_use_lock(self) -> Path:
        """Held shared by every user process; the keeper is granted it exclusively when no user is left."""
        return self.path / "in-use.lock"

    @property
    def keeper_lock(self) -> Path:
        """Held by the keeper for its life."""
        return self.path / "keeper.lock"

    @property
    def note_lock(self) -> Path:
        """Held by the keeper once a note that an earlier one left is gone: only then is a note to be believed."""
        return self.path / "note.lock"

    @property
    def server_lock(self) -> Path:
        """Held by the server process itself: no second one opens the database, even if the keeper is dead."""
        return self.path / "server.lock"

    @property
    def keeper_log(self) -> Path:
        return self.path / "keeper.log"

    @property
    def server_log(self) -> Path:
        return self.path / "server.log"

    @property
    def worker_log(self) -> Path:
        return self.path / "worker.log"

    @property
    def _note(self) -> Path:
        return self.path / "server.json"

    def create(self) -> None:
        """Make the directory, readable by its owner only and invisible to git."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        ignore = self.path / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")

    def read_note(self) -> ServerNote | None:
        """Read the note; None if there is none. It counts only while the keeper's lock is held."""
        try:
            note = cast("dict[str, Any]", json.loads(self._note.read_text()))
            return ServerNote(**{field.name: note[field.name] for field in fields(ServerNote)})
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def write_note(self, note: ServerNote) -> None:
        """Replace the note in one step."""
        draft = self._note.with_suffix(".draft")
        draft.write_text(json.dumps(asdict(note), indent=2) + "\n")
        draft.replace(self._note)

    def remove_note(self) -> None:
        """Say that there is no server any more."""
        self._note.unlink(missing_ok=True)


class FileLock:
    """An advisory lock that ends with the process, however it ends."""

    def __init__(self, path: Path) -> None:
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def share(self, *, wait: bool) -> bool:
        """Take the lock together with others; False if somebody has it alone and `wait` is false."""
        return self._take(fcntl.LOCK_SH, wait=wait)

    def take(self, *, wait: bool) -> bool:
        """Take the lock alone; False if anybody has it and `wait` is false."""
        return self._take(fcntl.LOCK_EX, wait=wait)

    def release(self) -> None:
        """Give the lock back; the file stays open."""
        fcntl.flock(self.descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Give the lock back and close the file."""
        with suppress(OSError):
            os.close(self.descriptor)

    def _take(self, kind: int, *, wait: bool) -> bool:
        try:
            fcntl.flock(self.descriptor, kind if wait else kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def is_held(path: Path) -> bool:
    """Say whether a process has taken the lock alone."""
    lock = FileLock(path)
    try:
        return not lock.share(wait=False)
    finally:
        lock.close()


def last_lines(path: Path, count: int = 12) -> str:
    """Read the end of a log, for an error message."""
    with suppress(OSError), path.open("rb") as log:
        log.seek(max(0, path.stat().st_size - 16_384))
        return "\n".join(log.read().decode(errors="replace").splitlines()[-count:])
    return ""
