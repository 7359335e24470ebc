"""The sentences of a text that say most of what it says."""

import re
from typing import Final

from activities.models.extractive.sentences import MARKUP, sentences
from activities.models.extractive.windows import LONGEST_WINDOW, Passage, Window
from activities.models.extractive.wording import content_stems
from chargehand.contracts import Source

_REPEATED_ABOVE: Final = 0.55
_PROSE: Final = re.compile(r"[^\W\d_]{2,}")


def key_windows(source: Source, most: int) -> tuple[Window, ...]:
    """Choose the sentences that say most of what a text says: its first ones, and those with its commonest words."""
    quote = source.quote
    spans = [(start, end) for start, end in sentences(quote) if _is_prose(quote[start:end])]
    counts: dict[str, int] = {}
    for start, end in spans:
        for word in content_stems(quote[start:end]):
            counts[word] = counts.get(word, 0) + 1
    common = {word for word, count in counts.items() if count > 1}
    ranked = sorted(
        range(len(spans)),
        key=lambda i: -_weight(quote[slice(*spans[i])], i, common),
    )
    chosen: list[int] = []
    for i in ranked:
        bag = frozenset(content_stems(quote[slice(*spans[i])]))
        others = [frozenset(content_stems(quote[slice(*spans[j])])) for j in chosen]
        if all(len(bag & other) / (len(bag | other) or 1) < _REPEATED_ABOVE for other in others):
            chosen.append(i)
        if len(chosen) == most:
            break
    passage = Passage(source, quote, 1.0)
    return tuple(Window(passage, quote[slice(*spans[i])].strip(), i, i, 1.0, 1.0, 1.0, 0.0) for i in sorted(chosen))


def _is_prose(text: str) -> bool:
    """Whether it is a sentence, rather than a heading, a table, a listing or a line about the edition."""
    text = text.strip()
    if not 40 <= len(text) <= LONGEST_WINDOW or MARKUP.match(text) or text.startswith(("|", "```", "    ")):
        return False
    words = _PROSE.findall(text)
    return len(words) >= 8 and sum(word.islower() for word in words) >= 0.6 * len(words)


def _weight(text: str, position: int, common: set[str]) -> float:
    words = content_stems(text)
    density = sum(word in common for word in words) / (len(words) + 4)
    return density + 0.5 / (position + 1)
