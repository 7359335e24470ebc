"""Turn the HTML of a page into text. Runs in the limited child only, and imports nothing of ours to start soon."""

import re
from typing import Final, NamedTuple
from urllib.parse import urljoin

from trafilatura import bare_extraction, html2txt
from trafilatura.settings import Document

LONGEST_TEXT: Final = 100_000
"""Characters that are handed back; no answer of a tool has room for more."""
_REFRESH: Final = re.compile(
    rb"<meta\b[^>]{0,500}?http-equiv\s*=\s*[\"']?refresh[^>]{0,500}?url\s*=\s*[\"']?([^\"'>\s]{1,2000})", re.IGNORECASE
)
_REFRESH_IS_WITHIN: Final = 20_000


class HtmlPage(NamedTuple):
    """What a page says, and says about itself; all cut to what is of use."""

    title: str
    author: str
    date: str
    """ISO 8601, as far as it is known."""
    text: str
    characters: int
    """The length of the text before it was cut."""
    refresh: str
    """Where the page sends browsers on to by itself; empty if nowhere."""


def read_html(url: str, html: bytes | str) -> HtmlPage:
    """Extract the main text, as Markdown, with title, author and date."""
    document = bare_extraction(html, url=url, with_metadata=True, include_formatting=True)
    if isinstance(document, Document):
        stated = (document.title, document.author, document.date)
        text = "\n\n".join(part.strip() for part in (document.text, document.comments) if part)
    else:
        stated = ("", "", "")
        text = html2txt(html).strip()
    title, author, date = (_sound(value or "")[:1_000] for value in stated)
    return HtmlPage(title, author, date, _sound(text[:LONGEST_TEXT]), len(text), _refresh(url, html))


def _refresh(url: str, html: bytes | str) -> str:
    start = html[:_REFRESH_IS_WITHIN]
    found = _REFRESH.search(start if isinstance(start, bytes) else start.encode("utf-8", "replace"))
    if found is None:
        return ""
    try:
        return urljoin(url, found.group(1).decode("utf-8", "replace"))
    except ValueError:
        return ""


def _sound(text: str) -> str:
    """Replace halves of characters, which no payload can carry."""
    return text.encode("utf-8", "replace").decode("utf-8")
