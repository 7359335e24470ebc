"""Opens and walks files below a folder that the operator allows, safely even if links appear in the meantime.

Between the check and the use of a path, another process could replace part of it by a link. Files are therefore not
opened by path: each step is opened relative to the previous one, and no step may be a link.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_STEP: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class Beneath(NamedTuple):
    """A place below an allowed folder."""

    root: Path
    """The allowed folder, with links resolved."""
    parts: tuple[str, ...]
    """Path components below the folder; none was a link when the path was resolved."""

    @property
    def path(self) -> Path:
        return self.root.joinpath(*self.parts)

    def below(self, *parts: str) -> "Beneath":
        return Beneath(self.root, (*self.parts, *parts))


def locate(location: str, roots: tuple[Path, ...]) -> Beneath | None:
    """Find an absolute path below one of the allowed folders; None if it is elsewhere or does not exist.

    Links that stay within the folder are followed, but only here.
    """
    try:
        if not Path(location).is_absolute():
            return None
        path = Path(location).resolve(strict=True)
        for root in (root.resolve() for root in roots):
            if path.is_relative_to(root):
                return Beneath(root, path.relative_to(root).parts)
    except (OSError, ValueError, RuntimeError):
        return None
    return None


def open_below(place: Beneath) -> int:
    """Open a file or folder for reading and return its descriptor, which the caller closes.

    Raises `OSError`, also if a step has become a link.
    """
    # Only the operator can change the path of the allowed folder itself.
    descriptor = os.open(place.root, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    for number, part in enumerate(place.parts, 1):
        try:
            step = os.open(part, _STEP | (os.O_DIRECTORY if number < len(place.parts) else 0), dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = step
    return descriptor


class Entry(NamedTuple):
    """A file found by a walk."""

    parts: tuple[str, ...]
    """Path components below the folder of the walk."""
    status: os.stat_result
    is_regular: bool


def walk_below(folder: Beneath, leave_out: frozenset[str]) -> Iterator[Entry]:
    """Yield all files below a folder in a fixed order, without hidden ones; links are not followed."""
    descriptor = open_below(folder)
    try:
        for directory, children, names, here in os.fwalk(".", dir_fd=descriptor):
            children[:] = sorted(child for child in children if not child.startswith(".") and child not in leave_out)
            for name in sorted(names):
                if name.startswith("."):
                    continue
                try:
                    status = os.stat(name, dir_fd=here, follow_symlinks=False)
                except OSError:
                    continue  # deleted since its folder was read
                yield Entry((*Path(directory).parts, name), status, stat.S_ISREG(status.st_mode))
    finally:
        os.close(descriptor)
