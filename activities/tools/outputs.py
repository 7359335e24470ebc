"""Files written by tools: given safe names and media types, and stored as artifacts for the user.

The files are untrusted: they are never opened, unpacked or run here.
"""

import asyncio
import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import quote

from activities.documents.artifacts import Artifacts
from chargehand.contracts import Artifact, Contract
from chargehand.shared_files import safe_name, unique_name

MOST_FILES: Final = 10
"""Maximum files of one tool call."""
MOST_BYTES: Final = 10 * 1024 * 1024
"""Maximum size of a file."""
MOST_BYTES_TOGETHER: Final = 20 * 1024 * 1024

_MAGIC: Final = {
    ".png": ("image/png", b"\x89PNG\r\n\x1a\n"),
    ".jpg": ("image/jpeg", b"\xff\xd8\xff"),
    ".jpeg": ("image/jpeg", b"\xff\xd8\xff"),
    ".gif": ("image/gif", b"GIF8"),
    ".pdf": ("application/pdf", b"%PDF-"),
}
_TEXTS: Final = {
    ".csv": "text/csv",
    ".json": "application/json",
    ".md": "text/markdown",
    ".sarif": "application/sarif+json",
}
# A drawing that could run or fetch something is delivered as text.
_ACTIVE_CONTENT: Final = re.compile(
    r"<\s*(script|foreignobject|iframe|animate|set\b|handler|!entity|!doctype[^>]*\[)|\son\w+\s*=|javascript:|@import"
    r"|(href|src)\s*=(?!\s*[\"']?\s*(#|data:image/(png|jpeg)[;,]))|url\((?!\s*[\"']?\s*#)",
    re.IGNORECASE,
)


class ToolOutput(Contract):
    """A file as a tool wrote it."""

    name: str
    """The name given by the tool; not a safe file name."""
    content: bytes
    title: str = ""
    """What it shows, for the user."""


async def store_outputs(store: Artifacts, files: Sequence[ToolOutput]) -> tuple[tuple[Artifact, ...], tuple[str, ...]]:
    """Store files; return the artifacts, and `name: reason` for each file that was rejected."""
    artifacts: list[Artifact] = []
    rejected: list[str] = []
    used_names: set[str] = set()
    room = MOST_BYTES_TOGETHER
    for file in files:
        name = unique_name(safe_name(file.name), used_names)
        size = len(file.content)
        if reason := _refusal(len(artifacts), size, room):
            rejected.append(f"{name}: {reason}")
            continue
        room -= size
        digest = await asyncio.to_thread(store.put, file.content)
        artifacts.append(
            Artifact(
                uri=f"artifact:{digest}/{quote(name)}",
                name=name,
                media_type=media_type(name, file.content),
                bytes=size,
                title=file.title,
            )
        )
    return tuple(artifacts), tuple(rejected)


def media_type(name: str, content: bytes) -> str:
    """Return the media type implied by the name if the content agrees, and a generic one otherwise."""
    suffix = PurePosixPath(name).suffix.lower()
    if suffix in _MAGIC:
        claimed, magic = _MAGIC[suffix]
        return claimed if content.startswith(magic) else "application/octet-stream"
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return "application/octet-stream"
    if suffix == ".svg":
        is_static_drawing = "<svg" in text[:2_000] and _ACTIVE_CONTENT.search(text) is None
        return "image/svg+xml" if is_static_drawing else "text/plain"
    return _TEXTS.get(suffix, "text/plain" if "\0" not in text else "application/octet-stream")


def _refusal(stored: int, size: int, room: int) -> str:
    if stored >= MOST_FILES:
        return f"only {MOST_FILES} files per call are stored"
    if size > MOST_BYTES:
        return f"larger than {MOST_BYTES // 2**20} MB"
    if size > room:
        return f"all files together may have {MOST_BYTES_TOGETHER // 2**20} MB"
    return ""
