"""Parse one untrusted document after the other in a limited child process.

Started by `activities.documents.parsing`. Each question names files and where to leave what was found; the answer
says only that it is there, so that a huge document never passes through the pipe.
"""

from pathlib import Path
from typing import Any, Final

from activities import child_limits
from activities.child_limits import Allowance
from activities.documents.parser_output import Parsed, failed_parse, no_document
from activities.documents.parser_results import write_result

_MEMORY_BYTES: Final = 512 << 20
_FILE_BYTES: Final = 512 << 20
_ARCHIVES: Final = frozenset({"docx", "xlsx", "ods"})
_MOST_MEMBERS: Final = 10_000
_MOST_UNPACKED_BYTES: Final = 400 << 20
_MOST_UNPACKED_RATIO: Final = 200
_RATIO_MATTERS_ABOVE_BYTES: Final = 20 << 20


def parse(question: dict[str, Any]) -> dict[str, Any]:
    """Parse each file and write what was found where the question says."""
    allowance = child_limits.Allowance(question["first_seconds"], question["most_seconds"])
    for file in allowance.over(question["files"]):
        result = Path(file["result"])
        try:
            write_result(result, _parse(file["kind"], Path(file["path"]), Path(file["tables"]), allowance), allowance)
        except MemoryError:
            write_result(result, failed_parse("It needs more memory than a document may use: split it."), allowance)
        except Exception as error:  # noqa: BLE001 - whatever a parser makes of a broken file, the next file is read
            problem = f"It could not be read ({type(error).__name__}): the file is broken."
            write_result(result, failed_parse(problem), allowance)
    return {}


def _parse(kind: str, path: Path, tables: Path, allowance: Allowance) -> Parsed:
    """Parse by kind; `tables` begins the names of the CSV files that are written."""
    if kind in _ARCHIVES and (problem := _zip_problem(path)):
        return failed_parse(problem)
    match kind:
        case "pdf":
            from activities.documents.pdf import parse_pdf

            return parse_pdf(path, allowance)
        case "docx":
            from activities.documents.docx import parse_docx

            return parse_docx(path, allowance)
        case "xlsx" | "ods":
            from activities.documents.workbook import parse_workbook

            return parse_workbook(path, tables, allowance)
        case "csv":
            from activities.documents.csv_file import parse_delimited

            return parse_delimited(path, tables.with_name(f"{tables.name}-0.csv"), allowance)
        case _:
            return _parse_text(kind, path, allowance)


def _parse_text(kind: str, path: Path, allowance: Allowance) -> Parsed:
    from activities.documents.plain_text import NOT_TEXT, decode, parse_text

    text = decode(path.read_bytes())
    match kind:
        case _ if text is None:
            return no_document(NOT_TEXT)
        case "html":
            from activities.documents.html_text import parse_html

            return parse_html(text, allowance)
        case "md":
            return parse_text(text, "markdown")
        case "code":
            return parse_text(text, "code")
        case _:
            return parse_text(text, "prose")


def _zip_problem(path: Path) -> str:
    """Why an archive is not opened, or nothing: measured by its directory, before anything is unpacked."""
    import zipfile

    if not zipfile.is_zipfile(path):
        return ""  # as its parser will say
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
