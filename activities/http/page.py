"""Limits, results and errors of fetches, cheap to import."""

from datetime import timedelta

from chargehand.contracts import Contract


class FetchError(Exception):
    """A page or document cannot be read from the web; the message says why, for the agent or user."""

    is_internal: bool = False
    """Whether an internal server contributed to the message."""


class FetchLimits(Contract):
    """Limits of fetching one page or document."""

    wire_bytes: int = 5_000_000
    """Bytes of the body as sent, compressed or not."""
    decoded_bytes: int = 5_000_000
    """Bytes of the body after decompression."""
    document_bytes: int = 20_000_000
    """The same two limits for a PDF, DOCX or workbook that an agent reads as a page."""
    redirects: int = 5
    total: timedelta = timedelta(seconds=20)
    """Total time: name resolution, connections, redirects and body."""
    connect: timedelta = timedelta(seconds=5)
    """Time for one connection attempt."""


class Fetched(Contract):
    """The body of a page as it was sent."""

    url: str
    """The final URL, after redirects."""
    media_type: str
    charset: str = ""
    """The charset stated by the server, or empty."""
    suffix: str = ""
    """The document format according to content type and content, such as `.pdf`; empty for text."""
    last_modified: str = ""
    """The `Last-Modified` header, or empty."""
    body: bytes


class Page(Contract):
    title: str = ""
    author: str = ""
    date: str = ""
    """ISO 8601, in the known precision."""
    date_origin: str = ""
    """Where the date was found, such as `meta article:published_time`; guesses are marked."""
    text: str
    """Markdown, or the unchanged text if the page is not HTML; its beginning if it is very long."""
    characters: int
    """The length of the whole text."""
