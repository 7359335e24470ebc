"""The supported document types, one row each in `FORMATS`.

A new type is a module here with `parse(source, allowance)`, and a row. `parse` runs in a limited child process, which
imports nothing else of the worker: it reads `source.path` and returns a `Parsed`, or raises `UnreadableError`.
"""

from pathlib import PurePosixPath
from typing import Final, NamedTuple

from activities.documents.parsed import NotADocumentError


class Format(NamedTuple):
    """One document type."""

    kind: str
    """Shown in the catalog."""
    suffixes: tuple[str, ...]
    module: str
    """The name of its module in this package."""
    largest_bytes: int = 50 << 20
    is_zip: bool = False
    """Whether it is a ZIP archive, refused if it would unpack to far more than its size."""
    has_tables: bool = False
    """Whether it has tables, which are loaded for SQL."""


_TEXT: Final = Format("txt", (), "plain_text", 20 << 20)
FORMATS: Final = (
    Format("pdf", (".pdf",), "pdf", 100 << 20),
    Format("docx", (".docx",), "docx", is_zip=True),
    Format("pptx", (".pptx",), "presentation", is_zip=True),
    Format("odt", (".odt", ".odp"), "open_document", is_zip=True),
    Format("epub", (".epub",), "ebook", is_zip=True),
    Format("rtf", (".rtf",), "rich_text", 20 << 20),
    Format("xlsx", (".xlsx", ".xlsm", ".xlsb", ".xls"), "workbook", is_zip=True, has_tables=True),
    Format("ods", (".ods",), "workbook", is_zip=True, has_tables=True),
    Format("csv", (".csv", ".tsv", ".tab"), "csv_file", 200 << 20, has_tables=True),
    Format("json", (".json", ".jsonl", ".ndjson"), "json_file", 20 << 20, has_tables=True),
    Format("md", (".md", ".markdown", ".mdx"), "plain_text", 20 << 20),
    Format("eml", (".eml", ".mht", ".mhtml"), "mail"),
    Format("html", (".html", ".htm", ".xhtml"), "html_text", 20 << 20),
    Format("picture", (".png", ".jpg", ".jpeg", ".webp"), "picture", 20 << 20),
    _TEXT,
)
_UNSUPPORTED: Final = {
    ".doc": "an old Word format: save it as DOCX or PDF",
    ".ppt": "an old PowerPoint format: save it as PDF",
    **dict.fromkeys((".fodt", ".fods", ".fodp", ".fodg"), "a flat OpenDocument format: save it as ODT, ODS or ODP"),
    ".mbox": "a mailbox: save its mails as EML",
    ".gif": "a picture of a kind that models do not see: save it as PNG",
    ".tif": "a picture of a kind that models do not see: save it as PNG",
    ".tiff": "a picture of a kind that models do not see: save it as PNG",
    ".heic": "a picture of a kind that models do not see: save it as JPEG",
    ".bmp": "a picture of a kind that models do not see: save it as PNG",
}


def format_of(name: str) -> Format:
    """Choose the format by a file's name; unknown suffixes are read as text. Raises `NotADocumentError`."""
    suffix = PurePosixPath(name).suffix.lower()
    if suffix in _UNSUPPORTED:
        raise NotADocumentError(_UNSUPPORTED[suffix])
    return next((known for known in FORMATS if suffix in known.suffixes), _TEXT)


def size_problem(document: Format, size: int) -> str:
    """Explain why a file of this size is not read; empty if it is."""
    if size <= document.largest_bytes:
        return ""
    largest = f"{document.kind} files may have {document.largest_bytes >> 20} MB"
    return f"It is too large ({size >> 20} MB; {largest}): split it."
