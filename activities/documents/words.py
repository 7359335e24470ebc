"""The words of a question: their language, which of them carry meaning, and how they are spelled in the index."""

import re
import sys
import unicodedata
from functools import cache, lru_cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Final

_STEMMERS: Final = "en=english de=german fr=french es=spanish it=italian nl=dutch pt=portuguese sv=swedish"
LANGUAGES: Final[dict[str, str]] = {pair[:2]: pair[3:] for pair in _STEMMERS.split()}
_OWN_LETTERS: Final = {"de": "ß", "es": "¿¡ñ", "fr": "œ", "pt": "ãõ", "sv": "å"}
_SPELLINGS: Final = (
    ("our", "or"),
    ("is", "iz"),
    ("ys", "yz"),
    ("re", "er"),
    ("ce", "se"),
    ("logue", "log"),
    ("mme", "m"),
)
_WORD: Final = re.compile(r"[^\W_]+")
_CJK: Final = re.compile(r"([\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff])")
_MEASURE: Final = re.compile(
    r"(?i)\b(?:how (?:long|often|far|big|large|high|old|fast|soon|late|early)|wie (?:lange|oft|weit|hoch|alt)|darf)\b"
)
_FUNCTION_WORDS: Final = frozenset(
    """
    a about above after again against all also am an and any are aren as at be because been before being below between
    both but by can cannot could couldn d did didn do does doesn doing don down during each either else ever every few
    for from further get gets give given go goes got had hadn happen happened happens has hasn have haven having he her
    here hers him his how however i if in into is isn it its itself just know let ll m made make makes many may me mean
    meaning means might more most much must my need needs neither no nor not of off on once one only or other our ours
    out over own per please re s same shall she should shouldn so some such t tell than that the their theirs them then
    there these they this those through to too under until up upon us use used using ve very want wants was wasn we
    well were weren what when where whether which while who whom whose why will with within without won work works
    would wouldn you your yours
    """.split()  # noqa: SIM905 - a list of words reads best as text
)
_REQUEST_WORDS: Final = frozenset(
    """
    answer compare describe detail details discuss document documents explain extract file files find folder identify
    information list outline overview provide question read report say says show summarise summarize summary write
    """.split()  # noqa: SIM905 - a list of words reads best as text
)


def spaced(text: str) -> str:
    """Separate the characters of scripts written without spaces, so that each is a word."""
    return _CJK.sub(r" \1 ", text) if _CJK.search(text) else text


def words(text: str) -> list[str]:
    """List all words in order, in lower case and without accents, as the index stores them."""
    folded = unicodedata.normalize("NFKD", spaced(text).casefold())
    return _WORD.findall("".join(character for character in folded if not unicodedata.combining(character)))


def language_of(text: str) -> str:
    """Name the language whose function words and letters a text uses most; English or German on a near tie."""
    tokens, lower = words(text), text.casefold()

    def score(language: str) -> int:
        own_letters = sum(letter in lower for letter in _OWN_LETTERS.get(language, ""))
        return (language in {"en", "de"}) + 2 * own_letters + sum(word in function_words(language) for word in tokens)

    return max(LANGUAGES, key=score)


@cache
def function_words(language: str) -> frozenset[str]:
    """List the words of a language that have no meaning by themselves."""
    if language == "en":
        return _FUNCTION_WORDS
    from stop_words import get_stop_words

    return frozenset(folded for word in get_stop_words(language) for folded in words(word))


@lru_cache(maxsize=20_000)
def stem(word: str, language: str) -> str:
    """Strip the ending of a lower-case word."""
    return _stemmer(LANGUAGES[language])().stemWord(word)  # not shared: a stemmer stores its current word


@cache
def _stemmer(language: str) -> type:
    """Load the stemmer of one language; the package itself loads all of them, which takes a fifth of a second."""
    spec = find_spec("snowballstemmer")
    assert spec is not None
    package = ModuleType("_stemmers")
    package.__path__ = list(spec.submodule_search_locations or ())
    sys.modules.setdefault(package.__name__, package)
    module = import_module(f"{package.__name__}.{language}_stemmer")
    return getattr(module, f"{language.title()}Stemmer")


def variants(word: str) -> tuple[str, ...]:
    """List a word and its British or American spelling; a spelling that does not exist finds nothing."""
    pairs = (*_SPELLINGS, *((new, old) for old, new in _SPELLINGS)) if len(word) > 4 else ()
    return tuple(dict.fromkeys((word, *(new.join(word.rsplit(old, 1)) for old, new in pairs if old in word[2:]))))


def content_words(question: str) -> list[str]:
    """List the distinct words that state what is asked for, in order; all words if none would be left."""
    tokens = list(dict.fromkeys(words(_MEASURE.sub("", question))))
    empty = function_words(language_of(question))
    telling = [
        word for word in tokens if word not in empty and (len(word) > 1 or not word.isalpha() or not word.isascii())
    ]
    return [word for word in telling if word not in _REQUEST_WORDS] or telling or tokens
