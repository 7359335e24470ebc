"""Files that tools made, on their way to the user: named safely, told what they are, kept as artifacts.

Whoever made them may be hostile: nothing here opens, unpacks or runs them.
"""

import asyncio
import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final, Protocol
from urllib.parse import quote

from chargehand.contracts import Artifact, Contract
from chargehand.download import safe_name, unique_name

MOST_FILES: Final = 10
"""Files that one tool call may hand over."""
MOST_BYTES: Final = 10 * 1024 * 1024
"""Size of a file."""
MOST_BYTES_TOGETHER: Final = 20 * 1024 * 1024

_MAGIC: Final = {
    ".png": ("image/png", b"\x89PNG\r\n\x1a\n"),
    ".jpg": ("image/jpeg", b"\xff\xd8\xff"),
    ".jpeg": ("image/jpeg", b"\xff\xd8\xff"),
    ".gif": ("image/gif", b"GIF8"),
    ".pdf": ("application/pdf", b"%PDF-"),
}
_TEXTS: Final = {".csv": "text/csv", ".json": "application/json", ".md": "text/markdown"}
# A drawing that could run something or fetch something is handed over as text.
_LIVELY: Final = re.compile(
    r"<\s*(script|foreignobject|iframe|animate|set\b|handler|!entity|!doctype[^>]*\[)|\son\w+\s*=|javascript:|@import"
    r"|(href|src)\s*=(?!\s*[\"']?\s*(#|data:image/(png|jpeg)[;,]))|url\((?!\s*[\"']?\s*#)",
    re.IGNORECASE,
)


class FileStore(Protocol):
    """Keeps bytes under their SHA-256."""

    def put(self, content: bytes) -> str:
        """Store bytes, in a thread, and return their digest in hexadecimal."""
        ...


class MadeFile(Contract):
    """A file as a tool made it."""

    name: str
    """As whoever made it wrote it."""
    content: bytes
    title: str = ""
    """What it shows, for people."""


async def keep(store: FileStore, files: Sequence[MadeFile]) -> tuple[tuple[Artifact, ...], tuple[str, ...]]:
    """Store files: the artifacts they became, and `name: reason` for those that were left out."""
    artifacts: list[Artifact] = []
    left_out: list[str] = []
    taken: set[str] = set()
    room = MOST_BYTES_TOGETHER
    for file in files:
        name = unique_name(safe_name(file.name), taken)
        size = len(file.content)
        if reason := _refusal(len(artifacts), size, room):
            left_out.append(f"{name}: {reason}")
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
    return tuple(artifacts), tuple(left_out)


def media_type(name: str, content: bytes) -> str:
    """Tell what a file is by its name if its content bears that out, else as little as is certain."""
    suffix = PurePosixPath(name).suffix.lower()
    if suffix in _MAGIC:
        told, magic = _MAGIC[suffix]
        return told if content.startswith(magic) else "application/octet-stream"
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return "application/octet-stream"
    if suffix == ".svg":
        return "image/svg+xml" if _is_quiet_drawing(text) else "text/plain"
    return _TEXTS.get(suffix, "text/plain" if "\0" not in text else "application/octet-stream")


def _is_quiet_drawing(text: str) -> bool:
    return "<svg" in text[:2_000] and _LIVELY.search(text) is None


def _refusal(kept: int, size: int, room: int) -> str:
    if kept >= MOST_FILES:
        return f"only {MOST_FILES} files a call are kept"
    if size > MOST_BYTES:
        return f"larger than {MOST_BYTES // 2**20} MB"
    if size > room:
        return f"all files together may have {MOST_BYTES_TOGETHER // 2**20} MB"
    return ""
