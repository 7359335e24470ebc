"""Words: how text is cut into them, which of them carry meaning, and which are forms of one another."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

_WORD: Final = re.compile(r"\d[\d,]*(?:\.\d+)?(?![^\W_])|[^\W_]+(?:['’][^\W\d_]{1,2}(?![^\W_]))?")
_SEAM: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z][a-z])|(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])")


def word_set(words: str) -> frozenset[str]:
    """Make a set of words that stand in one text."""
    return frozenset(words.split())


STOPWORDS: Final = word_set(
    """
    needed somebody someone anybody everybody nobody everyone something nothing everything a about above
    according after again all also am an and another any anyone anything are as at be because been before being
    below between both but by can cannot could did do does doing done down during each either else ever every
    few find for from further get gets give given gives go goes got had has have having he her here hers him his
    how i if in into is it its itself just know let like list many may me might mine more most much must my need
    needs neither no nor not now of off on once one only or other our ours out over own per please quote said
    same say says shall she should show so some such tell than that the their them then there these they thing
    things this those through to too under until up upon us use very want was we were what whatever when where
    whether which while who whom whose why will with within without would yes you your yours answer describe
    detail details document documents explain file files following happen happened happens information look mean
    means mention mentioned provide question regarding state states summarise summarize summary tell text write
    written
    """
)
"""Words that say nothing about what is asked for."""


META_WORDS: Final = word_set(
    """
    policy policies procedure procedures rule rules process processes requirement requirements guideline
    guidelines reason reasons section chapter page paragraph detail difference regulation regulations exact
    exactly main current currently
    """
)
"""Words that name what kind of statement is wanted; a text that makes the statement need not use them."""


@dataclass(frozen=True)
class Word:
    """A word where it stands in its text."""

    text: str
    lower: str
    stem: str
    start: int
    end: int

    @property
    def is_content(self) -> bool:
        return self.lower not in STOPWORDS and (len(self.lower) > 1 or self.lower.isdigit())


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """Cut a word's ending off, so that `outages`, `outage` and `Outage` are one: crude, quick, English."""
    word = word.lower().replace("’", "'").removesuffix("'s").removesuffix("'")
    if len(word) < 4 or not word.isalpha():
        return word.replace(",", "") if word[:1].isdigit() else word
    for ending, replacement, least in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= least:
            word = word.removesuffix(ending) + replacement
            break
    if len(word) > 4 and word[-1] == word[-2] and word[-1] not in "aeiouls":
        word = word[:-1]
    if len(word) > 3 and word.endswith("y"):
        word = word[:-1] + "i"
    word = word[:-1] if len(word) > 3 and word.endswith("e") else word
    return _BRITISH.sub(lambda match: _AMERICAN[match.group()], word)


_AMERICAN: Final = {"our": "or", "is": "iz", "ys": "yz", "enc": "ens", "tr": "ter", "ogu": "og"}
_BRITISH: Final = re.compile(
    r"(?:(?<=\w{2}[^aeiou])our|(?<=behavi)our|(?<=\w{4})is|(?<=anal)ys|(?<=lic)enc|(?<=def)enc|(?<=off)enc"
    r"|(?<=cen)tr|(?<=thea)tr|(?<=catal)ogu|(?<=dial)ogu)$"
)
"""Endings of stems that are spelled in two ways."""
_ENDINGS: Final = (
    ("ations", "", 4),
    ("ation", "", 4),
    ("sses", "ss", 1),
    ("ies", "i", 2),
    ("ments", "", 4),
    ("ment", "", 4),
    ("ions", "", 4),
    ("ion", "", 4),
    ("ings", "", 3),
    ("ing", "", 3),
    ("ied", "i", 2),
    ("ed", "", 3),
    ("ers", "er", 2),
    ("ly", "", 4),
    ("xes", "x", 1),
    ("ches", "ch", 1),
    ("shes", "sh", 1),
    ("ss", "ss", 1),
    ("us", "us", 1),
    ("is", "is", 1),
    ("s", "", 3),
)
"""(ending, what replaces it, how many letters must stand before it); the first that fits."""


def read_words(text: str) -> tuple[Word, ...]:
    """Cut a text into words, as the index of documents does; `unit_price` is two."""
    return tuple(
        Word(match.group(), match.group().lower(), stem(match.group()), *match.span()) for match in _WORD.finditer(text)
    )


def spelled_out(name: str) -> str:
    """Set the words of a column's name apart: `unitPrice`, `price2024`."""
    return _SEAM.sub(" ", name)


@lru_cache(maxsize=20_000)
def stems(text: str) -> tuple[str, ...]:
    """Stems of all words of a text, in order."""
    return tuple(word.stem for word in read_words(text))


def content_stems(text: str) -> tuple[str, ...]:
    """Stems of the words that carry meaning, each once, in order."""
    return tuple(dict.fromkeys(word.stem for word in read_words(text) if word.is_content))


def telling_stems(text: str) -> frozenset[str]:
    """Stems of the words that a text which answers should have."""
    content = frozenset(word.stem for word in read_words(text) if word.is_content)
    return (
        frozenset(word.stem for word in read_words(text) if word.is_content and word.lower not in META_WORDS) or content
    )


def keywords(text: str, *, telling_only: bool = False) -> str:
    """The words that carry meaning, as they stand in the text, each once."""
    wanted = telling_stems(text) if telling_only else None
    seen: dict[str, str] = {}
    for word in read_words(text):
        if word.is_content and (wanted is None or word.stem in wanted):
            seen.setdefault(word.stem, word.text)
    return " ".join(seen.values())


def one_line(text: str) -> str:
    """Put a text on one line, with single spaces."""
    return " ".join(text.split())


def phrases(text: str) -> tuple[str, ...]:
    """Read phrases that stand in one text, set apart by bars."""
    return tuple(phrase.strip() for phrase in text.split("|"))


def listed(items: Iterable[str]) -> str:
    """Write `a, b and c`."""
    *head, last = list(items) or [""]
    return f"{', '.join(head)} and {last}" if head else last


def shortened(text: str, limit: int) -> str:
    """Cut a text at a word's end so that it has at most `limit` characters."""
    if len(text) <= limit:
        return text
    return text[: limit - 1].rsplit(" ", 1)[0].rstrip(" ,;:–-") + "…"
