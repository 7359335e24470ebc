"""Unified diffs as data: the lines that a change adds. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

MOST_BYTES: Final = 10 << 20
_MOST_LINES: Final = 200_000
_LONGEST_LINE: Final = 2_000
_HUNK: Final = re.compile(r"@@ -\d{1,9}(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")


@dataclass(frozen=True)
class Line:
    kind: Literal["+", "-", " "]
    number: int
    """Line number in the new version; for a removed line, the next line's."""
    text: str


@dataclass(frozen=True)
class ChangedFile:
    path: str
    lines: tuple[Line, ...]
    """Lines of all hunks, in order."""

    @property
    def added(self) -> dict[int, str]:
        return {line.number: line.text for line in self.lines if line.kind == "+"}

    @property
    def removed(self) -> int:
        return sum(line.kind == "-" for line in self.lines)


def lines_of(text: str) -> list[str]:
    """Split a file into lines as git does: at line feeds only."""
    return text.removesuffix("\n").split("\n") if text else []


def parse_diff(*texts: str) -> tuple[ChangedFile, ...]:
    """Parse concatenated unified diffs, with or without git's headers; anything else has no files."""
    lines_by_path: dict[str, list[Line]] = {}
    for text in texts:
        path = ""
        lines = iter(text.split("\n", _MOST_LINES)[:_MOST_LINES])
        for line in lines:
            if line.startswith("+++ "):
                path = _path(line[4:])
            elif path and (hunk := _HUNK.match(line)):
                old, first, new = int(hunk[1] or 1), int(hunk[2]), int(hunk[3] or 1)
                lines_by_path.setdefault(path, []).extend(_hunk(lines, first, old, new))
            elif line.startswith("--- "):
                path = ""
    return tuple(ChangedFile(name, tuple(of_file)) for name, of_file in lines_by_path.items())


def _hunk(lines: Iterator[str], number: int, old: int, new: int) -> Iterator[Line]:
    """Read as many lines as the hunk's header states; lines that look like headers then remain lines."""
    while (old > 0 or new > 0) and (line := next(lines, None)) is not None:
        mark, text = line[:1] or " ", line[1:].rstrip("\r")[:_LONGEST_LINE]
        match mark:
            case "+":
                yield Line("+", number, text)
                number, new = number + 1, new - 1
            case "-":
                yield Line("-", number, text)
                old -= 1
            case " ":
                yield Line(" ", number, text)
                number, old, new = number + 1, old - 1, new - 1
            case "\\":
                continue  # "\ No newline at end of file"
            case _:
                return  # fewer lines than the header states


def _path(name: str) -> str:
    """Parse the path of the new version; empty for a removed file."""
    name = name.partition("\t")[0].strip()
    if name.startswith('"'):  # git quotes letters outside ASCII as bytes
        name = name[1:-1].encode().decode("unicode_escape").encode("latin-1", "replace").decode(errors="replace")
    if name == "/dev/null":
        return ""
    return name.removeprefix("b/")
