"""What a report's page shows from the artifact store: pictures, and the text around quotations.

Both are bounded, so that a page stays small enough to mail.
"""

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from chargehand import Artifact, Report
from chargehand_cli.rendering.cited_passages import Passage, ReadArtifact, attach_passages, read_bounded
from chargehand_cli.rendering.drawings import is_drawing

MOST_PICTURES: Final = 20
MOST_PICTURE_BYTES: Final = 2_000_000
MOST_BYTES_OF_ALL_PICTURES: Final = 8_000_000
_RASTER: Final[Mapping[str, re.Pattern[bytes]]] = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF.{4}WEBP", re.DOTALL),
}


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
        content = read_bounded(artifact.uri, artifact.bytes, MOST_PICTURE_BYTES, read)
        media_type = _picture_type(content) if content else None
        if content and media_type and total + len(content) <= MOST_BYTES_OF_ALL_PICTURES:
            total += len(content)
            pictures[artifact.uri] = f"data:{media_type};base64,{b64encode(content).decode()}"
    return pictures


def _picture_type(content: bytes) -> str | None:
    """Detect the media type of a picture: raster formats by the first bytes, SVG by the whole content."""
    raster = next((name for name, start in _RASTER.items() if start.match(content)), None)
    return raster or ("image/svg+xml" if is_drawing(content) else None)
