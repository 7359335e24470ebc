"""What a fetch may cost, what it returns, and how it fails: values that are cheap to import."""

from datetime import timedelta

from chargehand.contracts import Contract


class FetchError(Exception):
    """A page or document cannot be read from the web; the message says why, for the agent or user."""

    is_internal: bool = False
    """Whether an internal server has a part in what the message says."""


class FetchLimits(Contract):
    """How much of the network one page or document may take."""

    wire_bytes: int = 5_000_000
    """Bytes of the body as sent, compressed or not."""
    decoded_bytes: int = 5_000_000
    """Bytes of the body after decompression."""
    document_bytes: int = 20_000_000
    """The same two limits for a PDF, DOCX or workbook that an agent reads as a page."""
    redirects: int = 5
    total: timedelta = timedelta(seconds=20)
    """Time for everything: name resolution, connections, redirects and body."""
    connect: timedelta = timedelta(seconds=5)
    """Time for one attempt to connect."""


class Fetched(Contract):
    """The body of a page as it was sent."""

    url: str
    """The final URL, after redirects."""
    media_type: str
    charset: str = ""
    """As the server states it, or empty."""
    suffix: str = ""
    """The document format that content type and content agree on, such as `.pdf`; empty for text."""
    last_modified: str = ""
    """The `Last-Modified` header, or empty."""
    body: bytes


class Page(Contract):
    title: str = ""
    author: str = ""
    date: str = ""
    """ISO 8601, in the precision that is known."""
    date_origin: str = ""
    """Where the date stands, such as `meta article:published_time`; a guess is called one."""
    text: str
    """Markdown, or the text as it is if the page is not HTML; the beginning of it if it is very long."""
    characters: int
    """The length of the whole text."""
