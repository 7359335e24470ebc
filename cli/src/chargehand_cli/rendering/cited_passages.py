"""The lines of a document around the passage that a source cites."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, cast
from urllib.parse import unquote

from chargehand import ChargehandError, Source
from chargehand.upload import MANIFEST_FORMAT, MOST_FILES

_MOST_DOCUMENTS: Final = 50
_MOST_DOCUMENT_BYTES: Final = 5_000_000
_MOST_QUOTED_CHARACTERS: Final = 4_000
_CONTEXT_LINES: Final = 8
_CONTEXT_CHARACTERS: Final = 600
_LINES: Final = re.compile(r"(.+)#L(\d{1,9})(?:-L(\d{1,9}))?", re.DOTALL)

ReadArtifact = Callable[[str], bytes]
"""Reads what is stored under an `artifact:` URI. Raises `ChargehandError` or `OSError`."""


class Passage(NamedTuple):
    """The lines of a document cited by a source, with the lines around them."""

    before: str
    quoted: str
    after: str


def attach_passages(sources: Iterable[Source], documents: Iterable[str], read: ReadArtifact) -> dict[str, Passage]:
    """Find the lines cited by sources in the uploaded text documents, with the lines around them.

    Documents other than plain text have no lines; their sources have only the quotation.
    """
    named = [(source, match) for source in sources if not source.url and (match := _LINES.fullmatch(source.ref))]
    if not named:
        return {}
    files = _uploaded_files(documents, read)
    texts: dict[str, list[str]] = {}
    passages: dict[str, Passage] = {}
    for source, match in named:
        name, first, last = match[1], int(match[2]), int(match[3] or match[2])
        if name not in texts and len(texts) < _MOST_DOCUMENTS and name in files:
            texts[name] = _lines(read_bounded(*files[name], _MOST_DOCUMENT_BYTES, read))
        if passage := _passage(texts.get(name, []), first, last, source.quote):
            passages[source.ref] = passage
    return passages


def _uploaded_files(documents: Iterable[str], read: ReadArtifact) -> dict[str, tuple[str, int]]:
    """Return URI and size of each uploaded file by name, without ambiguous names."""
    listed: list[tuple[str, str, int]] = []
    for uri in documents:
        place, _, name = uri.partition("/")
        if uri.startswith("artifact:"):
            listed += _manifest(uri, read) if name.endswith("/") else [(unquote(name), place, 0)]
    times = Counter(name for name, _, _ in listed)
    return {name: (place, size) for name, place, size in listed[:MOST_FILES] if times[name] == 1}


def _manifest(uri: str, read: ReadArtifact) -> list[tuple[str, str, int]]:
    try:
        manifest = cast("dict[str, Any]", json.loads(read_bounded(uri, 0, _MOST_DOCUMENT_BYTES, read) or b"{}"))
        if manifest.get("format") != MANIFEST_FORMAT:
            return []
        return [(str(each["name"]), f"artifact:{each['sha256']}", int(each["bytes"])) for each in manifest["files"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []


def read_bounded(uri: str, size: int, most: int, read: ReadArtifact) -> bytes | None:
    """Read an artifact of at most `most` bytes; None if it is larger or cannot be read."""
    if size > most:
        return None
    try:
        content = read(uri)
    except (ChargehandError, OSError):
        return None
    return content if len(content) <= most else None


def _lines(content: bytes | None) -> list[str]:
    """Decode as the worker does, so that line numbers are the same; empty for other files."""
    if content is None or b"\0" in content:
        return []
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return []
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _passage(lines: list[str], first: int, last: int, quote: str) -> Passage | None:
    quoted = "\n".join(lines[first - 1 : last])
    start = next((" ".join(line.split()) for line in quote.split("\n") if line.strip()), "")
    if not start or start not in " ".join(quoted.split()) or len(quoted) > _MOST_QUOTED_CHARACTERS:
        return None
    before = "\n".join(lines[max(0, first - 1 - _CONTEXT_LINES) : first - 1])[-_CONTEXT_CHARACTERS:]
    after = "\n".join(lines[last : last + _CONTEXT_LINES])[:_CONTEXT_CHARACTERS]
    return Passage(before.strip("\n"), quoted.strip("\n"), after.strip("\n"))
