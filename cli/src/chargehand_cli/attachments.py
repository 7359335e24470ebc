"""Attachments of a report's page: pictures created by agents, and the text around quotations.

Both come from the artifact store and are bounded, so that a page stays small enough to mail.
"""

import json
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, cast
from urllib.parse import unquote

from chargehand import Artifact, ChargehandError, Report, Source
from chargehand.upload import MANIFEST_FORMAT, MOST_FILES
from chargehand_cli.drawings import is_drawing

MOST_PICTURES: Final = 20
MOST_PICTURE_BYTES: Final = 2_000_000
MOST_BYTES_OF_ALL_PICTURES: Final = 8_000_000
_MOST_DOCUMENTS: Final = 50
_MOST_DOCUMENT_BYTES: Final = 5_000_000
_MOST_QUOTED_CHARACTERS: Final = 4_000
_CONTEXT_LINES: Final = 8
_CONTEXT_CHARACTERS: Final = 600
_LINES: Final = re.compile(r"(.+)#L(\d{1,9})(?:-L(\d{1,9}))?", re.DOTALL)
_RASTER: Final[Mapping[str, re.Pattern[bytes]]] = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF.{4}WEBP", re.DOTALL),
}

ReadArtifact = Callable[[str], bytes]
"""Reads what is stored under an `artifact:` URI. Raises `ChargehandError` or `OSError`."""


class Passage(NamedTuple):
    """The lines of a document cited by a source, with the lines around them."""

    before: str
    quoted: str
    after: str


class Attachments(NamedTuple):
    """The content shown on the page, which states what is missing."""

    pictures: Mapping[str, str] = {}
    """`data:` URIs by artifact URI."""
    passages: Mapping[str, Passage] = {}
    """Passages by the source's `ref`."""


def attach(report: Report, documents: Iterable[str], read: ReadArtifact) -> Attachments:
    """Read the attachments of a report's page; `documents` are the URIs of the session's request."""
    return Attachments(attach_pictures(report.artifacts, read), attach_passages(report.sources, documents, read))


def attach_pictures(artifacts: Iterable[Artifact], read: ReadArtifact) -> dict[str, str]:
    """Build `data:` URIs of PNG, JPEG, GIF, WebP and SVG pictures, identified by content, not by name or media type."""
    pictures: dict[str, str] = {}
    total = 0
    for artifact in artifacts:
        if len(pictures) >= MOST_PICTURES:
            break
        if artifact.uri in pictures or not artifact.media_type.startswith("image/"):
            continue
        content = _content(artifact.uri, artifact.bytes, MOST_PICTURE_BYTES, read)
        media_type = _picture_type(content) if content else None
        if content and media_type and total + len(content) <= MOST_BYTES_OF_ALL_PICTURES:
            total += len(content)
            pictures[artifact.uri] = f"data:{media_type};base64,{b64encode(content).decode()}"
    return pictures


def _picture_type(content: bytes) -> str | None:
    """Detect the media type of a raster picture from its first bytes, of a drawing from all of it."""
    raster = next((name for name, start in _RASTER.items() if start.match(content)), None)
    return raster or ("image/svg+xml" if is_drawing(content) else None)


def attach_passages(sources: Iterable[Source], documents: Iterable[str], read: ReadArtifact) -> dict[str, Passage]:
    """Find the lines cited by sources in the uploaded text documents, with the lines around them.

    Documents other than plain text have no lines; their sources only have the quotation.
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
            texts[name] = _lines(_content(*files[name], _MOST_DOCUMENT_BYTES, read))
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
        manifest = cast("dict[str, Any]", json.loads(_content(uri, 0, _MOST_DOCUMENT_BYTES, read) or b"{}"))
        if manifest.get("format") != MANIFEST_FORMAT:
            return []
        return [(str(each["name"]), f"artifact:{each['sha256']}", int(each["bytes"])) for each in manifest["files"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []


def _content(uri: str, size: int, most: int, read: ReadArtifact) -> bytes | None:
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
