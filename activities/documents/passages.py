"""Divides documents into passages: the few sentences that are found, quoted and cited together."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from activities.documents.parsed import Block, BlockKind, Unit

LONGEST_CHARACTERS: Final = 900
_COMFORTABLE_CHARACTERS: Final = 600
_SHORT_CHARACTERS: Final = 120
_SHORTEST_CHARACTERS: Final = 25

_SENTENCE_END: Final = re.compile(
    r"""[.!?…]["'”’)\]*_]{0,2}\s+(?=["'“‘(\[*_`]{0,2}[^\W_a-z]|[-*+•]\s)
      | [。！？]
      | \n(?=\s*(?:[-*+•|]|\d{1,3}[.)])\s)
      | \n\s*\n""",
    re.VERBOSE,
)
_PLACE: Final = re.compile(r"(?:(L)|(page|paragraph)=|(.*)!)(\d{1,12})(?:-L?(\d{1,12}))?", re.DOTALL)
_LETTERS: Final = re.compile(r"[\W_]+")
_FIELD: Final = re.compile(r"\W*[^\W\d_][\w /-]{1,40}[*_]*:[*_]*\s+\w")
"""A field such as `Owner: Marta Ilves`: short, but worth finding."""
_LINE_END: Final = re.compile(r"\n")
_NO_SENTENCE_END: Final = re.compile(
    r"\b(?:[A-Z]|e\.g|i\.e|vs|cf|al|Mr|Mrs|Ms|Dr|Prof|St|No|no|Nr|Fig|fig|Sec|Eq|approx|etc|pp|Inc|Ltd)\.\s*$"
)


def cut(blocks: Iterable[Block], unit: Unit) -> Iterator[Block]:
    """Join short blocks under the same heading, and split long ones at sentence ends."""
    waiting: Block | None = None
    is_first = True
    for block in blocks:
        for piece in _split(block, counts_lines=unit == "line"):
            if waiting is not None and _belongs(waiting, piece, unit):
                waiting = _join(waiting, piece)
                continue
            if waiting is not None and _is_worth_finding(waiting):
                is_first = False
                yield waiting
            waiting = piece
    if waiting is not None and (is_first or _is_worth_finding(waiting)):
        yield waiting


def reference(document: str, unit: Unit, first: int, last: int, place: str = "") -> str:
    """Format a place for people: `handbook.md#L10-L14`, `q3.pdf#page=2`, `prices.xlsx#Sheet1!2-40`."""
    match unit:
        case "line":
            return f"{document}#L{first}" if first == last else f"{document}#L{first}-L{last}"
        case "row":
            return f"{document}#{place}!{first}" if first == last else f"{document}#{place}!{first}-{last}"
        case "page" | "paragraph":
            return f"{document}#{unit}={first}" if first == last else f"{document}#{unit}={first}-{last}"


class Place(NamedTuple):
    """The place to which a reference points."""

    document: str
    unit: Unit
    first: int
    last: int
    place: str = ""


def parse_reference(ref: str, documents: Iterable[str]) -> Place | None:
    """Parse a reference that `reference` wrote for one of these documents; None for anything else."""
    for document in sorted(documents, key=len, reverse=True):
        if ref.startswith(f"{document}#") and (match := _PLACE.fullmatch(ref, len(document) + 1)):
            line, unit, sheet, first, last = match.groups()
            named: Unit = "line" if line else "page" if unit == "page" else "paragraph" if unit else "row"
            return Place(document, named, int(first), int(last or first), sheet or "")
    return None


def _split(block: Block, *, counts_lines: bool) -> Iterator[Block]:
    if len(block.text) <= LONGEST_CHARACTERS:
        yield block._replace(text=block.text.strip("\n").rstrip())
        return
    breaks = [match.start() for match in _LINE_END.finditer(block.text)] if counts_lines else []
    for packed_start, packed_end in _pack(block.text, list(_sentences(block.text, block.kind))):
        packed = block.text[packed_start:packed_end]
        start = packed_start + len(packed) - len(packed.lstrip())
        end = packed_end - len(packed) + len(packed.rstrip())
        if counts_lines:
            first, last = block.first + bisect_right(breaks, start), block.first + bisect_right(breaks, end - 1)
        else:
            first, last = block.first, block.last
        if start < end:
            yield block._replace(text=block.text[start:end], first=first, last=last)


def _sentences(text: str, kind: BlockKind) -> Iterator[tuple[int, int]]:
    """Yield the contiguous spans of sentences or, for tables and listings, of lines."""
    start = 0
    matches = (_SENTENCE_END if kind == "text" else _LINE_END).finditer(text)
    ends = (match.end() for match in matches if not _NO_SENTENCE_END.search(text, match.start() - 8, match.end()))
    for end in [*ends, len(text)]:
        while end - start > LONGEST_CHARACTERS:
            cut_at = text.rfind(" ", start + LONGEST_CHARACTERS // 2, start + LONGEST_CHARACTERS)
            cut_at = cut_at + 1 if cut_at > 0 else start + LONGEST_CHARACTERS
            yield start, cut_at
            start = cut_at
        if end > start:
            yield start, end
        start = end


def _pack(text: str, sentences: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Join sentences into pieces of about the same length, none too long."""
    target = min(LONGEST_CHARACTERS, len(text) / (len(text) // _COMFORTABLE_CHARACTERS + 1) * 1.15)
    start = end = 0
    for sentence_start, sentence_end in sentences:
        if end > start and sentence_end - start > target:
            yield start, end
            start = sentence_start
        end = sentence_end
    if end > start:
        yield start, end


def _belongs(before: Block, after: Block, unit: Unit) -> bool:
    if (before.heading, before.kind, before.place) != (after.heading, after.kind, after.place):
        return False
    if unit == "page" and before.last != after.first:
        return False
    length = len(before.text) + len(after.text) + 2
    if length <= _COMFORTABLE_CHARACTERS:
        return True
    announces = before.text.endswith(":") or len(before.text) < _SHORT_CHARACTERS
    return length <= LONGEST_CHARACTERS and announces


def _join(before: Block, after: Block) -> Block:
    between = "\n" if after.first == before.last + 1 else "\n\n"
    return before._replace(text=before.text + between + after.text, last=after.last)


def _is_worth_finding(passage: Block) -> bool:
    if _FIELD.match(passage.text):
        return True
    if len(passage.text) < _SHORTEST_CHARACTERS:
        return False
    return len(_LETTERS.sub("", passage.text[:200])) >= _SHORTEST_CHARACTERS * 0.6
