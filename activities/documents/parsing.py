"""Turn files into blocks of text: plain formats in this process, all others in a limited child."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Literal

from activities.documents.child_process import ChildError, ChildProcess, ChildTimeoutError
from activities.documents.delimited import parse_delimited
from activities.documents.parsed import Parsed, failed_parse
from activities.documents.text import TextStyle, decode, parse_text

DocumentKind = Literal["pdf", "docx", "xlsx", "ods", "csv", "md", "html", "txt"]

_SECONDS_A_FILE: Final = 20
_KINDS: Final[dict[str, DocumentKind]] = {
    ".pdf": "pdf",
    ".docx": "docx",
    ".xlsx": "xlsx",
    ".xlsm": "xlsx",
    ".xlsb": "xlsx",
    ".xls": "xlsx",
    ".ods": "ods",
    ".csv": "csv",
    ".tsv": "csv",
    ".tab": "csv",
    ".md": "md",
    ".markdown": "md",
    ".mdx": "md",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
}
_PROSE_SUFFIXES: Final = frozenset({"", ".txt", ".text", ".rst", ".adoc", ".org", ".tex", ".1", ".me", ".first"})
_NOT_DOCUMENTS: Final = {
    ".doc": "an old Word format: save it as DOCX or PDF",
    ".ppt": "an old PowerPoint format: save it as PDF",
    ".pptx": "a presentation: save it as PDF",
    ".odp": "a presentation: save it as PDF",
    ".odt": "an OpenDocument text: save it as DOCX or PDF",
    ".rtf": "rich text: save it as DOCX or PDF",
    ".epub": "an e-book: save it as HTML or PDF",
}
_CHILD_KINDS: Final = frozenset({"pdf", "docx", "xlsx", "ods", "html"})
_LARGEST_BYTES: Final[dict[DocumentKind, int]] = {
    "csv": 200 << 20,
    "pdf": 100 << 20,
    "html": 20 << 20,
    "txt": 20 << 20,
    "md": 20 << 20,
}
_LARGEST_OTHER_BYTES: Final = 50 << 20


class NotADocumentError(Exception):
    """A file of a format that is not read; its message says what it is."""


@dataclass(frozen=True)
class Job:
    """One file to be parsed by a child."""

    kind: DocumentKind
    path: Path
    number: int
    """Of the document in its session; names the files that are written for it."""


def kind_of(name: str) -> DocumentKind:
    """Tell a document's kind by its name. Raises `NotADocumentError` for formats that are known not to be read."""
    suffix = PurePosixPath(name).suffix.lower()
    if suffix in _NOT_DOCUMENTS:
        raise NotADocumentError(_NOT_DOCUMENTS[suffix])
    return _KINDS.get(suffix, "txt")


def needs_child(kind: DocumentKind) -> bool:
    """Whether this kind is parsed by libraries that a crafted file can make run wild."""
    return kind in _CHILD_KINDS


def size_problem(kind: DocumentKind, size: int) -> str:
    """Why a file of this size is not read, or nothing."""
    largest = _LARGEST_BYTES.get(kind, _LARGEST_OTHER_BYTES)
    if size > largest:
        return f"It is too large ({size >> 20} MB; {kind} files may have {largest >> 20} MB): split it."
    return ""


def parse_plain(kind: DocumentKind, name: str, path: Path, csv_path: Path) -> Parsed:
    """Parse a text in this process; a table in text is also written as UTF-8 to `csv_path`.

    Raises `NotADocumentError` for a file that is not text.
    """
    text = None
    if kind == "csv":
        if (parsed := parse_delimited(path, csv_path)) is not None:
            return parsed
    else:
        text = decode(path.read_bytes())
    if text is None:
        raise NotADocumentError("not a text, and of no format that is read here")
    suffix = PurePosixPath(name).suffix.lower()
    style: TextStyle = "markdown" if kind == "md" else "prose" if suffix in _PROSE_SUFFIXES else "code"
    return parse_text(text, style)


async def parse_in_child(jobs: Sequence[Job], directory: Path) -> dict[int, Parsed]:
    """Parse files one after the other in a limited child process, and in a new one after each that broke it.

    The answer is by `Job.number`. A file that cannot be parsed is answered with its problem.
    """
    parsed: dict[int, Parsed] = {}
    remaining = list(jobs)
    while remaining:
        async with ChildProcess("activities.documents.parser_process") as child:
            while remaining:
                job = remaining.pop(0)
                result = directory / f"{job.number}.json"
                question = {
                    "kind": job.kind,
                    "path": str(job.path),
                    "csv_directory": str(directory),
                    "prefix": str(job.number),
                    "result": str(result),
                    "processor_seconds": _SECONDS_A_FILE,
                }
                try:
                    await child.ask(question, _SECONDS_A_FILE)
                except ChildTimeoutError:
                    parsed[job.number] = failed_parse(f"It takes longer than {_SECONDS_A_FILE} s to read: split it.")
                    break
                except ChildError:
                    parsed[job.number] = failed_parse("It needs more memory or time than a document may: split it.")
                    break
                parsed[job.number] = Parsed.from_json(json.loads(result.read_bytes()))
                result.unlink()
    return parsed
