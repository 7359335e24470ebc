"""Sentences, rows and list items of a text: where each begins and ends, and how a quotation is shown."""

import re
from typing import Final

from activities.models.extractive.wording import one_line

_SENTENCE: Final = re.compile(
    r"(?<=[.!?…])(?<!\b[A-Z]\.)(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bvs\.)(?<!\bcf\.)(?<!\bMr\.)(?<!\bDr\.)(?<!\bMs\.)(?<!\bNo\.)"
    r"(?<!\bno\.)(?<!\bSt\.)(?<!\bMrs\.)(?<!\betc\.)[\"'”’)\]*_]{0,3}\s+(?=[\"'“‘(\[*_`]{0,3}[^\W_a-z])"
    r"|\n(?=\s*(?:[-*+•|#]|\d{1,3}[.)])\s)|\n\s*\n|(?<=\|)\n",
)
_ROW: Final = re.compile(r"\n")
ROWS_OF: Final = re.compile(r"\.(?:csv|tsv|xlsx?|ods|parquet)$", re.IGNORECASE)
ITEM: Final = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)]|\(?[a-z]\))\s")
MARKUP: Final = re.compile(r"^\s*(?:#{1,6}\s|[-=*_]{3,}\s*$|\|?[\s:|-]+\|?\s*$)")


def sentences(text: str, *, is_rows: bool = False) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    start = 0
    for match in (_ROW if is_rows else _SENTENCE).finditer(text):
        if match.start() > start:
            spans.append((start, match.start()))
        start = match.end()
    if start < len(text):
        spans.append((start, len(text)))
    return spans


def shown(quote: str) -> str:
    """Write a quotation as a Markdown blockquote, lists and tables kept as lines."""
    lines = [line.strip() for line in quote.strip().splitlines() if line.strip()]
    if any(ITEM.match(line) or line.startswith("|") for line in lines):
        return "\n".join(f"> {line}  " if not ITEM.match(line) else f"> {line}" for line in lines)
    return f"> {one_line(quote)}"
