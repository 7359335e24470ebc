"""This machine's embedded server, started by `chargehand up` and other commands, and loopback addresses."""

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Final, NamedTuple

_STATE: Final = ".chargehand"
_PROJECT: Final = Path(sys.prefix).parent
"""The checkout of Chargehand, if this Python is in its virtual environment."""
TEMPORAL_PORT: Final = 7233
NOTE: Final = "server.json"
"""File that states the server's address; valid only while the lock next to it is held."""
NOTE_LOCK: Final = "note.lock"


class LocalServer(NamedTuple):
    address: str
    state: Path
    """The directory of its sessions, documents and stored payloads."""


def state_directory(environment: Mapping[str, str], home: Path, here: Path, project: Path = _PROJECT) -> Path:
    """Return the state directory: from the setting, the nearest at or above a folder, a checkout's, or the user's."""
    if setting := environment.get("CHARGEHAND_STATE_DIR"):
        return Path(setting).expanduser()
    for folder in (here, *here.parents):
        if (folder / _STATE).is_dir():
            return folder / _STATE
    if (project / "worker_main.py").is_file():
        return project / _STATE
    usual = environment.get("XDG_STATE_HOME")
    return (Path(usual).expanduser() if usual else home / ".local" / "state") / "chargehand"


def running_server(state: Path) -> LocalServer | None:
    """Return the running server of a state directory; None if it is down."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        if is_held(state / NOTE_LOCK):
            return LocalServer(str(json.loads((state / NOTE).read_bytes())["address"]), state)
    return None


def is_held(lock: Path) -> bool:
    """Whether a process holds a lock exclusively."""
    try:
        import fcntl  # noqa: PLC0415  # missing on Windows, which has no embedded server either
    except ImportError:
        return False
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def is_loopback(host: str) -> bool:
    """Whether a host is a loopback address."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
