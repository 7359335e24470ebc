"""Pictures that tools return: written anew in the parsers' child process, stored as artifacts, and shown like pages."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from activities.documents.artifacts import ArtifactError, Artifacts
from activities.documents.formats.registry import format_of
from activities.documents.parsed import read_result
from activities.documents.parsing import Job, parse_in_child

_NAME: Final = "picture.png"
_PREFIX: Final = "artifact:"


async def store_picture(content: bytes, artifacts: Artifacts) -> tuple[str, str] | None:
    """Store a picture that a model may be shown, and say what it is; None if it is none that can be read."""
    with TemporaryDirectory(prefix="chargehand-picture-") as folder:
        path = Path(folder, _NAME)
        await asyncio.to_thread(path.write_bytes, content)
        job = Job(format_of(_NAME), _NAME, path, len(content), 1)
        async for [(_, answer)] in parse_in_child([job], Path(folder)):
            result = await asyncio.to_thread(read_result, answer) if isinstance(answer, Path) else None
            if result and result.pictures:
                digest = await asyncio.to_thread(artifacts.put_file, Path(result.pictures[0].path))
                return f"{_PREFIX}{digest}/{_NAME}", result.opening
    return None


def is_stored(name: str) -> bool:
    """Whether a picture is one that was stored so, and no page of a document."""
    return name.startswith(_PREFIX)


async def read_picture(name: str, artifacts: Artifacts) -> bytes | None:
    """Read a picture; None if it is gone."""
    try:
        return await asyncio.to_thread(artifacts.read, name.removeprefix(_PREFIX).partition("/")[0])
    except ArtifactError:
        return None
