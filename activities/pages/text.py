"""Turn the body of a page into text. Pure computation, done in a thread."""

import codecs
from typing import Final

from activities.pages.page import Fetched, Page, PageUnreadableError

_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
# Names of real character sets only: Python's registry also holds codecs that take quadratic time.
_CHARSETS: Final = ("utf-8", "utf-16", "utf-32", "ascii", "iso", "cp", "koi8", "gb", "big5", "euc", "shift", "mac")


def page_text(fetched: Fetched) -> Page:
    """Extract the main text, as Markdown, and what the page says about itself; raises `PageUnreadableError`."""
    page = _from_html(fetched) if fetched.media_type in _HTML else Page(text=_decoded(fetched).strip())
    if not page.text:
        raise PageUnreadableError(
            f"{fetched.url} holds no text that can be read; it may need a browser that runs its scripts"
        )
    return page


def _from_html(fetched: Fetched) -> Page:
    from trafilatura import bare_extraction, html2txt  # takes 0.6 s, paid by the first page only
    from trafilatura.settings import Document

    # Without a charset from the server, trafilatura finds the one that the page itself declares.
    html = _decoded(fetched) if fetched.charset else fetched.body
    document = bare_extraction(html, url=fetched.url, with_metadata=True, include_formatting=True)
    if not isinstance(document, Document):
        return Page(text=html2txt(html).strip())
    return Page(
        title=document.title or "",
        author=document.author or "",
        date=document.date or "",
        text="\n\n".join(part.strip() for part in (document.text, document.comments) if part),
    )


def _decoded(fetched: Fetched) -> str:
    return fetched.body.decode(_charset(fetched.charset), errors="replace").removeprefix("\ufeff")


def _charset(name: str) -> str:
    try:
        known = codecs.lookup(name).name
    except LookupError:
        return "utf-8"
    return known if known.startswith(_CHARSETS) else "utf-8"
