"""How the model writes: claims with citations, and long texts that add no facts."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, cycle
from typing import Final

_MONTHS: Final = frozenset(
    (
        *("January", "February", "March", "April", "May", "June", "July"),
        *("August", "September", "October", "November", "December"),
    )
)
_LINKS: Final = (
    "Dieser Befund ist für die weitere Planung wichtig, weil er zeigt, wo die Stadt steht und was noch zu tun ist.",
    "Für die Haushalte bedeutet das, dass sie früh wissen sollten, womit sie rechnen und an wen sie sich wenden.",
    "Die Zahl steht nicht für sich allein; sie muss zusammen mit den übrigen Angaben dieses Berichts gelesen werden.",
    "Wer die Entwicklung beurteilen will, sollte die Angabe mit ihrer Quelle prüfen und auf ihren Zeitraum achten.",
)
_WORDS_ASKED: Final = re.compile(r"(?i:mindestens|at least|about) (\d[\d.,]*) (?:Wörter|words)")


@dataclass(frozen=True)
class Claim:
    """A sentence and the name of its source, as printed."""

    text: str
    ref: str


def words_asked(text: str) -> int:
    """Return the requested length in words, which comes last in the text; 0 if no length is given."""
    asked = _WORDS_ASKED.findall(text)
    return int(re.sub(r"\D", "", asked[-1])) if asked else 0


def long_text(claims: Sequence[Claim], words: int, cite: Callable[[Claim], str]) -> str:
    """Write a text of at least this many words: every claim with its citation, joined by fact-free sentences."""
    parts = [f"{claim.text} {cite(claim)}" for claim in claims]
    written = sum(len(part.split()) for part in parts)
    links = cycle(_LINKS)
    while claims and written < words:
        for number in range(len(parts)):
            link = next(links)
            parts[number] += f" {link}"
            written += len(link.split())
    return "\n\n".join(parts)


def contradictions(claims: Sequence[Claim]) -> Iterator[tuple[Claim, Claim]]:
    """Find pairs of claims from different sources about the same names with different numbers."""
    for one, other in combinations(claims, 2):
        if one.ref != other.ref and _names(one.text) == _names(other.text) and _is_same_statement(one.text, other.text):
            yield one, other


def _is_same_statement(one: str, other: str) -> bool:
    first, second = _plain_words(one), _plain_words(other)
    alike = len(first & second) / max(len(first | second), 1)
    return alike > 0.6 and not _numbers(one) & _numbers(other) and bool(_numbers(one)) and bool(_numbers(other))


def _names(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"(?<!^)\b[A-Z]\w+", text)) - _MONTHS


def _plain_words(text: str) -> set[str]:
    return {word.casefold() for word in re.findall(r"[^\W\d_]+", text)}


def _numbers(text: str) -> set[str]:
    return set(re.findall(r"\d[\d.,]*\d|\d", text))
