"""Open and walk what lies below a folder that the operator allows, whatever happens to the path meanwhile.

A path is checked and then used, and in between anybody who may write there can put a link in its place. So nothing is
opened by its path: each step is opened from the one before it, and no step is ever a link.
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
    """The allowed folder, without links."""
    parts: tuple[str, ...]
    """Steps from there; none of them was a link when it was looked up."""

    @property
    def path(self) -> Path:
        return self.root.joinpath(*self.parts)

    def below(self, *parts: str) -> "Beneath":
        return Beneath(self.root, (*self.parts, *parts))


def locate(location: str, roots: tuple[Path, ...]) -> Beneath | None:
    """Find an absolute path below one of the allowed folders; None if it is not there, or is nowhere.

    Links that stay within the folder are followed, here only.
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

    Raises `OSError`, if any step has become a link, too.
    """
    # Only the operator can change what leads to the allowed folder itself.
    descriptor = os.open(place.root, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    for number, part in enumerate(place.parts, 1):
        try:
            step = os.open(part, _STEP | (os.O_DIRECTORY if number < len(place.parts) else 0), dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = step
    return descriptor


class Entry(NamedTuple):
    """What a walk came upon."""

    parts: tuple[str, ...]
    """Steps from the folder that is walked."""
    status: os.stat_result
    is_regular: bool


def walk_below(folder: Beneath, leave_out: frozenset[str]) -> Iterator[Entry]:
    """Everything but folders below a folder, in a fixed order; what is hidden is left out and no link is followed."""
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
                    continue  # gone since its folder was read
                yield Entry((*Path(directory).parts, name), status, stat.S_ISREG(status.st_mode))
    finally:
        os.close(descriptor)
