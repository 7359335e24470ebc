"""Turn the HTML of untrusted pages into text, in a limited child process started by `activities.tools.pages.text`."""

import base64
import re
from typing import Any, Final, NamedTuple, cast
from urllib.parse import urljoin

from trafilatura import bare_extraction, html2txt
from trafilatura.settings import Document
from trafilatura.utils import load_html

from activities.processes import limits
from activities.tools.pages.dates import GUESSED, Element, StatedDate, stated_date
from activities.tools.pages.window import LONGEST_TEXT, clean

_MEMORY_BYTES: Final = 768 << 20
_REFRESH: Final = re.compile(
    rb"<meta\b[^>]{0,500}?http-equiv\s*=\s*[\"']?refresh[^>]{0,500}?url\s*=\s*[\"']?([^\"'>\s]{1,2000})", re.IGNORECASE
)
_REFRESH_IS_WITHIN: Final = 20_000


class HtmlPage(NamedTuple):
    """The text and the metadata of a page, cut to useful lengths."""

    title: str
    author: str
    date: str
    """ISO 8601, in the precision that is known."""
    date_origin: str
    """Where the date stands."""
    text: str
    characters: int
    """The length of the text before it was cut."""
    refresh: str
    """Where the page redirects browsers to by itself, or empty."""


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """Read one page, or answer its `problem`; an empty question asks whether the process has started."""
    if not question:
        return {}
    limits.allow_processor_seconds(question["processor_seconds"])
    body = base64.b64decode(question["body"])
    try:
        # Without a charset from the server, trafilatura finds the one that the page itself declares.
        html = body.decode(question["charset"], errors="replace") if question["charset"] else body
        return read_html(question["url"], html)._asdict()
    except MemoryError:
        return {"problem": "needs more memory than a page may use"}
    except Exception as error:  # noqa: BLE001  # a hostile page may break the parser, and the next page is still read
        return {"problem": f"is no HTML that can be read ({type(error).__name__})"}


def read_html(url: str, html: bytes | str) -> HtmlPage:
    """Extract the main text, as Markdown, with title, author and date."""
    tree = load_html(html)
    dated = StatedDate() if tree is None else stated_date(cast("Element", tree))
    document = None if tree is None else bare_extraction(tree, url=url, with_metadata=True, include_formatting=True)
    if isinstance(document, Document):
        stated = (document.title, document.author)
        if not dated.date and document.date:
            dated = StatedDate(document.date, GUESSED)
        text = "\n\n".join(part.strip() for part in (document.text, document.comments) if part)
    else:
        stated = ("", "")
        text = html2txt(html).strip()
    title, author = (clean(value or "")[:1_000] for value in stated)
    text = clean(text)
    return HtmlPage(title, author, *dated, text[:LONGEST_TEXT], len(text), _refresh(url, html))


def _refresh(url: str, html: bytes | str) -> str:
    start = html[:_REFRESH_IS_WITHIN]
    found = _REFRESH.search(start if isinstance(start, bytes) else start.encode("utf-8", "replace"))
    if found is None:
        return ""
    try:
        return urljoin(url, found.group(1).decode("utf-8", "replace"))
    except ValueError:
        return ""


if __name__ == "__main__":
    limits.confine(_MEMORY_BYTES, file_bytes=0)
    limits.serve(answer)
