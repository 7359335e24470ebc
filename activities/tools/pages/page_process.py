"""Turn the HTML of untrusted pages into text, in a limited child process started by `activities.tools.pages.text`."""

import base64
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple
from urllib.parse import urljoin

from trafilatura import bare_extraction, html2txt
from trafilatura.settings import Document
from trafilatura.utils import load_html

from activities.processes import limits
from activities.tools.pages.window import LONGEST_TEXT, clean

_MEMORY_BYTES: Final = 768 << 20
_REFRESH: Final = re.compile(
    rb"<meta\b[^>]{0,500}?http-equiv\s*=\s*[\"']?refresh[^>]{0,500}?url\s*=\s*[\"']?([^\"'>\s]{1,2000})", re.IGNORECASE
)
_REFRESH_IS_WITHIN: Final = 20_000
_GUESSED: Final = "guessed from the page"
_PUBLISHED: Final = (
    "article:published_time", "og:article:published_time", "datepublished", "citation_publication_date",
    "citation_date", "citation_online_date", "dc.date.issued", "dcterms.issued", "dc.date.created", "dcterms.created",
    "dc.date", "dcterms.date", "parsely-pub-date", "sailthru.date", "publication_date", "publish-date", "publishdate",
    "pubdate", "date",
)  # fmt: skip
_MODIFIED: Final = (
    "article:modified_time", "og:updated_time", "datemodified", "dc.date.modified", "dcterms.modified",
    "last-modified", "revised",
)  # fmt: skip
_LINKED_DATA: Final = re.compile(r'"(date(?:Published|Created|Modified))"\s{0,20}:\s{0,20}"([^"]{4,40})"')
_NAMES: Final = ("property", "name", "itemprop", "http-equiv")
_MOST_ELEMENTS: Final = 500
_LONGEST_SCRIPT: Final = 200_000
_DAY: Final = re.compile(r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})")
_MONTH: Final = re.compile(r"\d{4}(?:-(?:0[1-9]|1[0-2]))?")


class _StatedDate(NamedTuple):
    """A date and its origin; both empty if the page states none."""

    date: str = ""
    """ISO 8601, in the precision that is stated."""
    origin: str = ""


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """Read one page, or return its `problem`; an empty question checks whether the process has started."""
    if not question:
        return {}
    body = base64.b64decode(question["body"])
    try:
        # Without a charset from the server, trafilatura finds the one that the page itself declares.
        html = body.decode(question["charset"], errors="replace") if question["charset"] else body
        return _read_html(question["url"], html)
    except MemoryError:
        return {"problem": "needs more memory than a page may use"}
    except Exception as error:  # noqa: BLE001  # a hostile page may break the parser, and the next page is still read
        return {"problem": f"is no HTML that can be read ({type(error).__name__})"}


def _read_html(url: str, html: bytes | str) -> dict[str, Any]:
    """Extract the contents of a `Page`, and the address to which the page itself redirects browsers."""
    tree = load_html(html)
    dated = _StatedDate() if tree is None else _stated_date(tree)
    document = None if tree is None else bare_extraction(tree, url=url, with_metadata=True, include_formatting=True)
    if isinstance(document, Document):
        stated = (document.title, document.author)
        if not dated.date and document.date:
            dated = _StatedDate(document.date, _GUESSED)
        text = "\n\n".join(part.strip() for part in (document.text, document.comments) if part)
    else:
        stated = ("", "")
        text = html2txt(html).strip()
    title, author = (clean(value or "")[:1_000] for value in stated)
    text = clean(text)
    return {
        "title": title,
        "author": author,
        "date": dated.date,
        "date_origin": dated.origin,
        "text": text[:LONGEST_TEXT],
        "characters": len(text),
        "refresh": _refresh(url, html),
    }


def _refresh(url: str, html: bytes | str) -> str:
    start = html[:_REFRESH_IS_WITHIN]
    match = _REFRESH.search(start if isinstance(start, bytes) else start.encode("utf-8", "replace"))
    if match is None:
        return ""
    try:
        return urljoin(url, match.group(1).decode("utf-8", "replace"))
    except ValueError:
        return ""


def _stated_date(page: Any) -> _StatedDate:  # from `lxml`, which has no types
    """Find the date of publication in a page's markup, or else the date of its last change."""
    metas = dict(reversed(list(_metas(page))))
    linked = dict(reversed(list(_linked_data(page))))
    times = list(_times(page))
    candidates = [
        *((f"meta {name}", metas.get(name, "")) for name in _PUBLISHED),
        *((f"JSON-LD {name}", linked.get(name, "")) for name in ("datePublished", "dateCreated")),
        *(("<time> marked as publication", value) for is_marked, value in times if is_marked),
        *((f"meta {name}", metas.get(name, "")) for name in _MODIFIED),
        ("JSON-LD dateModified", linked.get("dateModified", "")),
        *(("first <time> on the page", value) for _, value in times[:1]),
    ]
    return next((_StatedDate(date, origin) for origin, text in candidates if (date := _iso_day(text))), _StatedDate())


def _iso_day(text: str) -> str:
    """Format a date as ISO 8601; empty if it is not clearly a date."""
    text = text.strip()
    if _MONTH.fullmatch(text):
        return text
    try:
        if day := _DAY.match(text):
            return datetime(int(day[1]), int(day[2]), int(day[3])).date().isoformat()  # noqa: DTZ001  # only its date is used
        return datetime.fromisoformat(text).date().isoformat()
    except ValueError:
        return ""


def _metas(page: Any) -> Iterator[tuple[str, str]]:
    for element, _ in zip(page.iter("meta"), range(_MOST_ELEMENTS), strict=False):
        content = element.get("content") or ""
        for attribute in _NAMES:
            if name := element.get(attribute):
                yield name.strip().lower(), content[:100]


def _linked_data(page: Any) -> Iterator[tuple[str, str]]:
    for element, _ in zip(page.iter("script"), range(_MOST_ELEMENTS), strict=False):
        if (element.get("type") or "").strip().lower() == "application/ld+json":
            yield from _LINKED_DATA.findall((element.text or "")[:_LONGEST_SCRIPT])


def _times(page: Any) -> Iterator[tuple[bool, str]]:
    for element, _ in zip(page.iter("time"), range(_MOST_ELEMENTS), strict=False):
        is_marked = element.get("pubdate") is not None or element.get("itemprop") == "datePublished"
        yield is_marked, (element.get("datetime") or "")[:100]


if __name__ == "__main__":
    limits.confine(_MEMORY_BYTES, file_bytes=0)
    limits.serve(answer)
