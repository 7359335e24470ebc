"""Reads an EPUB file: its chapters in reading order."""

import posixpath
import zipfile
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote
from xml.etree import ElementTree

from activities.documents.formats.html_text import NEVER_SHOWN, read_blocks
from activities.documents.formats.paragraphs import Paragraphs
from activities.documents.formats.plain_text import Text, decode
from activities.documents.parsed import Parsed, Source, UnreadableError
from activities.processes.limits import Allowance

_CONTAINER: Final = "META-INF/container.xml"
_ENCRYPTION: Final = "META-INF/encryption.xml"
_NEVER_READ: Final = NEVER_SHOWN | {"nav"}
"""Elements to skip; content outside the running text, such as notes, is still read."""


def parse(source: Source, allowance: Allowance) -> Parsed:
    read = Paragraphs()
    try:
        with zipfile.ZipFile(source.path) as archive:
            for chapter in allowance.over(_chapters(archive)):
                blocks, headings = read_blocks((decode(archive.read(chapter)) or Text("")).text, allowance, _NEVER_READ)
                read.headings.all += headings
                for block in blocks:
                    read.add_under(block.heading, block.text, block.kind)
    except (zipfile.BadZipFile, KeyError, RuntimeError, ElementTree.ParseError) as error:
        problem = "It is not a readable EPUB: broken, incomplete, or protected against copying."
        raise UnreadableError(problem) from error
    return read.parsed()


def _chapters(archive: zipfile.ZipFile) -> Iterator[str]:
    package = next((each.get("full-path", "") for each in _elements(archive, _CONTAINER, "rootfile")), "")
    files = {each.get("id", ""): each.get("href", "") for each in _elements(archive, package, "item")}
    encryption = [_ENCRYPTION] if _ENCRYPTION in archive.namelist() else []
    locked = {each.get("URI") for file in encryption for each in _elements(archive, file, "CipherReference")}
    for chapter in _elements(archive, package, "itemref"):
        name = posixpath.normpath(posixpath.join(posixpath.dirname(package), unquote(files[chapter.get("idref", "")])))
        if name in locked:
            raise KeyError(name)
        yield name


def _elements(archive: zipfile.ZipFile, file: str, name: str) -> Iterator[ElementTree.Element]:
    # The parser refuses expanding entities, and the process that runs it is limited.
    document = ElementTree.fromstring(archive.read(file))  # noqa: S314  # see above
    return (each for each in document.iter() if each.tag.rpartition("}")[2] == name)
