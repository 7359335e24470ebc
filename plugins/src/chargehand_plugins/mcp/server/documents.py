"""Which documents an assistant may hand to sessions: those in the folders that the server was started with."""

from collections.abc import Sequence
from pathlib import Path

from chargehand.errors import UploadRefused


def allowed_path(document: str, folders: Sequence[Path]) -> Path:
    """Resolve what an assistant named to a file or folder that it may hand to sessions.

    Raises:
        UploadRefused: it is not in one of the folders, is hidden, or does not exist; which of them is not told apart.
    """
    if not folders:
        raise UploadRefused("documents: none are allowed; start the server with `chargehand mcp --docs FOLDER`.")
    known = ", ".join(map(str, folders))
    try:
        path = (folders[0] / Path(document).expanduser()).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        path = None
    for folder in folders:
        if path is not None and path.is_relative_to(folder):
            hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
            if not hidden:
                return path
    raise UploadRefused(f"documents: there is no '{document}' that may be read; it has to be in {known}.")
