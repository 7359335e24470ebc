"""The state directory: its files and locks, and messages between users and the keeper. Fast to import."""

import fcntl
import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final, cast

from chargehand.local_server import NOTE, NOTE_LOCK

ALREADY_KEPT: Final = 75
"""Exit code of a keeper that found another one running."""
COULD_NOT_START: Final = 1


@dataclass(frozen=True)
class ServerNote:
    """Content of `server.json`, which exists exactly while the server and its keeper are running."""

    address: str
    ui_url: str
    keeper_pid: int
    server_pid: int
    worker_pid: int | None = None
    """None while the worker waits to be restarted."""
    worker_deaths: int = 0
    """Consecutive unexpected exits of the worker soon after its start."""
    worker_exit_code: int | None = None
    """Exit code of the last one."""
    variant: str = ""
    """As in `WorkerCommand`."""
    has_worker: bool = False
    """Whether a worker is kept running; not for users that only read."""


@dataclass(frozen=True)
class WorkerCommand:
    """How to start the worker, which finds the server by TEMPORAL_ADDRESS."""

    command: tuple[str, ...]
    """Empty for no worker."""
    directory: Path
    environment: dict[str, str] = field(default_factory=dict[str, str])
    """Added to this process's environment; never secrets, since the process list shows it."""
    grace_seconds: float = 40
    """Time to stop once the last user has left; longer than the worker's grace period for in-flight calls."""
    variant: str = ""
    """A setting, as `NAME=VALUE`, that restricts the worker to some commands; usually empty."""


@dataclass(frozen=True)
class Order:
    """What a user process orders the keeper to run."""

    state: Path
    temporal: Path
    """The `temporal` program."""
    worker: WorkerCommand

    def to_argument(self) -> str:
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_argument(cls, argument: str) -> "Order":
        order = json.loads(argument)
        worker = order["worker"] | {"directory": Path(order["worker"]["directory"])}
        return cls(Path(order["state"]), Path(order["temporal"]), WorkerCommand(**worker))


_MOST_LOG_LINES: Final = 1_000
WORKER_STARTS: Final = "--- a worker starts ---"
"""A line of the worker's log."""


class StateDirectory:
    """The directory of everything about an embedded server that outlives a process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.database = path / "temporal.db"
        self.in_use_lock = path / "in-use.lock"
        """Held shared by every user process; the keeper acquires it exclusively once no user is left."""
        self.work_lock = path / "work.lock"
        """Held shared by every user that needs the worker; the keeper ends the worker once it acquires it."""
        self.keeper_lock = path / "keeper.lock"
        """Held by the keeper while it lives."""
        self.note_lock = path / NOTE_LOCK
        """Held by the keeper once an earlier keeper's note is removed; only then is a note valid."""
        self.server_lock = path / "server.lock"
        """Held by the server process itself, so that no second one opens the database even if the keeper is dead."""
        self.keeper_log = path / "keeper.log"
        self.server_log = path / "server.log"
        self.worker_log = path / "worker.log"
        self._note = path / NOTE

    def create(self) -> None:
        """Create the directory, readable by its owner only and ignored by git."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        ignore = self.path / ".gitignore"
        if not ignore.exists():
            write_private(ignore, "*\n")

    def read_note(self) -> ServerNote | None:
        """Read the note; None if there is none. It is valid only while the note lock is held."""
        try:
            note = cast("dict[str, Any]", json.loads(self._note.read_text()))
            return ServerNote(**{each.name: note[each.name] for each in fields(ServerNote)})
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def write_note(self, note: ServerNote) -> None:
        """Replace the note atomically."""
        draft = self._note.with_suffix(".draft")
        write_private(draft, json.dumps(asdict(note), indent=2) + "\n")
        draft.replace(self._note)

    def remove_note(self) -> None:
        self._note.unlink(missing_ok=True)


def open_private(path: Path, flags: int) -> int:
    """Open a file of the state directory privately; the keeper and its processes use a umask instead."""
    return os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, 0o600)


def write_private(path: Path, text: str) -> None:
    """Write a private text file of the state directory."""
    with os.fdopen(open_private(path, os.O_WRONLY | os.O_TRUNC), "w", encoding="utf-8") as file:
        file.write(text)


class FileLock:
    """An advisory lock that the system releases when the process ends, however it ends."""

    def __init__(self, path: Path) -> None:
        self.descriptor = open_private(path, os.O_RDWR)

    def take(self, *, wait: bool = False, shared: bool = False) -> bool:
        """Acquire the lock, exclusively or shared; False if it is taken and `wait` is false."""
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(self.descriptor, kind if wait else kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        fcntl.flock(self.descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        with suppress(OSError):
            os.close(self.descriptor)


def reported_problems(log: Path) -> list[str]:
    """Return the settings that the running worker's log reports as unusable."""
    text = last_lines(log, _MOST_LOG_LINES)
    return [each.partition("\n")[0] for each in text.split(" ERROR chargehand.worker: ")[1:]]


def last_lines(path: Path, count: int = 12) -> str:
    """Return the end of a log for an error message, without what earlier workers wrote."""
    with suppress(OSError), path.open("rb") as log:
        log.seek(max(0, path.stat().st_size - 16_384))
        text = log.read().decode(errors="replace").rpartition(f"{WORKER_STARTS}\n")[2]
        return "\n".join(text.splitlines()[-count:])
    return ""
