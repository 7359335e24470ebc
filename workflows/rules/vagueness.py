"""Vagueness: whether an instruction names neither an object nor what a good answer contains.

"Analyze the data" does not: every word of it fits any task. The words that do are in `vague_words.json`, by language;
one word beside them (a name, a figure, a column, a question word) is enough, so that no good instruction is refused.
"""

import json
import re
import unicodedata
from pathlib import Path
from typing import Final

_LEAST_WORDS: Final = 3
_LEAST_CHARACTERS: Final = 12
_MARKS: Final = re.compile(r"[\d#%@/\\+<>=€$£§]|\S[._-]\S")
"""Figures, paths, identifiers: what has one of them names something."""


def is_vague(instruction: str, *, has_inputs: bool) -> bool:
    """Whether an instruction does not tell what is asked; what it depends on is an object, too."""
    return _is_short(instruction) or (not has_inputs and _fits_any_task(instruction))


def _is_short(instruction: str) -> bool:
    # Two wide characters, as of Chinese and Japanese, are about a word, and take the place of five others.
    wide = sum(unicodedata.east_asian_width(character) in {"W", "F"} for character in instruction)
    words = max(len(re.findall(pattern, instruction)) for pattern in (r"\w{2,}", r"\S{2,}")) + wide // 2
    characters = len(instruction.strip()) + wide * 3 // 2
    # Thai, Lao and Khmer put no spaces between words.
    are_few = words < _LEAST_WORDS and characters < 2 * _LEAST_CHARACTERS
    return are_few or characters < _LEAST_CHARACTERS


def _fits_any_task(instruction: str) -> bool:
    text = unicodedata.normalize("NFKC", instruction).casefold()
    if _MARKS.search(text):
        return False
    for word in _WIDE:
        text = text.replace(word, " ")
    # One language at a time: what says nothing in one may be a name in another.
    left = set(text.replace("\u2019", "'").translate(_SPACES).split())
    return any(left <= words for words in _SPACED)


_SPACES: Final = dict.fromkeys(map(ord, '.,;:!?¿¡()[]"“”„«»…。、，！？：；・¡-–—'), " ")


def _read_words() -> tuple[tuple[frozenset[str], ...], tuple[str, ...]]:
    """Load the words by language, and those of languages without spaces, the longest first."""
    lists = json.loads(Path(__file__).with_name("vague_words.json").read_text(encoding="utf-8"))
    wide: list[str] = lists.pop("wide")
    return tuple(frozenset(words.split()) for words in lists.values()), tuple(sorted(wide, key=len, reverse=True))


_SPACED, _WIDE = _read_words()
