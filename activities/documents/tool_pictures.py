"""Pictures that tools return: re-encoded in the parsers' child process, stored as artifacts, and shown like pages."""

import asyncio
from pathlib import Path
from typing import Final

from activities.documents.artifacts import ArtifactError, Artifacts
from activities.documents.parsing import parse_alone

_NAME: Final = "picture.png"
_PREFIX: Final = "artifact:"


async def store_picture(content: bytes, artifacts: Artifacts) -> tuple[str, str] | None:
    """Store a picture to show to a model; return its name and a description, or None if it cannot be read."""
    async with parse_alone(_NAME, content) as result:
        if not result.pictures:
            return None
        digest = await asyncio.to_thread(artifacts.put_file, Path(result.pictures[0].path))
        return f"{_PREFIX}{digest}/{_NAME}", result.opening


def is_stored(name: str) -> bool:
    """Whether a picture is a stored one, rather than a page of a document."""
    return name.startswith(_PREFIX)


async def read_picture(name: str, artifacts: Artifacts) -> bytes | None:
    """Read a picture; None if it is gone."""
    try:
        return await asyncio.to_thread(artifacts.read, name.removeprefix(_PREFIX).partition("/")[0])
    except ArtifactError:
        return None
