"""Turn files into blocks of text: plain formats in this process, all others in a limited child."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Literal

from activities.documents.child_process import ChildError, ChildProcess, ChildTimeoutError
from activities.documents.parsed import Block, Parsed, Sheet, failed_parse
from activities.documents.text import TextStyle, decode, line_parts, parse_text

DocumentKind = Literal["pdf", "docx", "xlsx", "ods", "csv", "md", "html", "txt"]

_SECONDS_A_FILE: Final = 30
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
_LARGEST_BYTES: Final[dict[DocumentKind, int]] = {"csv": 200 << 20, "pdf": 100 << 20, "txt": 20 << 20, "md": 20 << 20}
_LARGEST_OTHER_BYTES: Final = 50 << 20
_MOST_INDEXED_CSV_LINES: Final = 5_000
_MOST_READABLE_CSV_LINES: Final = 20_000


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


def parse_plain(kind: DocumentKind, name: str, content: bytes, csv_path: Path) -> Parsed:
    """Parse a text in this process; a table in text is also written as UTF-8 to `csv_path`.

    Raises `NotADocumentError` for a file that is not text.
    """
    text = decode(content)
    if text is None:
        raise NotADocumentError("not a text, and of no format that is read here")
    if kind == "csv":
        return _parse_csv(text, csv_path)
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


def _parse_csv(text: str, csv_path: Path) -> Parsed:
    lines = text.split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        return failed_parse("The file is empty.")
    csv_path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    delimiter = max(",;\t|", key=lines[0].count)
    titles = [title.strip().strip('"') for title in lines[0].split(delimiter)]
    has_header = all(titles) and len(set(titles)) == len(titles) and not any(map(_is_number, titles))
    heading = ", ".join(titles)[:300] if has_header else ""
    indexed = lines[:_MOST_INDEXED_CSV_LINES]
    return Parsed(
        unit="line",
        units=len(lines) - has_header,
        blocks=[Block(line, at, at, heading, "table") for at, line in enumerate(indexed, 1) if line.strip()],
        parts=line_parts(lines[:_MOST_READABLE_CSV_LINES]),
        headings=[heading] if heading else [],
        sheets=[Sheet("", str(csv_path), delimiter, has_header)],
    )


def _is_number(text: str) -> bool:
    try:
        value = float(text.replace(",", "."))
    except ValueError:
        return False
    return not (value.is_integer() and 1900 <= value <= 2100)
