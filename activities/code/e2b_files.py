"""Copy documents into an E2B sandbox, and figures and files out of it."""

import asyncio
import base64
import binascii
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from pydantic import TypeAdapter, ValidationError

from activities.code.protocol import ARTIFACTS, DOCUMENTS, GivenFile
from activities.tool_outputs import MOST_BYTES, MOST_BYTES_TOGETHER, MOST_FILES, ToolOutput

if TYPE_CHECKING:
    from e2b_code_interpreter import Execution

    from activities.code.e2b_sandbox import Sandbox

_HOME: Final = PurePosixPath("/home/user")
"""Where code in E2B's own template starts."""
_LISTED: Final = TypeAdapter(list[tuple[str, int | None]])
_LISTING: Final = f"""\
def _listing():
    import itertools, json, os
    with os.scandir({str(_HOME / ARTIFACTS)!r}) as entries:
        shown = (entry for entry in entries if not entry.name.startswith("."))
        return json.dumps([
            (entry.name, entry.stat().st_size if entry.is_file(follow_symlinks=False) else None)
            for entry in itertools.islice(shown, {2 * MOST_FILES})
        ])
print(_listing())
"""
_FIGURES: Final = {"png": "png", "jpeg": "jpg", "svg": "svg", "pdf": "pdf"}


async def lay_out(sandbox: "Sandbox", files: Sequence[GivenFile]) -> None:
    """Write the documents, and make the folder for what the code saves."""
    from e2b.sandbox.filesystem.filesystem import AsyncWriteEntry

    contents = await asyncio.to_thread(lambda: [file.path.read_bytes() for file in files])
    entries = [
        AsyncWriteEntry(path=str(_HOME / DOCUMENTS / file.name), data=content)
        for file, content in zip(files, contents, strict=True)
    ]
    # Writing a file creates its folder. Its name keeps it out of the listing.
    entries.append(AsyncWriteEntry(path=str(_HOME / ARTIFACTS / ".keep"), data=b""))
    await sandbox.files.write_files(entries)


def figures(execution: "Execution") -> tuple[ToolOutput, ...]:
    """Pictures that the code showed."""
    made: list[ToolOutput] = []
    for number, result in enumerate(execution.results, start=1):
        for form, suffix in _FIGURES.items():
            shown: object = result[form]
            if not isinstance(shown, str):
                continue
            try:
                content = shown.encode() if form == "svg" else base64.b64decode(shown)
            except (binascii.Error, ValueError):
                continue
            made.append(ToolOutput(name=f"figure-{number}.{suffix}", content=content))
    return tuple(made[:MOST_FILES])


async def bring_back(sandbox: "Sandbox", seconds: float) -> tuple[tuple[ToolOutput, ...], tuple[str, ...]]:
    """Files that the code saved, and `name: reason` for those left out.

    A program in the sandbox lists them, since the service's own listing is unbounded; its answer is only used to
    request files of the same sandbox.
    """
    execution = await sandbox.run_code(_LISTING, timeout=seconds, request_timeout=seconds)
    files: list[ToolOutput] = []
    left_out: list[str] = []
    room = MOST_BYTES_TOGETHER
    for name, size in _entries("".join(execution.logs.stdout)):
        if size is None or "/" in name or name in {"", ".", ".."}:
            left_out.append(f"{name[:100]}: not a regular file")
            continue
        most = min(MOST_BYTES, room)
        content = None if size > most or len(files) == MOST_FILES else await _content(sandbox, name, most)
        if content is None:
            left_out.append(f"{name[:100]}: too many or too large files")
            continue
        room -= len(content)
        files.append(ToolOutput(name=name, content=content))
    return tuple(files), tuple(left_out)


def _entries(listing: str) -> list[tuple[str, int | None]]:
    """Names and sizes as the sandbox states them; no size for anything but a regular file."""
    try:
        return _LISTED.validate_json(listing)[: 2 * MOST_FILES]
    except ValidationError:
        return []


async def _content(sandbox: "Sandbox", name: str, most: int) -> bytes | None:
    """The bytes of a file; None if it is larger than stated, or gone."""
    from e2b import FileNotFoundException

    content = bytearray()
    try:
        async with await sandbox.files.read(str(_HOME / ARTIFACTS / name), format="stream") as stream:
            async for chunk in stream:
                content += chunk
                if len(content) > most:
                    return None
    except FileNotFoundException:
        return None
    return bytes(content)
