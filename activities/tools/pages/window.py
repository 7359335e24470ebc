"""Excerpts of a long text: a window from an offset, and the passages around search matches.

Pure, and imports the standard library only: child processes import it too.
"""

import re
import unicodedata
from collections import Counter
from itertools import islice
from typing import Final, NamedTuple

LONGEST_TEXT: Final = 2_000_000
"""Maximum characters of a page that are kept."""
_BACK: Final = 1_000
"""How far before its limit a window may end, to end with a paragraph, a sentence or a word."""
_ENDS: Final = ("\n\n", "\n", ". ", "。", " ")
_AROUND: Final = 350
"""Characters included on each side of a match."""
_LONGEST_WORD: Final = 50
_MOST_MATCHES: Final = 1_000
_MOST_PASSAGES: Final = 12
_BLANK: Final = re.compile(r"\s")
_BETWEEN_WORDS: Final = r"[\W_]{1,20}"
_CONTROLS: Final = dict.fromkeys((*range(9), *range(11, 32), 127), " ")


class Matches(NamedTuple):
    """The matches in a text."""

    passages: tuple[tuple[int, int], ...]
    """Start and end offset of each passage around one or more matches, in text order."""
    total: int
    """Number of matches, counted up to a thousand."""
    next: int | None
    """Where the first match outside all passages begins."""
    is_phrase: bool
    """Whether the phrase itself was found; otherwise these are the passages with the most of its words."""
    missing: tuple[str, ...] = ()
    """Words that do not occur at all, if the phrase was not found."""


def clean(text: str) -> str:
    """Compose letters and accents, and replace lone surrogates and control characters, which no payload should hold."""
    composed = unicodedata.normalize("NFC", text.encode("utf-8", "replace").decode("utf-8"))
    return composed.replace("\r\n", "\n").translate(_CONTROLS)


def window_end(text: str, first: int, most: int) -> int:
    """Return where a window from `first` ends: at the end of the text, a paragraph, a sentence or a word."""
    end = first + most
    if end >= len(text):
        return len(text)
    for mark in _ENDS:
        at = text.rfind(mark, max(first + 1, end - _BACK), end)
        if at >= 0:
            return at + len(mark)
    return end


def find(text: str, words: str, first: int = 0) -> Matches:
    """Find words from an offset on, regardless of case, accents and punctuation between them."""
    folded = _fold(text)
    wanted = re.findall(r"[^\W_]+", _fold(clean(words)))
    if not wanted:
        wanted = [words.strip()]
    escaped = [re.escape(word) for word in dict.fromkeys(wanted)]
    phrase = re.compile(_BETWEEN_WORDS.join(re.escape(word) for word in wanted))
    spans = [match.span() for match in islice(phrase.finditer(folded, first), _MOST_MATCHES)]
    if spans or len(escaped) == 1:
        return _in_order(text, spans, first)
    hits = [(match.span(), match[0]) for match in islice(re.finditer("|".join(escaped), folded), _MOST_MATCHES)]
    missing = tuple(word for word in dict.fromkeys(wanted) if word not in folded)
    return _fullest(text, [(span, word) for span, word in hits if span[0] >= first], first)._replace(missing=missing)


def _in_order(text: str, spans: list[tuple[int, int]], first: int) -> Matches:
    passages: list[tuple[int, int]] = []
    for start, end in spans:
        around = _around(text, start, end, first)
        if passages and around[0] <= passages[-1][1]:
            passages[-1] = (passages[-1][0], around[1])
        elif len(passages) == _MOST_PASSAGES:
            return Matches(tuple(passages), len(spans), start, is_phrase=True)
        else:
            passages.append(around)
    return Matches(tuple(passages), len(spans), None, is_phrase=True)


def _fullest(text: str, found: list[tuple[tuple[int, int], str]], first: int) -> Matches:
    """Choose the passages with the most different words."""
    passages: list[tuple[int, int]] = []
    words: list[Counter[str]] = []
    for (start, end), word in found:
        if passages and start <= passages[-1][1]:
            words[-1][word] += 1
            continue
        passages.append(_around(text, start, end, max(first, passages[-1][1] if passages else first)))
        words.append(Counter([word]))
    best = sorted(range(len(passages)), key=lambda at: (-len(words[at]), at))[:_MOST_PASSAGES]
    return Matches(tuple(passages[at] for at in sorted(best)), len(found), None, is_phrase=False)


def _around(text: str, start: int, end: int, first: int) -> tuple[int, int]:
    """Widen a match, to whole words if the text has spaces."""
    low, high = max(first, start - _AROUND), min(len(text), end + _AROUND)
    if low > first and (blank := _BLANK.search(text, low, min(start, low + _LONGEST_WORD))):
        low = blank.end()
    if high < len(text):
        last = max(text.rfind(mark, max(end, high - _LONGEST_WORD), high) for mark in (" ", "\n"))
        high = last if last >= 0 else high
    return low, high


def _fold(text: str) -> str:
    """Fold case and accents one character at a time, so that offsets stay valid."""
    if text.isascii():
        return text.lower()
    return text.translate({ord(character): _base(character) for character in set(text)})


def _base(character: str) -> str:
    plain = unicodedata.normalize("NFKD", character.casefold())
    return next((each for each in plain if not unicodedata.combining(each)), character)
