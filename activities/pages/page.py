"""What reading a web page comes to. Pure values, cheap to import."""

from datetime import timedelta

from chargehand.contracts import Contract


class PageUnreadableError(Exception):
    """A page cannot be read; the message says why, for the agent."""


class FetchLimits(Contract):
    """How much of the network one page may take."""

    wire_bytes: int = 5_000_000
    """Bytes of the body as they come, compressed or not."""
    decoded_bytes: int = 5_000_000
    """Bytes of the body after decompression."""
    redirects: int = 5
    total: timedelta = timedelta(seconds=20)
    """Time for everything: resolving, connecting, redirects and body."""
    connect: timedelta = timedelta(seconds=5)
    """Time for one attempt to connect."""


class Fetched(Contract):
    """The body of a page as it came."""

    url: str
    """Where it was in the end, after redirects."""
    media_type: str
    charset: str
    """As the server names it; empty if it does not."""
    body: bytes


class Page(Contract):
    """A page as text."""

    title: str = ""
    author: str = ""
    date: str = ""
    """ISO 8601, as far as it is known."""
    text: str
    """Markdown, or the text as it is if the page is not HTML; the beginning of it if it is very long."""
    characters: int
    """The length of the whole text."""
