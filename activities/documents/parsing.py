"""Turn files into passages, in a limited child process: no byte of a stranger's file is parsed in the worker."""

from collections import deque
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Literal, TypeAlias

from activities.child_process import ChildError, ChildProcess, ChildTimeoutError

DocumentKind = Literal["pdf", "docx", "xlsx", "ods", "csv", "md", "html", "txt"]

_FIRST_SECONDS: Final = 7
"""Of a processor's time, until something of a document is read, and until more of it is."""
_MOST_SECONDS: Final = 30
_SECONDS_A_MEGABYTE: Final = 2
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
_MOST_IN_A_GROUP: Final = 50
_SMALL_BYTES: Final = 20_000
_TEXTS: Final = frozenset({"md", "txt"})
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
    name: str
    path: Path
    bytes: int
    number: int
    """Of the document in its session; names the files that are written for it."""

    @property
    def style(self) -> str:
        """How it is parsed: its kind, or `code` for a text that its name says to be a program."""
        is_code = self.kind == "txt" and PurePosixPath(self.name).suffix.lower() not in _PROSE_SUFFIXES
        return "code" if is_code else self.kind


Answer: TypeAlias = tuple[Job, Path | str]
"""The file of a `Result`, or the problem of a document that broke its parser."""


def kind_of(name: str) -> DocumentKind:
    """Tell a document's kind by its name. Raises `NotADocumentError` for formats that are known not to be read."""
    suffix = PurePosixPath(name).suffix.lower()
    if suffix in _NOT_DOCUMENTS:
        raise NotADocumentError(_NOT_DOCUMENTS[suffix])
    return _KINDS.get(suffix, "txt")


def size_problem(kind: DocumentKind, size: int) -> str:
    """Why a file of this size is not read, or nothing."""
    largest = _LARGEST_BYTES.get(kind, _LARGEST_OTHER_BYTES)
    if size > largest:
        return f"It is too large ({size >> 20} MB; {kind} files may have {largest >> 20} MB): split it."
    return ""


async def parse_in_child(jobs: Iterable[Job], directory: Path) -> AsyncGenerator[list[Answer]]:
    """Parse files in a limited child process, and in a new one after each that broke it.

    Small texts are handed over by the dozen; if one of them breaks the child, each is tried alone.
    """
    waiting = _grouped(jobs)
    while waiting:
        async with ChildProcess("activities.documents.parser_process") as child:
            while waiting:
                group = waiting.popleft()
                seconds = max(_most_seconds(job.bytes) for job in group)
                question = {
                    "files": [_question(job, directory) for job in group],
                    "first_seconds": _FIRST_SECONDS,
                    "most_seconds": seconds,
                }
                try:
                    # Twice as long by the clock, since others may be at the processor.
                    await child.ask(question, 2 * seconds + 2)
                except ChildError as error:
                    if len(group) > 1:
                        waiting.extendleft([job] for job in reversed(group))
                    elif isinstance(error, ChildTimeoutError):
                        yield [(group[0], f"It takes longer than {2 * seconds + 2} s to read: split it.")]
                    else:
                        yield [(group[0], "It needs more memory or time than a document may: split it.")]
                    break
                yield [(job, _result_path(job, directory)) for job in group]


def _grouped(jobs: Iterable[Job]) -> deque[list[Job]]:
    """Small texts by the dozen, since asking for each takes longer than reading it; all others alone."""
    groups: deque[list[Job]] = deque()
    small: list[Job] = []
    for job in jobs:
        if job.kind not in _TEXTS or job.bytes > _SMALL_BYTES:
            groups.append([job])
            continue
        if len(small) in {0, _MOST_IN_A_GROUP}:
            groups.append(small := [])
        small.append(job)
    return groups


def _question(job: Job, directory: Path) -> dict[str, str]:
    return {
        "kind": job.style,
        "path": str(job.path),
        "tables": str(directory / str(job.number)),
        "result": str(_result_path(job, directory)),
    }


def _result_path(job: Job, directory: Path) -> Path:
    return directory / f"{job.number}.jsonl"


def _most_seconds(size: int) -> int:
    """What a file may take that is read piece by piece; a small file that takes long was made to."""
    return min(_MOST_SECONDS, _FIRST_SECONDS + _SECONDS_A_MEGABYTE * (size >> 20))
