"""Resolves the document that a model names: by its name in any spelling, or a ref or table name shown to it."""

import unicodedata
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from activities.documents.catalog import Catalog
from activities.documents.passages import parse_reference

_MOST_NAMES: Final = 30
_MOST_CANDIDATES: Final = 8
_LONGEST_ECHO: Final = 100
_MARKS: Final = "[]()`\"'<>“”‘’ \t\r\n"


class UnknownDocumentError(Exception):
    """The library has no document of this name, or could not read it; the message lists the alternatives."""


class Named(NamedTuple):
    """A document, and the place in it to which the name refers."""

    document: str
    sheet: str | None = None
    first: int = 1
    """Page, line, paragraph or row at which the place begins."""


def resolve(text: str, catalog: Catalog) -> Named:
    """Find the document to which a text refers. Raises `UnknownDocumentError`, which lists the candidates.

    Case, folder and extension are ignored if the name is unambiguous without them. `handbook.md#L10-L14`,
    `q3.pdf#page=2` and `prices.xlsx#Sheet1!2-40` also name the place; a table's name also names its sheet.
    """
    query = text.strip().strip(_MARKS)
    names = [entry.name for entry in catalog.documents]
    if (document := _document(query, names)) is not None:
        return Named(document)
    for name, place in _divisions(query):
        if (document := _document(name, names)) is not None:
            return _locate(document, place)
    for table in catalog.tables:
        if _fold(table.name) == _fold(query):
            return Named(table.document, table.sheet or None)
    raise UnknownDocumentError(_unknown(query, catalog))


def document_named(text: str, names: list[str]) -> str:
    """Find a document by its name alone. Raises `UnknownDocumentError`, which lists the candidates."""
    query = text.strip().strip(_MARKS)
    if (document := _document(query, names)) is not None:
        return document
    raise UnknownDocumentError(f"there is no document {_quote(query)}; there are: {_join_names(names)}")


def _document(asked: str, names: list[str]) -> str | None:
    if asked in names:
        return asked
    for form in _FORMS:
        matches = [name for name in names if _fold(form(name)) == _fold(asked)]
        if len(matches) == 1:
            return matches[0]
        if matches:
            more = f" and {len(matches) - _MOST_CANDIDATES} more" if len(matches) > _MOST_CANDIDATES else ""
            raise UnknownDocumentError(
                f"{_quote(asked)} may be {', '.join(matches[:_MOST_CANDIDATES])}{more}; name one of them in full"
            )
    return None


def _divisions(asked: str) -> Iterator[tuple[str, str]]:
    """Split at each `#`, starting from the right, since a name may contain one."""
    at = asked.rfind("#")
    while at > 0:
        yield asked[:at], asked[at + 1 :]
        at = asked.rfind("#", 0, at)


def _locate(document: str, place: str) -> Named:
    reference = parse_reference(f"{document}#{place}", [document])
    if reference is None:
        return Named(document, place or None)
    return Named(document, reference.place or None, max(1, reference.first))


def _unknown(asked: str, catalog: Catalog) -> str:
    if asked.startswith(("sql:", "code:")):
        return f"{_quote(asked)} is the result of a query or a program, not a document: its text is above"
    listed = _join_names([entry.name for entry in catalog.documents if not entry.problem])
    if "://" in asked:
        return f"{_quote(asked)} is a web address, not one of the user's documents, which are: {listed}"
    return f"there is no document {_quote(asked)}; there are: {listed}"


def _join_names(names: list[str]) -> str:
    return ", ".join(names[:_MOST_NAMES]) + (", …" if len(names) > _MOST_NAMES else "") or "none"


def _quote(asked: str) -> str:
    return f"'{asked[:_LONGEST_ECHO]}'"


def _fold(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()


_FORMS: Final[tuple[Callable[[str], str], ...]] = (
    lambda name: name,
    lambda name: name.removesuffix(PurePosixPath(name).suffix),
    lambda name: PurePosixPath(name).name,
    lambda name: PurePosixPath(name).stem,
)
"""From strict to lenient: unchanged, without the extension, without the folder, without both."""
