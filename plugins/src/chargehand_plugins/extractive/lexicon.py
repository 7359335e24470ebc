"""The closed vocabulary and grammar of figures, which are data, and how a question is cut into words."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from activities.documents import words as spelling
from activities.documents.words import stem, words

OPENERS: Final = {
    **{mark: mark for mark in ("count", "times", "which", "who", "when", "where", "list")},
    "amount": "count",
    "what": "which",
}
"""What may open a question, and what it is read as."""
RANKS: Final = frozenset({"max", "most", "min", "least", "early", "late"})
AGGREGATES: Final = RANKS | {"share", "sum", "mean"}
COMPARISONS: Final = {"above": ">", "at_least": ">=", "below": "<", "at_most": "<="}
BOUNDS: Final = {"after": ">", "since": ">=", "before": "<", "until": "<="}
_LONGEST_PHRASE: Final = 4
_TOKEN: Final = re.compile(
    r"\d{4}-\d{2}(?:-\d{2})?(?![\w-])|\d{1,2}:\d{2}(?!\w)|\d{1,2}[./]\d{1,2}[./]\d{4}|\d+(?:[.,]\d+)*(?:st|nd|rd|th|er)?(?!\w)|[^\W_]+|[^\s\w]"
)
_SILENT: Final = frozenset("?!.,:;\"“”„'’‘`()*¿¡«»")
"""Marks that change nothing about what is asked. Any other mark is a token like a word."""
_GENITIVE: Final = re.compile(r"(?<=\w)(?:['’]s|(?<=s)['’])(?!\w)")
_AGGREGATE: Final = re.compile(r"\b([Gg]esamt|[Dd]urchschnitts)(?=[a-zß-ÿ]{4})")
"""The first part of a German word that says what becomes of the second."""
_UMLAUT: Final = re.compile(r"([ao]|(?<![aeq])u)e")
_ENDING: Final = re.compile(r"(?:ations?|ions?|ments?|ures?|als?|ages?|ings?|e[er]s?|ors?|ies|y|ed|es|s|e)$")
_CAMEL: Final = re.compile(r"(?<=[a-zß-ÿ]{2})(?=[A-ZÀ-Þ])")


class Token(NamedTuple):
    """A word, number or mark of a question."""

    text: str
    word: str
    """In lower case, without accents."""
    stem: str


@cache
def _data() -> Mapping[str, Any]:
    return tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))


@cache
def pattern(name: str) -> str:
    """Find a regular expression, or a list with `|`, of words of all languages."""
    return str(_data()["tables"][name])


@cache
def _concepts(name: str) -> Sequence[tuple[re.Pattern[str], re.Pattern[str]]]:
    """List what says that something is held, and what that is called, both as patterns."""
    tables = _data()["tables"]
    same = [[each, each] for each in tables["same"]] if name != "distant" else []
    named = ([tables.get(part, part) for part in pair] for pair in [*tables[name], *same])
    return [(re.compile(said), re.compile(held)) for said, held in named]


@lru_cache(maxsize=10_000)
def is_held(word: str, titles: Sequence[str], name: str = "concepts") -> bool:
    """Whether a word says what a column, or with `things` a table, holds, by the words of its title."""
    return any(said.fullmatch(word) and any(map(held.fullmatch, titles)) for said, held in _concepts(name))


@lru_cache(maxsize=10_000)
def roots(token: Token) -> frozenset[str]:
    """List the forms by which words of one family are known: `teach` and `teacher`, `delivered` and `delivery`."""
    short = _ENDING.sub("", token.word)
    return frozenset({token.word, token.stem, *([short] if len(short) > 2 else [])})


@cache
def languages() -> tuple[str, ...]:
    return tuple(_data()["languages"])


@lru_cache(maxsize=1_000)
def language_of(text: str) -> str:
    """Name the language of a question: the one whose word it opens with, else the one whose words it has most of."""
    tokens = read_tokens(text, "")[:2]
    opened = (
        {each for each in languages() for mark, _ in marks_at(tokens, 0, each) if mark in OPENERS} if tokens else ()
    )
    return opened.pop() if len(opened) == 1 else spelling.language_of(text)


def sentence(key: str, language: str) -> str:
    """Find a fixed sentence in the user's language, else in English."""
    return str(_data()["sentences"][key][languages().index(language) if language in languages() else 0])


def undecided(kind: str) -> Mapping[str, Any]:
    """Find the answer to a kind of task that leaves everything as it is."""
    return _data()["undecided"][kind]


def says(name: str, text: str) -> bool:
    return re.search(rf"\b(?:{pattern(name)})\b", text, re.IGNORECASE) is not None


@lru_cache(maxsize=10_000)
def matches(name: str, word: str) -> bool:
    return re.fullmatch(pattern(name), word) is not None


def marks_at(tokens: Sequence[Token], at: int, language: str) -> Iterator[tuple[str, int]]:
    """List what the words at a token may ask for, and where they end; the longest only."""
    for end in range(min(at + _LONGEST_PHRASE, len(tokens)), at, -1):
        if found := _marks(" ".join(token.word for token in tokens[at:end]), language):
            yield from ((mark, end) for mark in found)
            return


@lru_cache(maxsize=10_000)
def _marks(phrase: str, language: str) -> list[str]:
    return [mark for mark, form in _forms(language) if form.fullmatch(phrase)]


@cache
def _forms(language: str) -> Sequence[tuple[str, re.Pattern[str]]]:
    at = languages().index(language) if language in languages() else 0
    return [(mark, re.compile(forms[at])) for mark, forms in _data()["marks"].items()]


def is_grammar(word: str, language: str) -> bool:
    """Whether a word says how something is asked, not what."""
    literal = re.compile(rf"\b{re.escape(word)}\b")
    return any(form.fullmatch(word) or literal.search(form.pattern) for _, form in _forms(language))


@cache
def empty_words(language: str) -> frozenset[str]:
    return frozenset(str(_data()["empty"].get(language, "")).split())


@cache
def totals() -> tuple[str, ...]:
    """List what the row of a table is called that adds up the others."""
    return tuple(pattern("totals").split("|"))


@cache
def months() -> Mapping[str, int]:
    """List the names of months, in the languages that are told apart, with their numbers."""
    numbered = enumerate(pattern("months").split(";"), start=1)
    return {name: number for number, names in numbered for name in names.split("|")}


@lru_cache(maxsize=10_000)
def unit_forms(word: str) -> frozenset[str]:
    """List the ways to write a unit; nothing for what is none."""
    return frozenset(form for group in pattern("units").split("|") if word in group.split() for form in group.split())


def is_currency(word: str) -> bool:
    return any(form in "€$£" or form == "chf" for form in unit_forms(word.casefold()))


@lru_cache(maxsize=10_000)
def read_tokens(text: str, language: str) -> tuple[Token, ...]:
    """Cut a text into tokens; only marks that mean nothing are left out."""
    found = _TOKEN.findall(_AGGREGATE.sub(r"\1 ", _CAMEL.sub(" ", _GENITIVE.sub("", text))))
    return tuple(_token(token, language) for token in found if token not in _SILENT)


def _token(text: str, language: str) -> Token:
    word = text.casefold() if text[0].isdigit() else " ".join(words(text)) or text
    folded = _UMLAUT.sub(r"\1", word) if language == "de" else word
    return Token(text, word, stem(folded, language) if language else folded)


def stems(text: str, language: str) -> tuple[str, ...]:
    return tuple(token.stem for token in read_tokens(text.replace("_", " "), language) if token.word[:1].isalnum())


def read_number(text: str, language: str) -> float | None:
    plain = text.replace(",", "") if language == "en" else text.replace(".", "").replace(",", ".")
    return (float if "." in plain else int)(plain) if re.fullmatch(r"\d+(\.\d+)?", plain) else None


def read_time(word: str) -> str:
    """Read a time of day, such as `9:30` or `noon`; empty if it is none."""
    if matches("noon", word):
        return "12:00"
    found = re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)", word)
    return f"{int(found[1]):02}:{found[2]}" if found else ""


def number(value: float, language: str) -> str:
    """Write a number with marks for thousands, two places at most unless it is very small."""
    text = f"{value:,}" if isinstance(value, int) else f"{value:,.4g}" if abs(value) < 1 else f"{value:,.2f}"
    return text if language == "en" else text.translate(str.maketrans(",.", "\u202f," if language == "fr" else ".,"))


def one_line(text: str) -> str:
    return " ".join(text.split())
