"""Whether a claim says what the sentence nearest to it says: direction, duty, extent, plan, and word for word."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from chargehand_plugins.claim_checks.copies import CLAUSE_END, Copy, copy_of
from chargehand_plugins.claim_checks.quantities import is_derived, quantities
from chargehand_plugins.claim_checks.words import is_negated, phrase_in, sides_of, without_negations
from workflows.rules.citation_checks import Objection
from workflows.rules.claim_words import content, covered, language_of, spoken_in, units

_MARKS: Final = ".,;:!?()“”„«»\"'"
_RELATED: Final = 0.35
"""Which part of the words of a claim a sentence has, if both are about the same."""
_SAME: Final = 0.65
"""The same, of two that are alike but for a figure, or a negation of the claim's."""
_COPIED: Final = 0.9
"""The same, of a claim that may deny what it copies, and has no other word of its own."""
_ALL, _PART = 0, 1
"""Places in the list of extents."""
_MAY: Final = 1
"""Place in the list of modal verbs."""


def sense_objections(claim: str, sentences: Sequence[str], titles: Sequence[str]) -> Iterator[Objection]:
    """Say what of a claim the sentence that is nearest to it says otherwise."""
    own = content(claim)
    nearest = max(sentences, key=lambda sentence: covered(own, content(sentence)))
    near = covered(own, content(nearest))
    about, copy = " ".join(titles), copy_of(claim, nearest)
    is_denied = is_negated(copy.clause if copy else nearest) != is_negated(claim)
    if is_denied and covered(content(without_negations(claim)), content(f"{about} {nearest}")) >= _SAME:
        is_copy = copy is not None and copy.share >= _COPIED and not copy.replacements
        reason = "It denies what its source says." if is_negated(claim) else "Its source denies it."
        yield Objection(reason, is_certain=is_copy)
    if copy:
        yield from _replaced(copy, nearest, " ".join([about, *sentences]))
    if near >= _RELATED and not is_denied:
        clause, codes = _clause_of(own, nearest), spoken_in(claim, nearest)
        for subject in ("direction", "amount", "order"):
            mine, theirs = sides_of(subject, claim, codes), sides_of(subject, clause)
            if mine and not mine & (theirs or sides_of(subject, nearest) or mine):
                is_certain = subject == "direction"
                yield Objection(f"It says the opposite of its source ({subject}).", is_certain=is_certain)
    if near >= _RELATED:
        yield from _strengths(claim, nearest)
    yield from _other_words(claim, f"{about} {nearest}", " ".join([about, *sentences]))


def _replaced(copy: Copy, nearest: str, known: str) -> Iterator[Objection]:
    """Object to words in the place of others, of which a figure may be a part of its source, or computed from it."""
    pairs = {(each.theirs, each.mine) for each in copy.replacements}
    there, is_apart = quantities(known), _are_said_apart(copy, nearest)
    for each in copy.replacements:
        is_figure = each.kind == "figure" and (each.mine, each.theirs) not in pairs
        is_known = is_figure and any(
            figure.is_in(there) or is_derived(figure, there) for figure in quantities(each.mine)
        )
        reason = f"Its source has “{each.theirs}” where it says “{each.mine}”."
        yield Objection(reason, is_certain=not (is_known or is_apart))


def _are_said_apart(copy: Copy, sentence: str) -> bool:
    """Whether words in the place of others all stand behind or before those: `in May 64 mm fell, in June 91 mm`."""
    theirs = [sentence.find(each.theirs) for each in copy.replacements]
    mine = [sentence.find(each.mine) for each in copy.replacements]
    return len(mine) > 1 and min(mine) >= 0 and (max(theirs) < min(mine) or max(mine) < min(theirs))


def _other_words(claim: str, nearest: str, known: str) -> Iterator[Objection]:
    """Find a claim in nearly the words of its source: with one other word, or with words of another sentence."""
    own = content(claim)
    new = own - content(known)
    if own and new == own and language_of(claim) == language_of(known):
        yield Objection("Its source has none of its words.")
    if len(new) > 1:  # it is in words of its own
        return
    if elsewhere := own - new - content(nearest):
        yield Objection(f"What it says is not said of {_written(elsewhere, claim)}.")
    elif new:
        yield Objection(f"Its source has no {_written(new, claim)}.")


def _written(stems: frozenset[str], claim: str) -> str:
    words = (word.strip(_MARKS) for word in claim.split() if any(stem in word.casefold() for stem in stems))
    return ", ".join(f"“{word}”" for word in dict.fromkeys(words))


@cache
def _each_time() -> re.Pattern[str]:
    """Match how often or how long something is: `every three months` is no extent."""
    spans = "|".join(words for unit in ("time", "calendar") for words in units()[unit].values())
    return re.compile(rf"\w+ (?:les |los |las )?(?:\w+ )?(?:{spans}|night|nacht|noche|notte)(?!\w)", re.IGNORECASE)


def _clause_of(own: frozenset[str], sentence: str) -> str:
    return max(CLAUSE_END.split(sentence), key=lambda clause: covered(own, content(clause)))


def _strengths(claim: str, nearest: str) -> Iterator[Objection]:
    codes, own = spoken_in(claim, nearest), content(claim)
    duties, theirs = sides_of("modality", claim, codes), sides_of("modality", nearest)
    if duties and theirs and not duties & theirs:
        is_narrow = _MAY in duties or phrase_in("denials", nearest)  # who may only do so afterwards must not before
        yield Objection("It says more than its source (duty).", is_certain=not is_narrow)
    extent = sides_of("extent", _each_time().sub(" ", claim), codes)
    other = sides_of("extent", _each_time().sub(" ", nearest), spoken_in(nearest))
    is_wider = _ALL in extent and not other - {_PART}
    is_denied = any(without_negations(text) != text for text in (nearest, claim)) or phrase_in("denials", nearest)
    if (is_wider or (extent and other and not extent & other and extent != frozenset({_PART}))) and not is_denied:
        yield Objection("It says more than its source (extent).", is_certain=covered(own, content(nearest)) >= _SAME)
    clause = _clause_of(own, nearest)
    is_open = phrase_in("planned", clause) or sides_of("modality", clause) == frozenset({_MAY})
    if is_open and not (duties or phrase_in("planned", claim) or is_negated(claim)):
        yield Objection("Its source says that it may be, or is planned.")
