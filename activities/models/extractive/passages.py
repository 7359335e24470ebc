"""The sentences of found passages that answer a question best, copied out word for word."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from activities.contracts import ToolResult
from activities.models.extractive.wording import content_stems, one_line, read_words, stems, telling_stems
from chargehand.contracts import Source

ENOUGH_COVERAGE: Final = 0.5
"""Share of a question's words from which on a passage counts as an answer."""
SOME_COVERAGE: Final = 0.4
"""Share from which on it may be one."""

_SENTENCE: Final = re.compile(
    r"(?<=[.!?…])(?<!\b[A-Z]\.)(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bvs\.)(?<!\bcf\.)(?<!\bMr\.)(?<!\bDr\.)(?<!\bMs\.)(?<!\bNo\.)"
    r"(?<!\bno\.)(?<!\bSt\.)(?<!\bMrs\.)(?<!\betc\.)[\"'”’)\]*_]{0,3}\s+(?=[\"'“‘(\[*_`]{0,3}[^\W_a-z])"
    r"|\n(?=\s*(?:[-*+•|#]|\d{1,3}[.)])\s)|\n\s*\n|(?<=\|)\n",
)
_ROW: Final = re.compile(r"\n")
_ROWS_OF: Final = re.compile(r"\.(?:csv|tsv|xlsx?|ods|parquet)$", re.IGNORECASE)
_ITEM: Final = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)]|\(?[a-z]\))\s")
_MARKUP: Final = re.compile(r"^\s*(?:#{1,6}\s|[-=*_]{3,}\s*$|\|?[\s:|-]+\|?\s*$)")
_PARTS: Final = re.compile(r"\n\s*(?:\[…\]|…|\[\.\.\.\])\s*\n")
_LONGEST_WINDOW: Final = 600
_SHORTEST: Final = 25
_REPEATED_ABOVE: Final = 0.55
_NUMBER_ASKED: Final = (
    r"\bhow (?:many|much|long|often|far|old|high|fast|heavy)\b|\bat what\b"
    r"|\bwhat (?:percentage|number|amount|price|cost|limit)\b"
)
_NUMBER_GIVEN: Final = (
    r"(?i)\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|twelve|once|twice|every"
    r"|daily|weekly|monthly|yearly|annually)\b"
)
_TIME_GIVEN: Final = (
    r"\d|(?i:\b(?:january|february|march|april|may|june|july|august|september|october|november|december"
    r"|monday|tuesday|wednesday|thursday|friday|saturday|sunday|daily)\b)"
)
_PERSON_GIVEN: Final = (
    r"(?<!^)\b[A-Z]\w+\s+[A-Z]\w+|\b(?:master|manager|superintendent|officer|director|engineer|team)\b"
)
_EXPECTED: Final = tuple(
    (re.compile(asked, re.IGNORECASE), re.compile(given))
    for asked, given in (
        (_NUMBER_ASKED, _NUMBER_GIVEN),
        (r"\bwhen\b|\bwhat (?:date|day|time|year)\b|\bdeadline\b", _TIME_GIVEN),
        (r"\bwho\b|\bwhom\b|\bwhose\b", _PERSON_GIVEN),
        (r"\bwhy\b", r"(?i)\b(?:because|since|due to|so that|reason|caused?|why|therefore)\b"),
    )
)
"""(what a question asks for, what a sentence that answers it has)."""


@dataclass(frozen=True)
class Passage:
    """A found passage with what is known about how well it fits."""

    source: Source
    text: str
    """Its words: all of the source's quotation, or the part of it between two ellipses."""
    coverage: float
    """Share, 0 to 1, of the question's words that stand in it, as the search says."""
    rank: int = 0
    """Its place among what was found, 0 being the best."""


@dataclass(frozen=True)
class Window:
    """A few sentences of a passage."""

    passage: Passage
    quote: str
    """Copied from the source, white space and all."""
    coverage: float
    """Share, 0 to 1, of the question's words that stand in it or in its headings."""
    inside: float
    """The same without the headings."""
    close: float
    """The same with the nearest heading only."""
    score: float

    @property
    def source(self) -> Source:
        return self.passage.source

    @property
    def passage_coverage(self) -> float:
        return self.passage.coverage


def passages_of(searches: Iterable[tuple[str, ToolResult]], question: str) -> tuple[Passage, ...]:
    """Collect what searches found, each place once, with the best coverage that was stated for it.

    A search is its query with its result; a query of fewer words than the question covers that much less of it.
    """
    found: dict[tuple[str, str], Passage] = {}
    wanted = telling_stems(question)
    for query, result in searches:
        kept = len(wanted & set(content_stems(query))) / len(wanted) if wanted else 1.0
        stated = result.output.get("coverage")
        coverages: Mapping[str, JsonValue] = stated if isinstance(stated, dict) else {}
        weights = _weights(question, result.sources)
        for source in result.sources:
            said = coverages.get(source.ref)
            coverage = float(said) * kept if isinstance(said, int | float) else _share(_said(source), weights)
            for text in _PARTS.split(source.quote):
                known = found.get((source.ref, text))
                if text.strip() and (known is None or known.coverage < coverage):
                    found[source.ref, text] = Passage(source, text, coverage, known.rank if known else len(found))
    return tuple(found.values())


def _said(source: Source) -> frozenset[str]:
    return frozenset(stems(f"{source.title} {source.ref.split('#', 1)[0]} {source.quote}"))


def _weights(question: str, sources: Sequence[Source]) -> dict[str, float]:
    """Say how much each word of a question tells, by how few of the passages have it."""
    bags = [_said(source) for source in sources]
    wanted = content_stems(question)
    return {word: math.log(1 + (len(bags) + 1) / (sum(word in bag for bag in bags) + 0.5)) for word in wanted}


def _share(said: frozenset[str], weights: Mapping[str, float]) -> float:
    whole = sum(weights.values())
    return sum(weight for word, weight in weights.items() if _stands(word, said)) / whole if whole else 0.0


def _stands(word: str, said: frozenset[str]) -> bool:
    if word in said:
        return True
    return len(word) >= 5 and any(
        other.startswith(word) or (len(other) >= 5 and word.startswith(other)) for other in said
    )


def best_windows(question: str, passages: Sequence[Passage], most: int) -> tuple[Window, ...]:
    """Choose the windows that answer best and do not repeat each other (maximal marginal relevance)."""
    weights = _weights(question, [passage.source for passage in passages])
    windows: list[Window] = [window for passage in passages for window in _windows(question, passage, weights)]
    chosen: list[Window] = []
    while windows and len(chosen) < most:
        best = max(
            windows, key=lambda window: window.score - 0.5 * _likeness(window, chosen) - _sameness(window, chosen)
        )
        windows = [
            window
            for window in windows
            if window.passage is not best.passage and _likeness(window, [best]) < _REPEATED_ABOVE
        ]
        chosen.append(best)
    return tuple(chosen)


def _windows(question: str, passage: Passage, weights: Mapping[str, float]) -> list[Window]:
    quote = passage.text
    is_rows = bool(_ROWS_OF.search(passage.source.ref.split("#", 1)[0]))
    sentences = [
        (start, end) for start, end in _sentences(quote, is_rows=is_rows) if not _MARKUP.match(quote[start:end])
    ]
    headings = frozenset(stems(f"{passage.source.title} {passage.source.ref.split('#', 1)[0]}"))
    found: list[Window] = []
    for first in range(len(sentences)):
        for last in range(first, min(first + (1 if is_rows else 3), len(sentences))):
            start, end = sentences[first][0], _with_list(quote, sentences, last)
            text = quote[start:end].strip()
            if len(text) < _SHORTEST or (len(text) > _LONGEST_WINDOW and last > first):
                continue
            found.append(_window(question, passage, text, headings, weights, length=last - first + 1))
    if not found and len(quote.strip()) >= 3:
        found.append(_window(question, passage, quote.strip(), headings, weights, length=1))
    return found


def _window(
    question: str,
    passage: Passage,
    text: str,
    headings: frozenset[str],
    weights: Mapping[str, float],
    *,
    length: int,
) -> Window:
    own = frozenset(stems(text))
    inside = _share(own, weights)
    coverage = _share(own | headings, weights)
    close = _share(own | frozenset(stems(passage.source.title.rsplit(" > ", 1)[-1])), weights)
    score = 0.55 * inside + 0.25 * coverage + 0.35 * passage.coverage - 0.05 * (length - 1) - len(text) / 6_000
    score += 0.12 * sum(1 for asked, given in _EXPECTED if asked.search(question) and given.search(text))
    score -= 0.15 if _ROWS_OF.search(passage.source.ref.split("#", 1)[0]) else 0.0
    score += 0.06 * max(0.0, 1 - passage.rank / 6)
    score -= 0.2 if text.startswith(("```", "    ")) or text.endswith("?") else 0.0
    score -= 0.1 if len(text) < 2 * _SHORTEST else 0.0
    return Window(passage, text, coverage, inside, close, score)


def _sentences(text: str, *, is_rows: bool = False) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    start = 0
    for match in (_ROW if is_rows else _SENTENCE).finditer(text):
        if match.start() > start:
            spans.append((start, match.start()))
        start = match.end()
    if start < len(text):
        spans.append((start, len(text)))
    return spans


def _with_list(quote: str, sentences: Sequence[tuple[int, int]], last: int) -> int:
    """Keep a list with the sentence that announces it."""
    end = sentences[last][1]
    if not quote[sentences[last][0] : end].rstrip().endswith(":"):
        return end
    for start, item_end in sentences[last + 1 :]:
        if not _ITEM.match(quote[start:item_end]) or item_end - sentences[last][0] > _LONGEST_WINDOW:
            break
        end = item_end
    return end


def _likeness(window: Window, others: Sequence[Window]) -> float:
    own = frozenset(stems(window.quote))
    return max(
        (len(own & other) / (len(own | other) or 1) for other in (frozenset(stems(o.quote)) for o in others)),
        default=0.0,
    )


def _sameness(window: Window, others: Sequence[Window]) -> float:
    """Hold back a second quotation from one document, so that another one that disagrees is heard."""
    return 0.1 if any(_document(window) == _document(other) for other in others) else 0.0


def _document(window: Window) -> str:
    return window.source.ref.split("#", 1)[0]


def together(question: str, windows: Sequence[Window], passages: Sequence[Passage]) -> float:
    """Measure what share of a question's words the chosen windows cover together."""
    weights = _weights(question, [passage.source for passage in passages])
    said = frozenset[str]().union(*(stems(f"{window.source.title} {window.quote}") for window in windows))
    return _share(said, weights)


def missing_words(question: str, windows: Sequence[Window]) -> tuple[str, ...]:
    """List the words of a question that stand in none of the windows."""
    said = frozenset[str]().union(*(_said(window.source) for window in windows))
    return tuple(
        dict.fromkeys(word.text for word in read_words(question) if word.is_content and not _stands(word.stem, said))
    )


def key_windows(source: Source, most: int) -> tuple[Window, ...]:
    """Choose the sentences that say most of what a text says: its first ones, and those with its commonest words."""
    quote = source.quote
    sentences = [(start, end) for start, end in _sentences(quote) if _is_prose(quote[start:end])]
    counts: dict[str, int] = {}
    for start, end in sentences:
        for word in content_stems(quote[start:end]):
            counts[word] = counts.get(word, 0) + 1
    common = {word for word, count in counts.items() if count > 1}
    ranked = sorted(
        range(len(sentences)),
        key=lambda i: -_weight(quote[slice(*sentences[i])], i, common),
    )
    chosen: list[int] = []
    for i in ranked:
        bag = frozenset(content_stems(quote[slice(*sentences[i])]))
        others = [frozenset(content_stems(quote[slice(*sentences[j])])) for j in chosen]
        if all(len(bag & other) / (len(bag | other) or 1) < _REPEATED_ABOVE for other in others):
            chosen.append(i)
        if len(chosen) == most:
            break
    passage = Passage(source, quote, 1.0)
    return tuple(Window(passage, quote[slice(*sentences[i])].strip(), 1.0, 1.0, 1.0, 0.0) for i in sorted(chosen))


_PROSE: Final = re.compile(r"[^\W\d_]{2,}")


def _is_prose(text: str) -> bool:
    """Whether it is a sentence, rather than a heading, a table, a listing or a line about the edition."""
    text = text.strip()
    if not 40 <= len(text) <= _LONGEST_WINDOW or _MARKUP.match(text) or text.startswith(("|", "```", "    ")):
        return False
    words = _PROSE.findall(text)
    return len(words) >= 8 and sum(word.islower() for word in words) >= 0.6 * len(words)


def _weight(text: str, position: int, common: set[str]) -> float:
    words = content_stems(text)
    density = sum(word in common for word in words) / (len(words) + 4)
    return density + 0.5 / (position + 1)


def shown(quote: str) -> str:
    """Write a quotation as a Markdown blockquote, lists and tables kept as lines."""
    lines = [line.strip() for line in quote.strip().splitlines() if line.strip()]
    if any(_ITEM.match(line) or line.startswith("|") for line in lines):
        return "\n".join(f"> {line}  " if not _ITEM.match(line) else f"> {line}" for line in lines)
    return f"> {one_line(quote)}"
