"""Parse one untrusted document after the other in a limited child process.

Started by `activities.documents.parsing`. Each question names a file and where to leave what was found; the answer
says only that it is there, so that a huge document never passes through the pipe.
"""

import json
import zipfile
from pathlib import Path
from typing import Any, Final

from activities.documents import child_limits
from activities.documents.parsed import Parsed, failed_parse

_MEMORY_BYTES: Final = 1 << 30
_FILE_BYTES: Final = 512 << 20
_MOST_MEMBERS: Final = 10_000
_MOST_UNPACKED_BYTES: Final = 400 << 20
_MOST_UNPACKED_RATIO: Final = 200
_RATIO_MATTERS_ABOVE_BYTES: Final = 20 << 20


def parse(question: dict[str, Any]) -> dict[str, Any]:
    """Parse one file and write what was found beside the index."""
    child_limits.allow_processor_seconds(question["processor_seconds"])
    try:
        parsed = _parse(question["kind"], Path(question["path"]), Path(question["csv_directory"]), question["prefix"])
    except MemoryError:
        parsed = failed_parse("It needs more memory than a document may use: split it.")
    except Exception as error:  # noqa: BLE001 - whatever a parser makes of a broken file, the next file is read
        parsed = failed_parse(f"It could not be read ({type(error).__name__}): the file is broken.")
    Path(question["result"]).write_text(json.dumps(parsed.to_json()), encoding="utf-8")
    return {}


def _parse(kind: str, path: Path, csv_directory: Path, prefix: str) -> Parsed:
    if zipfile.is_zipfile(path) and (problem := _zip_problem(path)):
        return failed_parse(problem)
    match kind:
        case "pdf":
            from activities.documents.pdf import parse_pdf

            return parse_pdf(path)
        case "docx":
            from activities.documents.word import parse_docx

            return parse_docx(path)
        case "html":
            from activities.documents.html_text import parse_html
            from activities.documents.text import decode

            text = decode(path.read_bytes())
            return parse_html(text) if text is not None else failed_parse("It is not text.")
        case _:
            from activities.documents.workbook import parse_workbook

            return parse_workbook(path, csv_directory, prefix)


def _zip_problem(path: Path) -> str:
    """Why an archive is not opened, or nothing: measured by its directory, before anything is unpacked."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    unpacked = sum(member.file_size for member in members)
    packed = max(1, sum(member.compress_size for member in members))
    too_dense = unpacked > _RATIO_MATTERS_ABOVE_BYTES and unpacked / packed > _MOST_UNPACKED_RATIO
    if len(members) > _MOST_MEMBERS or unpacked > _MOST_UNPACKED_BYTES or too_dense:
        return f"It unpacks to {unpacked >> 20} MB in {len(members)} parts, more than a document may: split it."
    return ""


if __name__ == "__main__":
    child_limits.confine(_MEMORY_BYTES, _FILE_BYTES)
    child_limits.serve(parse)
