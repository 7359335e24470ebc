"""The date of a page, with the place where it is stated. Runs in the child process that reads pages."""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final, NamedTuple, Protocol

GUESSED: Final = "guessed from the page"
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


class Element(Protocol):
    """What is used of an element of `lxml`, which has no types."""

    text: str | None

    def iter(self, tag: str, /) -> "Iterator[Element]": ...

    def get(self, name: str, /) -> str | None: ...


class StatedDate(NamedTuple):
    """A date and its origin; both empty if the page states none."""

    date: str = ""
    """ISO 8601, in the precision that is stated."""
    origin: str = ""


def stated_date(page: Element) -> StatedDate:
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
    return next((StatedDate(date, origin) for origin, text in candidates if (date := iso_day(text))), StatedDate())


def iso_day(text: str) -> str:
    """Write a date as ISO 8601; empty for what is not clearly a date."""
    text = text.strip()
    if _MONTH.fullmatch(text):
        return text
    try:
        if day := _DAY.match(text):
            return datetime(int(day[1]), int(day[2]), int(day[3])).date().isoformat()  # noqa: DTZ001  # only its date is used
        return datetime.fromisoformat(text).date().isoformat()
    except ValueError:
        return ""


def _metas(page: Element) -> Iterator[tuple[str, str]]:
    for element, _ in zip(page.iter("meta"), range(_MOST_ELEMENTS), strict=False):
        content = element.get("content") or ""
        for attribute in _NAMES:
            if name := element.get(attribute):
                yield name.strip().lower(), content[:100]


def _linked_data(page: Element) -> Iterator[tuple[str, str]]:
    for element, _ in zip(page.iter("script"), range(_MOST_ELEMENTS), strict=False):
        if (element.get("type") or "").strip().lower() == "application/ld+json":
            yield from _LINKED_DATA.findall((element.text or "")[:_LONGEST_SCRIPT])


def _times(page: Element) -> Iterator[tuple[bool, str]]:
    for element, _ in zip(page.iter("time"), range(_MOST_ELEMENTS), strict=False):
        is_marked = element.get("pubdate") is not None or element.get("itemprop") == "datePublished"
        yield is_marked, (element.get("datetime") or "")[:100]
