"""The type of a body: what the server states and what the first bytes show must agree. Pure.

Nothing is unpacked here: ZIP archives are recognised by the uncompressed names of their members.
"""

import re
from typing import Final

from activities.http.page import FetchError

HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})
HEAD_BYTES: Final = 1_024
"""Number of bytes that decide whether reading continues for a body without a stated type."""
_TEXT: Final = re.compile(r"text/[\w.+-]+|application/(json|xml|[\w.-]+\+(json|xml)|x-ndjson|yaml|x-yaml|toml)")
_UNSTATED: Final = frozenset(
    {
        "",
        "application/octet-stream",
        "binary/octet-stream",
        "application/download",
        "application/force-download",
        "application/x-download",
        "application/zip",
    }
)
_WORKBOOKS: Final = frozenset({".xlsx", ".xlsb", ".xls"})
_DOCUMENTS: Final = {
    "application/pdf": frozenset({".pdf"}),
    "application/x-pdf": frozenset({".pdf"}),
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": frozenset({".docx"}),
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": _WORKBOOKS,
    "application/vnd.ms-excel": _WORKBOOKS,
    "application/vnd.ms-excel.sheet.macroenabled.12": _WORKBOOKS,
    "application/vnd.ms-excel.sheet.binary.macroenabled.12": _WORKBOOKS,
    "application/vnd.oasis.opendocument.spreadsheet": frozenset({".ods"}),
}
_ODS: Final = b"mimetypeapplication/vnd.oasis.opendocument.spreadsheet"
_OLD_WORKBOOK: Final = "Workbook".encode("utf-16-le")
_MEMBERS: Final = ((b"word/document", ".docx"), (b"xl/workbook.bin", ".xlsb"), (b"xl/workbook.xml", ".xlsx"))
_READABLE: Final = "pages of text, PDF, DOCX, XLSX, XLS and ODS"


def refuse_type(media_type: str) -> None:
    """Raise `FetchError` for a stated type that cannot be read; the message lacks the URL."""
    if not _is_text(media_type) and media_type not in _UNSTATED and media_type not in _DOCUMENTS:
        raise FetchError(f"is {media_type}; only {_READABLE} can be read")


def is_document(media_type: str) -> bool:
    """Whether a body of this stated type may be a document, whose limits are larger."""
    return media_type in _DOCUMENTS or media_type in _UNSTATED


def refuse_head(media_type: str, head: bytes) -> None:
    """Raise `FetchError` if a body that may be a document does not begin like one; the message lacks the URL."""
    if is_document(media_type) and not _container(head):
        raise _disagreement(media_type, "something else")


def suffix_of(media_type: str, body: bytes) -> str:
    """Return the suffix of a document's format, or an empty string for text.

    Raises `FetchError`, whose message lacks the URL, if the type is not readable or the body is something else.
    """
    refuse_type(media_type)
    suffix = _detect(body)
    if _is_text(media_type):
        if suffix or _container(body):
            raise _disagreement(media_type, suffix.lstrip(".").upper() or "an archive or a binary file")
        return ""
    if suffix and (media_type in _UNSTATED or suffix in _DOCUMENTS[media_type]):
        return suffix
    raise _disagreement(media_type, suffix.lstrip(".").upper() or "something else")


def _is_text(media_type: str) -> bool:
    return _TEXT.fullmatch(media_type) is not None


def _disagreement(media_type: str, shown: str) -> FetchError:
    stated = f"is stated to be {media_type}" if media_type else "is of no stated type"
    return FetchError(f"{stated}, but it contains {shown}; only {_READABLE} can be read")


def _container(body: bytes) -> str:
    if b"%PDF-" in body[:HEAD_BYTES]:
        return "pdf"
    if body.startswith(b"PK\x03\x04"):
        return "zip"
    return "ole" if body.startswith(b"\xd0\xcf\x11\xe0") else ""


def _detect(body: bytes) -> str:
    """Detect the format from the bytes; empty if it is not a readable one."""
    match _container(body):
        case "pdf":
            return ".pdf"
        case "zip":
            if _ODS in body[:200]:
                return ".ods"
            return next((suffix for name, suffix in _MEMBERS if name in body), "")
        case "ole":
            return ".xls" if _OLD_WORKBOOK in body else ""
        case _:
            return ""
