"""Find the passages that answer a question, and say how much of the question each of them covers."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from activities.documents.index import IndexReader, Row
from activities.documents.spellings import variants
from activities.documents.words import content_words, neighbours, words

_CANDIDATES: Final = 80
_MOST_WORDS: Final = 32
_SHORTEST_PREFIX: Final = 4
_REPEATS_ABOVE: Final = 0.6
_ASIDE: Final = re.compile(
    r"(^|/)(changelog|changes|history|news|release|licen[cs]e|copying|authors|contributors|tests?)\b|\.lock$", re.I
)
_WANTS_CODE: Final = re.compile(
    r"\b(code|example|snippet|command|syntax|script|call|import|function|class)s?\b|[`(_]", re.I
)


class Hit(NamedTuple):
    """A passage that was found."""

    row: Row
    score: float
    coverage: float
    """Share, 0 to 1, of the question's words, the telling ones counting more."""


@dataclass(frozen=True)
class _Matches:
    """Which passages each word of the question stands in, by passage id."""

    weights: Mapping[str, float]
    anywhere: Mapping[str, set[int]]
    in_text: Mapping[str, set[int]]
    side_by_side: Sequence[set[int]]

    def share(self, passage: int, where: Mapping[str, set[int]]) -> float:
        """How much of the question's weight stands in a passage, 0 to 1."""
        total = sum(self.weights.values()) or 1.0
        return sum(weight for word, weight in self.weights.items() if passage in where[word]) / total


@dataclass(frozen=True)
class Found:
    """What a search came to."""

    hits: tuple[Hit, ...]
    missing: tuple[str, ...]
    """Words of the question that stand nowhere in the documents."""


def search(index: IndexReader, question: str, limit: int, document: str | None) -> Found:
    """Rank passages by BM25, then by coverage, words that stand together, kind and place; leave repeats out."""
    asked = content_words(question)[:_MOST_WORDS]
    if not asked:
        return Found((), ())
    expressions = {word: _any_of(variants(word)) for word in asked}
    members = {word: index.matching(expression) for word, expression in expressions.items()}
    for word in asked:
        if not members[word] and len(word) >= _SHORTEST_PREFIX:
            expressions[word] = f'"{word}"*'
            members[word] = index.matching(expressions[word])
    missing = tuple(word for word in asked if not members[word])
    rows = index.best(" OR ".join(expressions.values()), document, _CANDIDATES)
    if not rows:
        return Found((), missing)
    matches = _Matches(
        weights=_weights(index.passages(), members),
        anywhere=members,
        in_text={word: index.matching(f"body : {expressions[word]}") for word in asked},
        side_by_side=[
            index.matching(f'"{left} {right}"') for left, right in neighbours(question) if {left, right} <= set(asked)
        ],
    )
    hits = [_rate(row, rows[0].rank, matches, wants_code=bool(_WANTS_CODE.search(question))) for row in rows]
    hits.sort(key=lambda hit: -hit.score)
    return Found(tuple(_without_repeats(hits, limit)), missing)


def _any_of(spelled: Sequence[str]) -> str:
    quoted = [f'"{word}"' for word in spelled]
    return quoted[0] if len(quoted) == 1 else f"({' OR '.join(quoted)})"


def _weights(passages: int, members: Mapping[str, set[int]]) -> dict[str, float]:
    """How much each word tells: inverse document frequency. A word that is nowhere tells as much as the rarest."""
    return {
        word: math.log(1 + (passages - len(found) + 0.5) / (max(1, len(found)) + 0.5))
        for word, found in members.items()
    }


def _rate(row: Row, best_rank: float, matches: _Matches, *, wants_code: bool) -> Hit:
    coverage = matches.share(row.id, matches.anywhere)
    in_text = matches.share(row.id, matches.in_text)
    # Words in the text itself answer; words in the titles above only say what it is about.
    score = 0.4 * row.rank / best_rank + 0.3 * coverage + 0.3 * in_text
    if not in_text:
        score *= 0.6
    if matches.side_by_side:
        score += 0.15 * sum(row.id in found for found in matches.side_by_side) / len(matches.side_by_side)
    if row.kind == "code" and not wants_code:
        score *= 0.7
    if _ASIDE.search(row.document):
        score *= 0.75
    return Hit(row, score, round(coverage, 3))


def _without_repeats(hits: list[Hit], limit: int) -> list[Hit]:
    """The best hits that each say something the better ones do not."""
    chosen: list[Hit] = []
    chosen_words: list[frozenset[str]] = []
    for hit in hits:
        own = frozenset(words(hit.row.text))
        if any(_overlap(own, other) > _REPEATS_ABOVE for other in chosen_words):
            continue
        chosen.append(hit)
        chosen_words.append(own)
        if len(chosen) == limit:
            break
    return chosen


def _overlap(left: frozenset[str], right: frozenset[str]) -> float:
    return len(left & right) / (len(left | right) or 1)
