"""The words of a question: what each is worth, which are names, and when a word of a text is a form of one."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

from activities.models.extractive.wording import META_WORDS, content_stems, read_words, stem

_META_STEMS: Final = frozenset(stem(word) for word in META_WORDS)
_META_SHARE: Final = 0.5
_DERIVED: Final = re.compile(
    r"(?:al|ally|er|or|ers|ors|abl|ibl|ibil|abil|iti|iv|ness|anc|enc|ari|ist|ism|iz|is|ful|less|ship|ag|ant|ent|ous|ic"
    r"|ical|at|it|ition|ial|ur|ee|hood|wis|th|li|i|y|d|t|s|n)?"
)
"""What may follow the stem of a word in a word derived from it: `own` and `owner`, `approve` and `approval`."""
_SHORTEST_ROOT: Final = 3
_WITHOUT_VERB: Final = re.compile(r"(?:what|which|who) (?:is|are|was|were) (?:an?|the|our|my) ", re.IGNORECASE)
"""A question that names a thing; what is done to a thing, texts say in many words."""


@lru_cache(maxsize=20_000)
def are_kin(left: str, right: str) -> bool:
    """Whether two stems belong to words of which one is derived from the other."""
    if left == right:
        return True
    short, long = sorted((left, right), key=len)
    if len(short) < _SHORTEST_ROOT or not (short.isalpha() and long.isalpha()) or not long.startswith(short):
        return False
    return (len(short) > _SHORTEST_ROOT or long[len(short) :] in {"er", "or"}) and bool(
        _DERIVED.fullmatch(long, len(short))
    )


def stands(word: str, said: frozenset[str]) -> bool:
    """Whether a stem, or one of a kindred word, is among others."""
    root = word[:_SHORTEST_ROOT]
    return word in said or any(are_kin(word, other) for other in said if other.startswith(root))


@dataclass(frozen=True)
class Terms:
    """A question's words, weighed."""

    question: str
    weights: Mapping[str, float]
    """By stem: the fewer of the texts have it, the more it tells."""

    @cached_property
    def names(self) -> frozenset[str]:
        """Stems of what no other word can stand for: names and numbers, and all words of `what is the …`."""
        words = read_words(self.question)
        is_all_nouns = bool(_WITHOUT_VERB.match(self.question))
        named = (
            word.stem
            for position, word in enumerate(words)
            if word.is_content
            and (
                (is_all_nouns and word.stem not in _META_STEMS)
                or word.text.isdigit()
                or (len(word.text) > 1 and word.text.isupper())
                or (position > 0 and word.text[:1].isupper() and not self._begins(word.start))
            )
        )
        return frozenset(named)

    def _begins(self, start: int) -> bool:
        """Whether a sentence begins here."""
        return self.question[:start].rstrip()[-1:] in {"", ".", "?", "!", ":", "“", '"'}

    def share(self, said: frozenset[str], light: frozenset[str] = frozenset()) -> float:
        """Measure how much of the question's weight stands among some stems; `light` ones count for little."""
        weights = {word: weight * (_LIGHT_SHARE if word in light else 1.0) for word, weight in self.weights.items()}
        whole = sum(weights.values())
        return sum(weight for word, weight in weights.items() if stands(word, said)) / whole if whole else 0.0

    def missing_names(self, said: frozenset[str]) -> frozenset[str]:
        """Names of the question that are not among some stems."""
        return frozenset(name for name in self.names if not stands(name, said))


_LIGHT_SHARE: Final = 0.3


def weigh(question: str, texts: Iterable[str]) -> Terms:
    """Weigh a question's words by how few of some texts have them."""
    bags = [frozenset(content_stems(text)) for text in texts]
    wanted = dict.fromkeys(word.stem for word in read_words(question) if word.is_content)
    return Terms(
        question,
        {
            word: math.log(1 + (len(bags) + 1) / (sum(stands(word, bag) for bag in bags) + 0.5))
            * (_META_SHARE if word in _META_STEMS else 1.0)
            for word in wanted
        },
    )
