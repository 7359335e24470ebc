"""Read an EPUB: its chapters in the order in which they are read."""

import posixpath
import zipfile
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote
from xml.etree import ElementTree

from activities.documents.formats.html_text import read_blocks
from activities.documents.formats.paragraphs import Paragraphs
from activities.documents.parsed import Parsed, Source, UnreadableError
from activities.processes.limits import Allowance

_CONTAINER: Final = "META-INF/container.xml"


def parse(source: Source, allowance: Allowance) -> Parsed:
    read = Paragraphs()
    try:
        with zipfile.ZipFile(source.path) as archive:
            for chapter in allowance.over(_chapters(archive)):
                blocks, headings = read_blocks(archive.read(chapter).decode("utf-8", "replace"), allowance)
                read.headings.all += headings
                for block in blocks:
                    read.add_under(block.heading, block.text, block.kind)
    except (zipfile.BadZipFile, KeyError, RuntimeError, ElementTree.ParseError) as error:
        problem = "It is not a readable EPUB: broken, incomplete, or protected against copying."
        raise UnreadableError(problem) from error
    return read.parsed()


def _chapters(archive: zipfile.ZipFile) -> Iterator[str]:
    container = _xml(archive.read(_CONTAINER))
    package = next((each.get("full-path", "") for each in container.iter() if _name(each) == "rootfile"), "")
    book = _xml(archive.read(package))
    files = {each.get("id", ""): each.get("href", "") for each in book.iter() if _name(each) == "item"}
    for chapter in (each.get("idref", "") for each in book.iter() if _name(each) == "itemref"):
        yield posixpath.normpath(posixpath.join(posixpath.dirname(package), unquote(files[chapter])))


def _name(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _xml(content: bytes) -> ElementTree.Element:
    # Entities that grow are refused by the parser, and the process that runs it is limited.
    return ElementTree.fromstring(content)  # noqa: S314  # as just said
