"""A loopback web: pages of about 51 kB on named hosts, and a search engine that answers like Tavily's."""

import asyncio
import json
import re
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from io import BytesIO
from textwrap import wrap
from typing import Any, Final
from unittest.mock import patch
from urllib.parse import urlsplit

from reportlab.lib.pagesizes import A4
from reportlab.pdfgen.canvas import Canvas

from tests.loopback_http import LoopbackHandler, serve_http

PAGE_BYTES: Final = 51_000
_SNIPPET_CHARACTERS: Final = 500
_WORD: Final = re.compile(r"[^\W_\u4e00-\u9fff]{2,}|[\u4e00-\u9fff]{2}")
_CHINESE: Final = re.compile(r"[\u4e00-\u9fff]+")

_FILLER: Final[Mapping[str, str]] = {
    "en": "Entry {n} of the yearly chronicle tells how visitors came in week {w}, what the weather was like, and which "
    "of the {k} volunteers kept the doors open until the evening.",
    "de": "Eintrag {n} der Chronik erzählt, wie viele Gäste in Woche {w} kamen, wie das Wetter war und wer von den {k} "
    "Freiwilligen die Türen bis zum Abend offen hielt.",
    "zh": "年鉴第{n}条记录了第{w}周的天气和来访者，当时共有{k}名志愿者值班到傍晚。",
}


@dataclass(frozen=True)
class WebPage:
    """A page: filler in a language, with sentences inserted at given positions."""

    address: str
    """Host and path, such as `bikes.example/aldra`; a path that ends in `.pdf` is served as PDF."""
    title: str
    facts: Mapping[float, str]
    """Sentences by position: 0 is the beginning, 1 the end."""
    language: str = "en"

    @property
    def host(self) -> str:
        return self.address.partition("/")[0]

    @property
    def is_pdf(self) -> bool:
        return self.address.endswith(".pdf")

    def paragraphs(self) -> Iterator[str]:
        """Write the page, paragraph by paragraph, until it reaches its size."""
        waiting = sorted(self.facts.items())
        written = 0
        number = 0
        while written < PAGE_BYTES:
            while waiting and waiting[0][0] * PAGE_BYTES <= written:
                yield waiting.pop(0)[1]
            number += 1
            filler = _FILLER[self.language]
            text = " ".join(filler.format(n=f"{number}.{part}", w=number * 3 + part, k=number + 7) for part in (1, 2))
            written += len(text.encode()) + 10
            yield text
        yield from (sentence for _, sentence in waiting)

    @cached_property
    def text(self) -> str:
        """The whole text of the page."""
        return "\n\n".join([self.title, *self.paragraphs()])

    @cached_property
    def words(self) -> tuple[frozenset[str], frozenset[str]]:
        """The words of its title and of its text."""
        return frozenset(_words(self.title)), frozenset(_words(self.text))

    def score(self, wanted: frozenset[str]) -> float:
        """Return how many of some words the page has, with more weight on the title: 3 is the maximum."""
        title, text = self.words
        return (2 * len(wanted & title) + len(wanted & text)) / max(len(wanted), 1)

    def body(self) -> tuple[str, bytes]:
        """Its media type and bytes."""
        if self.is_pdf:
            return "application/pdf", self._pdf()
        written = "\n".join(f"<p>{escape(text)}</p>" for text in self.paragraphs())
        page = (
            f'<!doctype html><html lang="{self.language}"><head><meta charset="utf-8"><title>{escape(self.title)}'
            f"</title></head><body><main><article><h1>{escape(self.title)}</h1>\n{written}</article></main></body></html>"
        )
        return "text/html; charset=utf-8", page.encode()

    def _pdf(self) -> bytes:
        file = BytesIO()
        canvas = Canvas(file, pagesize=A4)
        canvas.setTitle(self.title)
        lines = [line for text in [self.title, *self.paragraphs()] for line in [*wrap(text, 90), ""]]
        for start in range(0, len(lines), 50):
            for number, line in enumerate(lines[start : start + 50]):
                canvas.drawString(50, 800 - 15 * number, line)
            canvas.showPage()
        canvas.save()
        return file.getvalue()


@dataclass
class Web:
    """The pages served and the requests received."""

    pages: tuple[WebPage, ...]
    port: int = 0
    reads: list[str] = field(default_factory=list[str])
    """URLs in reading order."""

    @property
    def hosts(self) -> frozenset[str]:
        """Every host with its port, as an operator would list internal hosts."""
        return frozenset(f"{page.host}:{self.port}" for page in self.pages)

    def url(self, page: WebPage) -> str:
        return f"http://{page.host}:{self.port}{page.address.removeprefix(page.host)}"

    def page_at(self, url: str) -> WebPage:
        """Find the page of a URL, ignoring its fragment."""
        bare = url.partition("#")[0]
        return next(page for page in self.pages if self.url(page) == bare)

    def find(self, query: str, most: int) -> list[dict[str, Any]]:
        """Rank pages by how many of the query's words they contain, with more weight on the title."""
        wanted = frozenset(_words(query))
        ranked = sorted(((page.score(wanted), page) for page in self.pages), key=lambda found: -found[0])
        return [
            {
                "title": page.title,
                "url": self.url(page),
                "content": page.text[:_SNIPPET_CHARACTERS],
                "score": min(score / 3, 1.0),
            }
            for score, page in ranked[:most]
            if score > 0.5
        ]

    @contextmanager
    def resolvable(self, loop: asyncio.AbstractEventLoop) -> Generator[None]:
        """Make an event loop resolve the hosts of this web to loopback, without asking the DNS."""
        known = {page.host for page in self.pages}
        ask = loop.getaddrinfo

        async def getaddrinfo(host: str, port: int, **settings: Any) -> list[Any]:
            return await ask("127.0.0.1" if host in known else host, port, **settings)

        with patch.object(loop, "getaddrinfo", getaddrinfo):
            yield


def _words(text: str) -> Iterator[str]:
    for word in _WORD.findall(text.casefold()):
        if not _CHINESE.fullmatch(word):
            yield word
    for run in _CHINESE.findall(text):
        yield from (run[at : at + 2] for at in range(len(run) - 1))


@contextmanager
def serve_web(pages: tuple[WebPage, ...]) -> Generator[Web]:
    """Serve the pages of every host, and Tavily's `POST /search`, from one port."""
    web = Web(pages)
    served = {page.address: page for page in pages}

    class Handler(LoopbackHandler):
        def reply(self) -> None:
            if self.command == "POST":
                asked = json.loads(self.body())
                found = {"results": web.find(asked["query"], int(asked.get("max_results", 5)))}
                return self.answer(200, json.dumps(found).encode(), Content_Type="application/json")
            host = self.headers["host"].partition(":")[0]
            if not (page := served.get(f"{host}{urlsplit(self.path).path}")):
                return self.answer(404)
            web.reads.append(f"http://{self.headers['host']}{self.path}")
            media_type, body = page.body()
            return self.answer(200, body, Content_Type=media_type)

    with serve_http(Handler) as address:
        web.port = int(address.rpartition(":")[2])
        yield web
