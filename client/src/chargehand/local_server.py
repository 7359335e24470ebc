"""This machine: its embedded server, which `chargehand up` and other commands start, and its own addresses."""

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
"""A checkout of Chargehand, if this Python is that of its virtual environment."""
NOTE: Final = "server.json"
"""Says where the server is; valid only while the lock beside it is held."""
NOTE_LOCK: Final = "note.lock"


class LocalServer(NamedTuple):
    address: str
    state: Path
    """The directory of its sessions, documents and stored payloads."""


def state_directory(environment: Mapping[str, str], home: Path, here: Path, project: Path = _PROJECT) -> Path:
    """Return the state directory that is set, the nearest one at or above a folder, a checkout's, or the user's own."""
    if given := environment.get("CHARGEHAND_STATE_DIR"):
        return Path(given).expanduser()
    for folder in (here, *here.parents):
        if (folder / _STATE).is_dir():
            return folder / _STATE
    if (project / "worker_main.py").is_file():
        return project / _STATE
    usual = environment.get("XDG_STATE_HOME")
    return (Path(usual).expanduser() if usual else home / ".local" / "state") / "chargehand"


def running_server(state: Path) -> LocalServer | None:
    """Return the server of a state directory; None unless it is up."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        if is_held(state / NOTE_LOCK):
            return LocalServer(str(json.loads((state / NOTE).read_bytes())["address"]), state)
    return None


def is_held(lock: Path) -> bool:
    """Whether a process holds a lock exclusively."""
    try:
        import fcntl  # noqa: PLC0415  # Windows has none, and no embedded server
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
    """Whether a host is this machine only."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
