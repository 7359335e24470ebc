"""The closed vocabulary of questions about figures, read from data, and the tokens of a question."""

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
"""Possible beginnings of questions, with their meaning."""
RANKS: Final = frozenset({"max", "most", "min", "least", "early", "late"})
AGGREGATES: Final = RANKS | {"share", "sum", "avg", "median"}
SIGNS: Final = {"above": ">", "at_least": ">=", "below": "<", "at_most": "<="}
BOUNDS: Final = {"after": ">", "since": ">=", "before": "<", "until": "<="}
_LONGEST_PHRASE: Final = 4
DISTANT: Final = 3
"""Distance of words that are related to a name but do not denote it."""
_TOKEN: Final = re.compile(
    r"\d{4}-\d{2}(?:-\d{2})?(?![\w-])|\d{1,2}:\d{2}(?!\w)|\d{1,2}[./]\d{1,2}[./]\d{4}|\d+(?:[.,]\d+)*(?:st|nd|rd|th|er)?(?!\w)|[^\W_]+|[^\s\w]"
)
_SILENT: Final = frozenset("?!.,:;\"“”„'’‘`()*¿¡«»-–/&")
"""Marks that mean nothing in a question. All other marks are tokens, like words."""
_GENITIVE: Final = re.compile(r"(?<=\w)(?:['’]s|(?<=s)['’])(?!\w)")
_AGGREGATE: Final = re.compile(r"\b([Gg]esamt|[Dd]urchschnitts)(?=[a-zß-ÿ]{4})")
"""First parts of German compounds whose second part they aggregate."""
_PARTICIPLE_DE: Final = re.compile(r"^ge(\w{4,}?)(?:e?t|en)$")
_INFINITIVE: Final = re.compile(r"(?<=\w{4})en$")
_SHORTEST_PART: Final = 5
"""Minimum letters of a part of a compound word."""


class Token(NamedTuple):
    """A word, number or mark of a question."""

    text: str
    word: str
    """The word in lower case, without accents."""
    stem: str


@cache
def data() -> Mapping[str, Any]:
    return tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))


def pattern(name: str) -> str:
    """Return a regular expression, or a list with `|`, of words in all languages."""
    return str(data()["tables"][name])


def says(name: str, text: str) -> bool:
    return re.search(rf"\b(?:{pattern(name)})\b", text, re.IGNORECASE) is not None


@lru_cache(maxsize=10_000)
def matches(name: str, word: str) -> bool:
    return re.fullmatch(pattern(name), word) is not None


@cache
def _concepts(name: str) -> Sequence[tuple[re.Pattern[str], re.Pattern[str]]]:
    """List pairs of patterns: words for having something, and words for its name."""
    tables = data()["tables"]
    same = [[each, each] for each in tables["same"]] if name != "distant" else []
    named = ([tables.get(part, part) for part in pair] for pair in [*tables.get(name, ()), *same])
    return [(re.compile(word), re.compile(held)) for word, held in named]


@lru_cache(maxsize=10_000)
def is_held(word: str, titles: Sequence[str], name: str = "concepts") -> bool:
    """Whether a word names the content of a column, with `things` of a table, or with `values` of a row."""
    return any(matcher.fullmatch(word) and any(map(held.fullmatch, titles)) for matcher, held in _concepts(name))


@lru_cache(maxsize=10_000)
def nearness(token: Token, named: tuple[Token, ...], table: tuple[str, ...]) -> int | None:
    """Distance of a word from one of a name: 0 if equal, 1 if it begins or ends it, None otherwise.

    1 also applies to parts of compounds, and to those that begin with the table's name; same stems are `DISTANT`.
    """
    text, words = token.word, tuple(name.word for name in named)
    same = [name.word for name in named if name.stem == token.stem]
    if same:  # `observation` and `observer` share a stem but differ
        return 0 if any(text.startswith(word) or word.startswith(text) for word in same) else DISTANT
    text = _PARTICIPLE_DE.sub(r"\1", text)  # `gekauft` is derived from `kauf`
    if text == token.word and len(text) < _SHORTEST_PART:
        return None
    rests = (text.removeprefix(word).removeprefix("s") for word in words if text.startswith(word))
    is_part = any(word.startswith((text, _INFINITIVE.sub("", text))) or word.endswith(text) for word in words)
    long = [word for word in words if len(word) >= _SHORTEST_PART]
    is_part = is_part or any(text.removesuffix(word).startswith(table) for word in long if text.endswith(word))
    is_part = is_part or any(is_held(part, words) for part in rests)
    return 1 if is_part else None


def marks_at(tokens: Sequence[Token], at: int, language: str) -> Iterator[tuple[str, int]]:
    """List what the words from a token on may ask for, and where they end; only the longest match."""
    for end in range(min(at + _LONGEST_PHRASE, len(tokens)), at, -1):
        if marks := _marks(" ".join(token.word for token in tokens[at:end]), language):
            yield from ((mark, end) for mark in marks)
            return


@lru_cache(maxsize=10_000)
def _marks(phrase: str, language: str) -> list[str]:
    return [mark for mark, form in _forms(language) if form.fullmatch(phrase)]


@cache
def _forms(language: str) -> Sequence[tuple[str, re.Pattern[str]]]:
    return [(mark, re.compile(forms[_number(language)])) for mark, forms in data()["marks"].items()]


def _number(language: str) -> int:
    languages = data()["languages"]
    return languages.index(language) if language in languages else 0


def is_grammar(word: str, language: str) -> bool:
    """Whether a word is about the form of a question, not its subject."""
    return any(
        re.search(rf"\b{re.escape(word)}\b", form.pattern) or form.fullmatch(word) for _, form in _forms(language)
    )


def is_silent(word: str, language: str) -> bool:
    """Whether passages can lack a word: it concerns only the form of a question, or that something costs."""
    return is_grammar(word, language) or word in empty_words(language) or matches("paying", word)


@lru_cache(maxsize=1_000)
def language_of(text: str) -> str:
    """Detect the language of a question: by its first word, or else by most of its words."""
    tokens = read_tokens(text, "")[:2]
    opened = {each for each in data()["languages"] for mark, _ in marks_at(tokens, 0, each) if mark in OPENERS}
    return opened.pop() if len(opened) == 1 else spelling.language_of(text)


def sentence(key: str, language: str) -> str:
    """Return a fixed sentence in the user's language, or else in English."""
    return str(data()["sentences"][key][_number(language)])


@cache
def empty_words(language: str) -> frozenset[str]:
    return frozenset(str(data()["empty"].get(language, "")).split())


@cache
def numbered(name: str) -> Mapping[str, int]:
    """List the names of months, or days, in the known languages, with their numbers."""
    return {each: at for at, names in enumerate(pattern(name).split(";"), start=1) for each in names.split("|")}


@lru_cache(maxsize=10_000)
def unit_forms(word: str) -> frozenset[str]:
    """List the spellings of a unit; empty for anything else."""
    return frozenset(form for group in pattern("units").split("|") if word in group.split() for form in group.split())


def is_currency(word: str) -> bool:
    return any(form in "€$£" or form == "chf" for form in unit_forms(word.casefold()))


@lru_cache(maxsize=10_000)
def read_tokens(text: str, language: str) -> tuple[Token, ...]:
    """Cut a text into tokens, without meaningless marks."""
    texts = _TOKEN.findall(_AGGREGATE.sub(r"\1 ", _GENITIVE.sub("", text.replace("_", " "))))
    return tuple(_token(token, language) for token in texts if token not in _SILENT)


def _token(text: str, language: str) -> Token:
    word = text.casefold() if text[0].isdigit() else " ".join(words(text)) or text
    return Token(text, word, stem(word, language) if language else word)


def read_number(text: str, language: str) -> float | None:
    plain = text.replace(",", "") if language == "en" else text.replace(".", "").replace(",", ".")
    return (float if "." in plain else int)(plain) if re.fullmatch(r"\d+(\.\d+)?", plain) else None


def number(value: float, language: str) -> str:
    """Format a number with thousands separators and at most two decimals, unless it is very small."""
    text = f"{value:,}" if isinstance(value, int) else f"{value:,.4g}" if abs(value) < 1 else f"{value:,.2f}"
    return text if language == "en" else text.translate(str.maketrans(",.", "\u202f," if language == "fr" else ".,"))


def one_line(text: str) -> str:
    return " ".join(text.split())
