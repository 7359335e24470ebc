"""How a question is cut into words, numbers and marks, and how figures are written."""

import re
from functools import lru_cache
from typing import Final, NamedTuple

from activities.documents.words import stem, words

_TOKEN: Final = re.compile(
    r"\d{4}-\d{2}(?:-\d{2})?(?![\w-])|\d{1,2}[./]\d{1,2}[./]\d{4}|\d+(?:[.,]\d+)*(?:st|nd|rd|th|er)?(?!\w)|[^\W_]+|[^\s\w]"
)
_SILENT: Final = frozenset("?!.,:;\"“”„'’‘`()*¿¡«»")
"""Marks that change nothing about what is asked. Any other mark is a token like a word."""
_GENITIVE: Final = re.compile(r"(?<=\w)(?:['’]s|(?<=s)['’])(?!\w)")
_CAMEL: Final = re.compile(r"(?<=[a-zß-ÿ])(?=[A-ZÀ-Þ])")


class Token(NamedTuple):
    """A word, number or mark of a question."""

    text: str
    word: str
    """In lower case, without accents."""
    stem: str


@lru_cache(maxsize=10_000)
def read_tokens(text: str, language: str) -> tuple[Token, ...]:
    """Cut a text into tokens; only marks that mean nothing are left out."""
    found = _TOKEN.findall(_CAMEL.sub(" ", _GENITIVE.sub("", text)))
    return tuple(_token(token, language) for token in found if token not in _SILENT)


def _token(text: str, language: str) -> Token:
    word = text.casefold() if text[0].isdigit() else " ".join(words(text)) or text
    return Token(text, word, stem(word, language))


def stems(text: str, language: str) -> tuple[str, ...]:
    """List the stems of a name, such as a column's title."""
    return tuple(token.stem for token in read_tokens(text.replace("_", " "), language) if token.word[:1].isalnum())


def read_number(text: str, language: str) -> float | None:
    """Read a number as the language writes it."""
    plain = text.replace(",", "") if language == "en" else text.replace(".", "").replace(",", ".")
    return (float if "." in plain else int)(plain) if re.fullmatch(r"\d+(\.\d+)?", plain) else None


def number(value: float, language: str) -> str:
    """Write a number with marks for thousands, two places at most unless it is very small."""
    text = f"{value:,}" if isinstance(value, int) else f"{value:,.4g}" if abs(value) < 1 else f"{value:,.2f}"
    return text if language == "en" else text.translate(str.maketrans(",.", "\u202f," if language == "fr" else ".,"))


def one_line(text: str) -> str:
    return " ".join(text.split())
