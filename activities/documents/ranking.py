"""Finds the passages that answer a question, and rates how much of the question each one covers."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from activities.documents.index import IndexReader, Row
from activities.documents.passages import reference
from activities.documents.words import content_words, language_of, stem, variants, words
from chargehand.contracts import Contract

_CANDIDATES: Final = 80
_MOST_WORDS: Final = 32
_MOST_PAIRED: Final = 6
"""Number of the highest-weighted words that are paired to find those near each other."""
_NEAR: Final = 5
"""Maximum number of words between two words that count as near each other."""
_SHORTEST_PREFIX: Final = 4
_REPEATS_ABOVE: Final = 0.6
_ASIDE: Final = re.compile(
    r"(^|/)(changelog|changes|history|news|release|licen[cs]e|copying|authors|contributors|tests?)\b|\.lock$", re.I
)
_WANTS_CODE: Final = re.compile(
    r"\b(code|example|snippet|command|syntax|script|call|import|function|class)s?\b|[`(_]", re.I
)


class Passage(Contract):
    """A passage of a document."""

    ref: str
    """Where: `handbook.md#L10-L14`, `manual.pdf#page=3`, `prices.xlsx#Sheet1!2-40`, `letter.docx#paragraph=4`."""
    document: str
    heading: str
    """Titles above it, outermost first, joined by ` > `."""
    text: str
    """Verbatim text, at most 900 characters."""
    kind: str = "text"
    """text, code or table."""
    score: float
    coverage: float
    """Weighted share, 0 to 1, of the question's words that occur in the passage."""


class SearchResult(Contract):
    """The result of a search, best first."""

    passages: tuple[Passage, ...] = ()
    missing: tuple[str, ...] = ()
    """Words of the question that no document contains."""


@dataclass(frozen=True)
class _Matches:
    """The words' weights, and the ids of the passages with each word of the question."""

    words: Sequence[tuple[float, set[int]]]
    pairs: Sequence[tuple[float, set[int]]]
    """Pairs of words near each other, weighted like the more common word."""
    in_text: set[int]


def search(index: IndexReader, question: str, limit: int, document: str | None) -> SearchResult:
    """Rank passages by BM25, coverage, word proximity, kind and place; omit near-duplicates."""
    terms = content_words(question)[:_MOST_WORDS]
    if not terms:
        return SearchResult()
    language = language_of(question)
    expressions = {word: _expression(word, language) for word in terms}
    members = {word: index.matching(expression) for word, expression in expressions.items()}
    for word in terms:
        if not members[word] and len(word) >= _SHORTEST_PREFIX:
            expressions[word] = f'"{word}"*'
            members[word] = index.matching(expressions[word])
    missing = tuple(word for word in terms if not members[word])
    rows = index.best(" OR ".join(expressions.values()), document, _CANDIDATES)
    if not rows:
        return SearchResult(missing=missing)
    weights = _weights(index.passages(), members)
    telling = sorted(terms, key=lambda word: -weights[word])[:_MOST_PAIRED]
    matches = _Matches(
        words=[(weights[word], members[word]) for word in terms],
        pairs=[
            (min(weights[left], weights[right]), index.matching(f'NEAR("{left}" "{right}", {_NEAR})'))
            for left, right in combinations(telling, 2)
        ],
        in_text=index.matching(f"body : ({' OR '.join(expressions.values())})"),
    )
    passages = [_rate(row, rows[0].rank, matches, wants_code=bool(_WANTS_CODE.search(question))) for row in rows]
    passages.sort(key=lambda passage: -passage.score)
    return SearchResult(passages=tuple(_without_repeats(passages, limit)), missing=missing)


def _expression(word: str, language: str) -> str:
    """Match a word in any form: the index has English stems only, so other languages match by prefix."""
    start = stem(word, language)
    if language == "de" and len(start) > _SHORTEST_PREFIX + 1:
        start = start.removesuffix("t")  # the stemmer leaves `unterschreibt` unchanged
    if language != "en" and len(start) >= _SHORTEST_PREFIX:
        return f'("{word}" OR "{start}"*)'
    quoted = [f'"{spelled}"' for spelled in variants(word)]
    return quoted[0] if len(quoted) == 1 else f"({' OR '.join(quoted)})"


def _weights(passages: int, members: Mapping[str, set[int]]) -> dict[str, float]:
    """Weigh words by inverse document frequency; a word without matches weighs as much as the rarest."""
    return {
        word: math.log(1 + (passages - len(matches) + 0.5) / (max(1, len(matches)) + 0.5))
        for word, matches in members.items()
    }


def _rate(row: Row, best_rank: float, matches: _Matches, *, wants_code: bool) -> Passage:
    coverage = _share(row.id, matches.words)
    score = 0.5 * row.rank / best_rank + 0.5 * coverage + 0.2 * _share(row.id, matches.pairs)
    if row.id not in matches.in_text:
        # Words in the text answer the question; words in the titles above only state the subject.
        score *= 0.6
    if row.kind == "code" and not wants_code:
        score *= 0.7
    if row.kind == "table":
        # Rows repeat the words of a question without saying anything about them.
        score *= 0.8
    if _ASIDE.search(row.document):
        score *= 0.75
    return Passage(
        ref=reference(row.document, row.unit, row.first, row.last, row.place),
        document=row.document,
        heading=row.heading,
        text=row.text,
        kind=row.kind,
        score=score,
        coverage=round(coverage, 3),
    )


def _share(passage: int, weighed: Sequence[tuple[float, set[int]]]) -> float:
    """Compute the share of the total weight found in a passage, 0 to 1."""
    total = sum(weight for weight, _ in weighed) or 1.0
    return sum(weight for weight, members in weighed if passage in members) / total


def _without_repeats(passages: list[Passage], limit: int) -> list[Passage]:
    """Select the best passages, skipping near-duplicates of better ones."""
    chosen: list[Passage] = []
    chosen_words: list[frozenset[str]] = []
    for passage in passages:
        own = frozenset(words(passage.text))
        figures = frozenset(word for word in own if any(map(str.isdigit, word)))  # they may differ by year or branch
        if any(figures <= other and len(own & other) > _REPEATS_ABOVE * len(own | other) for other in chosen_words):
            continue
        chosen.append(passage)
        chosen_words.append(own)
        if len(chosen) == limit:
            break
    return chosen
