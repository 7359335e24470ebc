"""Parses untrusted documents one by one in a limited child process started by `activities.documents.parsing`.

Each request names files and where to write the results, so that no large document passes through the pipe.
"""

from importlib import import_module
from pathlib import Path
from typing import Any, Final

from activities.documents.formats.registry import format_of
from activities.documents.parsed import NotADocumentError, Result, Source, UnreadableError, describe, write_result
from activities.documents.passages import cut
from activities.documents.sheets import sheets_of
from activities.documents.zip_limits import check_zip
from activities.processes import limits
from activities.processes.limits import Allowance

_MEMORY_BYTES: Final = 512 << 20
_FILE_BYTES: Final = 512 << 20
_ROWS_A_PIECE: Final = 300


def parse(question: dict[str, Any]) -> dict[str, Any]:
    """Parse each file and write its result to the path in the request."""
    allowance = Allowance(question["first_seconds"], question["most_seconds"])
    for file in allowance.over(question["files"]):
        source = Source(file["name"], Path(file["path"]), Path(file["tables"]))
        result = Path(file["result"])
        try:
            _parse(source, result, allowance)
        except UnreadableError as error:
            write_result(result, Result(problem=str(error)))
        except NotADocumentError as error:
            write_result(result, Result(unsupported=str(error)))
        except MemoryError:
            write_result(result, Result(problem="It needs more memory than a document may use: split it."))
        except Exception as error:  # noqa: BLE001 - a broken file may break its parser, and the next file is still read
            problem = f"It could not be read ({type(error).__name__}): the file is broken."
            write_result(result, Result(problem=problem))
    return {}


def _parse(source: Source, result: Path, allowance: Allowance) -> None:
    document = format_of(source.name)
    if document.is_zip:
        check_zip(source.path)
    parsed = import_module(f"{__package__}.formats.{document.module}").parse(source, allowance)
    parsed.sheets = parsed.sheets or [*sheets_of(parsed.blocks, source.tables)]
    parts = allowance.over(parsed.parts, _ROWS_A_PIECE)
    spans = allowance.over(cut(parsed.blocks, parsed.unit), _ROWS_A_PIECE)
    write_result(result, describe(parsed), parts, spans)


if __name__ == "__main__":
    limits.confine(_MEMORY_BYTES, _FILE_BYTES)
    limits.serve(parse)
