"""The few words that the rules know: how a question is cut into tokens, and the sentences they say themselves."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from activities.documents.words import stem, words

_TOKEN: Final = re.compile(
    r"\d{4}-\d{2}(?:-\d{2})?(?![\w-])|\d{1,2}\.\d{1,2}\.\d{4}|\d+(?:[.,]\d+)*(?:st|nd|rd|th)?(?!\w)|[^\W_]+|[^\s\w]"
)
_SILENT: Final = frozenset("?!.,:;\"“”„'’‘`()*")
"""Marks that change nothing about what is asked. Any other mark is a token like a word."""
_GENITIVE: Final = re.compile(r"(?<=\w)(?:['’]s|(?<=s)['’])(?!\w)")
_CAMEL: Final = re.compile(r"(?<=[a-zß-ÿ])(?=[A-ZÀ-Þ])")

_SENTENCES: Final[Mapping[str, tuple[str, str]]] = {
    "no model": (
        "No language model was used: quoted passages and computed figures only.",
        "Ohne Sprachmodell: nur zitierte Stellen und berechnete Zahlen.",
    ),
    "evidence": (
        "These passages are evidence, not an answer: a summary, a reason or a judgement needs a language model.",
        "Diese Stellen sind Belege, keine Antwort: Zusammenfassung, Begründung oder Urteil brauchen ein Sprachmodell.",
    ),
    "nothing": ("The documents do not say enough about this.", "Die Dokumente sagen dazu nicht genug."),
    "no text": ("A text of its own needs a language model.", "Ein eigener Text braucht ein Sprachmodell."),
    "no name": ("The question before came to no single name.", "Die Frage davor ergab keinen einzelnen Namen."),
    "stopped": ("The work stopped early:", "Die Arbeit endete vorzeitig:"),
    "open": ("Not answered", "Nicht beantwortet"),
    "rows": ("rows", "Zeilen"),
    "all rows": ("all rows", "alle Zeilen"),
    "sum": ("sum of {}", "Summe von {}"),
    "mean": ("mean of {}", "Mittelwert von {}"),
    "max": ("largest {}", "größter Wert von {}"),
    "min": ("smallest {}", "kleinster Wert von {}"),
    "value": ("{}", "{}"),
    "count": ("number of rows", "Anzahl der Zeilen"),
    "per": ("{} for each {}", "{} je {}"),
    "top": ("{1} with the largest {0}", "{1} mit dem größten Wert, {0}"),
    "empty": ("{} of them without a value", "{} davon ohne Wert"),
}
"""Each in English and in German."""


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


def sentence(key: str, language: str) -> str:
    """Find a fixed sentence in the user's language, else in English."""
    return _SENTENCES[key][language == "de"]


def number(value: float, language: str) -> str:
    """Write a number with marks for thousands, two places at most unless it is very small."""
    text = f"{value:,}" if isinstance(value, int) else f"{value:,.4g}" if abs(value) < 1 else f"{value:,.2f}"
    return text.translate(str.maketrans(",.", ".,")) if language == "de" else text


def one_line(text: str) -> str:
    return " ".join(text.split())
