"""Turn the body of a page into text: plain text in a thread, HTML and documents in limited child processes."""

import asyncio
import base64
import codecs
from collections.abc import Iterator
from datetime import timedelta
from email.utils import parsedate_to_datetime
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from activities.documents.parsed import Part, Result
from activities.documents.parsing import parse_alone
from activities.http.page import Fetched, FetchError, Page
from activities.processes.child import ChildError, ChildProcess
from activities.tools.pages.body_type import HTML_TYPES
from activities.tools.pages.window import LONGEST_TEXT, clean

# Only real character sets: Python's registry also holds codecs that take quadratic time.
_CHARSETS: Final = ("utf-8", "utf-16", "utf-32", "ascii", "iso", "cp", "koi8", "gb", "big5", "euc", "shift", "mac")
_PROCESS: Final = f"{__package__}.page_process"
_CHILDREN: Final = 2
_PAGES_A_CHILD: Final = 50
"""A process is replaced after this many pages, in case its parser leaks or is corrupted."""
_PARSING: Final = timedelta(seconds=10)
_BUSY: Final = 4
"""Wall-clock time allowed for each second of processor time, since the machine may be busy."""
_STARTING: Final = timedelta(seconds=30)
_LONGEST_PAGE_TITLE: Final = 200


class PageTexts:
    """Reads the bodies of pages. A hostile page can break its child process, but not the worker. Close it after use.

    `parsing` is the processor time for one page of HTML.
    """

    def __init__(self, parsing: timedelta = _PARSING) -> None:
        self._seconds = parsing.total_seconds()
        self._places = asyncio.Semaphore(_CHILDREN)
        self._idle: list[tuple[ChildProcess, int]] = []
        """Idle child processes, and how many pages each has read."""

    async def read(self, fetched: Fetched) -> Page:
        """Extract the main text, as Markdown, and the page's metadata. Raises `FetchError`."""
        if fetched.suffix or fetched.media_type in HTML_TYPES:
            async with self._places:
                page = await (read_document(fetched) if fetched.suffix else self._from_html(fetched))
        else:
            page = await asyncio.to_thread(_from_text, fetched)
        if not page.text:
            raise FetchError(
                f"{fetched.url} holds no text that can be read; it may need a browser that runs its scripts"
            )
        if not page.date and (date := _header_date(fetched.last_modified)):
            return page.replace(date=date, date_origin="header Last-Modified")
        return page

    async def close(self) -> None:
        """Stop the child processes."""
        while self._idle:
            await self._idle.pop()[0].close()

    async def _from_html(self, fetched: Fetched) -> Page:
        body = await asyncio.to_thread(base64.b64encode, fetched.body)
        question = {
            "url": fetched.url,
            "charset": _charset(fetched.charset) if fetched.charset else "",
            "body": body.decode("ascii"),
            "processor_seconds": max(1, round(self._seconds)),
        }
        child, pages = self._idle.pop() if self._idle else (ChildProcess(_PROCESS), 0)
        try:
            if not pages:
                # The time to start the process does not count towards the page.
                await child.ask({}, _STARTING.total_seconds())
            answer = await child.ask(question, self._seconds * _BUSY)
        except ChildError as error:
            raise FetchError(f"{fetched.url} takes more time or memory to parse than a page may") from error
        except BaseException:
            await child.close()
            raise
        if pages + 1 < _PAGES_A_CHILD:
            self._idle.append((child, pages + 1))
        else:
            await child.close()
        if problem := answer.get("problem"):
            raise FetchError(f"{fetched.url} {problem}")
        if answer["refresh"] and not answer["text"]:
            raise FetchError(f"{fetched.url} holds no text but redirects browsers to {answer['refresh']}")
        return Page.model_validate({name: answer[name] for name in Page.model_fields})


def _from_text(fetched: Fetched) -> Page:
    charset = _charset(fetched.charset)
    text = clean(fetched.body.decode(charset, errors="replace").removeprefix("\ufeff")).strip()
    return Page(text=text[:LONGEST_TEXT], characters=len(text))


def _header_date(stated: str) -> str:
    try:
        return parsedate_to_datetime(stated).date().isoformat() if stated else ""
    except ValueError:
        return ""


def _charset(name: str) -> str:
    try:
        known = codecs.lookup(name).name
    except LookupError:
        return "utf-8"
    return known if known.startswith(_CHARSETS) else "utf-8"


async def read_document(fetched: Fetched) -> Page:
    """Turn the body of a document into text with marked pages and sheets. Raises `FetchError`."""
    async with parse_alone(f"document{fetched.suffix}", fetched.body) as result:
        if problem := result.problem or result.unsupported:
            raise FetchError(f"{fetched.url} cannot be read. {problem}")
        return await asyncio.to_thread(_page, fetched.url, result)


def _page(url: str, result: Result) -> Page:
    pieces: list[str] = []
    length = 0
    for piece in _pieces(result):
        if length < LONGEST_TEXT:
            pieces.append(piece)
        length += len(piece) + 1
    text = clean("\n".join(pieces)).strip()
    return Page(
        title=_title(url, result), text=text[:LONGEST_TEXT], characters=len(text) if length <= LONGEST_TEXT else length
    )


def _pieces(result: Result) -> Iterator[str]:
    place = ""
    for part in result.rows():
        if not isinstance(part, Part):
            return  # parts come first
        if result.unit == "page":
            yield f"[page {part.first}]\n{part.text}\n"
            continue
        if part.place != place:
            place = part.place
            yield f"[sheet {place}]"
        yield part.text


def _title(url: str, result: Result) -> str:
    """Return a document's first heading, but a workbook's file name, since its headings are its sheets."""
    if result.headings and result.unit in {"page", "paragraph"}:
        return result.headings[0][:_LONGEST_PAGE_TITLE]
    parts = urlsplit(url)
    return (unquote(PurePosixPath(parts.path).name) or parts.netloc)[:_LONGEST_PAGE_TITLE]
