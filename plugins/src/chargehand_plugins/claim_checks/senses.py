"""Whether a claim says what the sentence nearest to it says: direction, order, duty, extent, plan, cause, person."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from chargehand_plugins.claim_checks.words import is_negated, phrase_in, sides_of, without_negations
from workflows.rules.claim_words import content, covered, language_of, spoken_in, units

_TOKEN: Final = re.compile(r"[^\W_]+", re.UNICODE)
_CLAUSE_END: Final = re.compile(r"[,;:()]|\s(?:and|und|et|y|e|en|with|mit|avec|con|com|met)\s")
_RELATED: Final = 0.35
"""Which part of the words of a claim a sentence has, if both are about the same."""
_NEAR: Final = 0.5
"""The same, of two that differ in a word, or in whether they deny."""
_SAME: Final = 0.65
"""The same, of two that are alike but for a figure, or a negation of the claim's."""
_STEM: Final = 5
_CAUSE_WORDS: Final = 3
"""Words after `because of` that name the cause."""
_ALL, _PART = 0, 1
"""Places in the list of extents."""
_MAY: Final = 1
"""Place in the list of modal verbs."""
_OPPOSITES: Final = ("direction", "amount", "time", "decision", "balance", "season", "weekday")


def sense_conflicts(claim: str, sentences: Sequence[str]) -> Iterator[str]:
    """Say what of a claim the sentence that is nearest to it says otherwise."""
    own = content(claim)
    nearest = max(sentences, key=lambda sentence: covered(own, content(sentence)))
    near = covered(own, content(nearest))
    is_denied = is_negated(nearest) != is_negated(claim)
    alike = covered(content(without_negations(claim)), content(nearest))
    if is_denied and alike >= _SAME and not _is_worded(claim, nearest, sentences):
        yield "It denies what its source says." if is_negated(claim) else "Its source denies it."
    if near >= _RELATED and not is_denied:
        clause = _clause_of(own, nearest)
        about = clause if covered(own, content(clause)) >= _SAME else nearest
        for subject in _OPPOSITES:
            mine, theirs = sides_of(subject, claim), sides_of(subject, about)
            if mine and theirs and not mine & theirs:
                yield f"It says the opposite of its source ({subject})."
    if near >= _RELATED:
        yield from _strengths(claim, nearest)
    yield from _causes(claim, sentences)


def _is_worded(claim: str, nearest: str, sentences: Sequence[str]) -> bool:
    """Whether the difference may be one of words, or another sentence speaks as the claim does."""
    own, is_denied = content(claim), is_negated(claim)
    is_elsewhere = any(is_negated(each) == is_denied and covered(own, content(each)) >= _RELATED for each in sentences)
    return is_elsewhere or bool(phrase_in("denials", claim) or phrase_in("denials", nearest))


@cache
def _each_time() -> re.Pattern[str]:
    """Match how often or how long something is: `every three months` is no extent."""
    spans = "|".join(words for unit in ("time", "calendar") for words in units()[unit].values())
    return re.compile(rf"\w+ (?:les |los |las )?(?:\w+ )?(?:{spans}|night|nacht|noche|notte)(?!\w)", re.IGNORECASE)


def _clause_of(own: frozenset[str], sentence: str) -> str:
    """Return the clause of a sentence that has most of the words of a claim."""
    return max(_CLAUSE_END.split(sentence), key=lambda clause: covered(own, content(clause)))


def _strengths(claim: str, nearest: str) -> Iterator[str]:
    own, duties, theirs = content(claim), sides_of("modality", claim), sides_of("modality", nearest)
    if duties and theirs and not duties & theirs:
        yield "It says more than its source (duty)."
    extent, other = (sides_of("extent", _each_time().sub(" ", text), spoken_in(text)) for text in (claim, nearest))
    is_wider = _ALL in extent and not other - {_PART}
    is_denied = is_negated(nearest) or is_negated(claim) or phrase_in("denials", nearest)
    if (is_wider or (extent and other and not extent & other and extent != frozenset({_PART}))) and not is_denied:
        yield "It says more than its source (extent)."
    clause = _clause_of(own, nearest)
    is_open = phrase_in("planned", clause) or sides_of("modality", clause) == frozenset({_MAY})
    if (
        covered(own, content(clause)) >= _NEAR
        and is_open
        and not (duties or phrase_in("planned", claim) or is_negated(claim))
    ):
        yield "Its source says that it may be, or is planned."


def _causes(claim: str, sentences: Sequence[str]) -> Iterator[str]:
    known, named = "\n".join(sentences), phrase_in("because_of", claim)
    after = claim[named.end() :] if named else ""
    stems = [match[0].casefold()[:_STEM] for match in _TOKEN.finditer(after)]
    words = [stem for stem in stems if stem in content(after) and not stem[0].isdigit()][:_CAUSE_WORDS]
    is_other = language_of(claim) == language_of(known) and words and content(known).isdisjoint(words)
    names_one = any(phrase_in("causes", each) and not is_negated(each) for each in sentences)
    if is_other or (phrase_in("claimed_causes", claim) and not names_one and not is_negated(claim)):
        yield "Its source does not name this cause."
