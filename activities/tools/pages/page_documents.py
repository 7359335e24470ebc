"""Documents among the pages that agents read by their address: parsed in the limited child process of all documents."""

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from activities.documents.formats.registry import format_of
from activities.documents.parsed import Part, Result, read_result
from activities.documents.parsing import Job, parse_in_child
from activities.http.page import Fetched, FetchError, Page
from activities.tools.pages.window import LONGEST_TEXT, clean

_LONGEST_PAGE_TITLE: Final = 200


class PageDocuments:
    """Reads PDF, DOCX and workbooks from the web."""

    async def read(self, fetched: Fetched) -> Page:
        """Turn the body of a document into text in which pages and sheets are marked. Raises `FetchError`."""
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="chargehand-page-"))
        try:
            return await self._read(fetched, folder)
        finally:
            await asyncio.shield(asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True))

    async def _read(self, fetched: Fetched, folder: Path) -> Page:
        name = f"document{fetched.suffix}"
        body = folder / name
        await asyncio.to_thread(body.write_bytes, fetched.body)
        job = Job(format_of(name), name, body, len(fetched.body), 0)
        [[(_, answer)]] = [answers async for answers in parse_in_child([job], folder)]
        if isinstance(answer, str):
            raise FetchError(f"{fetched.url} cannot be read. {answer}")
        return await asyncio.to_thread(_page, fetched.url, answer)


def _page(url: str, answer: Path) -> Page:
    result = read_result(answer)
    if problem := result.problem or result.unsupported:
        raise FetchError(f"{url} cannot be read. {problem}")
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
    """Take a document's first heading, but the file name of a workbook, whose headings are its sheets."""
    if result.headings and result.unit in {"page", "paragraph"}:
        return result.headings[0][:_LONGEST_PAGE_TITLE]
    parts = urlsplit(url)
    return (unquote(PurePosixPath(parts.path).name) or parts.netloc)[:_LONGEST_PAGE_TITLE]
