"""Reads an RTF file line by line as the text that a reader sees."""

import re
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Final, cast

from activities.documents.formats.plain_text import parse_text
from activities.documents.parsed import Parsed, Source, UnreadableError
from activities.processes.limits import Allowance

_FOOTNOTE: Final = re.compile(r"\s*(?:\\\*)?\\footnote(?:\\ftnalt)?(?![a-z])")
_TOKEN: Final = re.compile(r"\\([a-z]+)(-?\d+)? ?|\\'[0-9a-f]{2}|\\[^a-z]|[{}]|[^\\{}]+", re.IGNORECASE)
_KEPT_WITHOUT_TEXT: Final = frozenset({"v", "deleted", "plain", "par", "pard", "f", "uc"})


def parse(source: Source, _: Allowance) -> Parsed:
    if find_spec("striprtf") is None:
        raise UnreadableError("It is rich text, which a worker reads with the extra `office`: or save it as PDF.")
    from striprtf.striprtf import remove_pict_groups, rtf_to_text  # pyright: ignore[reportUnknownVariableType]  # it has no types

    content = cast("str", remove_pict_groups(source.path.read_text(encoding="latin-1")))
    if not content.startswith("{\\rtf"):
        raise UnreadableError("It is not a readable RTF file: it does not begin as one.")
    # Paragraphs of rich text are single lines; paragraphs of plain text are separated by an empty line.
    text = cast("str", rtf_to_text(_with_notes("".join(_visible(content))), errors="ignore"))
    # RTF writes a character beyond the basic plane as two halves; a single half is not text.
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return parse_text("\n\n".join(filter(None, lines)), "text.txt")


def _visible(content: str) -> Iterator[str]:
    """Omit text that is hidden, or was deleted with change tracking on."""
    hidden, above = frozenset[str](), list[frozenset[str]]()
    for token in _TOKEN.finditer(content):
        word, number = token.groups()
        if token[0] == "{":
            above.append(hidden)
        elif token[0] == "}":
            hidden = above.pop() if above else frozenset[str]()
        elif word in {"v", "deleted"}:
            hidden = hidden - {word} if number == "0" else hidden | {word}
        elif word == "plain":
            hidden -= {"v"}
        if not hidden or token[0] in "{}" or word in _KEPT_WITHOUT_TEXT:
            yield token[0]


def _with_notes(content: str) -> str:
    """Move each footnote, which the library omits, into a separate paragraph at the end."""
    body, notes, depth = [""], list[str](), 0
    for piece in re.split(r"(\\[\\{}]|[{}])", content):
        depth += (piece == "{") - (piece == "}") if depth else 0
        if not depth and body[-1] == "{" and (footnote := _FOOTNOTE.match(piece)):
            depth = 1
            notes.append("\\par Note: " + piece[footnote.end() :])
        else:
            (notes if depth else body).append(piece)
    before, brace, after = "".join(body).rpartition("}")
    return "".join((before, *notes, brace, after))
