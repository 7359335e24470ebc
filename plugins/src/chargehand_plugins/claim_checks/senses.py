"""Whether a claim agrees with the nearest sentence: in direction, duty, extent, plan, and word for word."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from chargehand_plugins.claim_checks.copies import CLAUSE_END, Copy, copy_of
from chargehand_plugins.claim_checks.quantities import is_derived, quantities
from chargehand_plugins.claim_checks.roles import is_in_order
from chargehand_plugins.claim_checks.words import (
    each_time,
    is_negated,
    months_of,
    phrase_in,
    sides_of,
    without_negations,
)
from workflows.rules.citation_checks import Objection
from workflows.rules.claim_words import content, covered, language_of, languages, spoken_in

_COMMA: Final = re.compile(r"[,;:()](?!\d)")
_MARKS: Final = ".,;:!?()“”„«»\"'"
_NAME: Final = re.compile(r"\b[^\W\d_a-zß-ÿ]\w+(?: [^\W\d_a-zß-ÿ][\w’'-]+)+")
_INNER_CAPITAL: Final = re.compile(r"(?<=[a-zß-ÿ,] )[^\W\d_a-zß-ÿ][\w’'-]{2,}")
_RANGE: Final = re.compile(r"\d\D{0,12}\b(?:to|and|bis|und|à|et|a|y|e|en|tot) \d|\d ?[-–] ?\d")
_RELATED: Final = 0.35
"""Minimum share of a claim's words in a sentence about the same thing."""
_SAME: Final = 0.65
"""The same, for texts that differ only in a figure, or in a negation of the claim."""
_COPIED: Final = 0.9
"""The same, for a claim that may deny what it copies, and has no other new word."""
_LEAST_REST: Final = 3
"""Minimum words of a claim, not counting a name, that its source says about another name."""
_ALL, _PART = 0, 1
"""Positions in the list of extents."""
_MAY: Final = 1
"""Position in the list of modal verbs."""


def sense_objections(claim: str, sentences: Sequence[str], titles: Sequence[str]) -> Iterator[Objection]:
    """Yield what the nearest sentence says differently from a claim."""
    own = content(claim)
    nearest = max(sentences, key=lambda sentence: covered(own, content(sentence)))
    near = covered(own, content(nearest))
    about, copy = " ".join(titles), copy_of(claim, nearest)
    parts = _COMMA.split(copy.clause if copy else nearest)  # `recommends, but does not require,` is not a denial
    is_denied = is_negated(" ".join(part for part in parts if own & content(part))) != is_negated(claim)
    if is_denied and covered(content(without_negations(claim)), content(f"{about} {nearest}")) >= _SAME:
        is_plain = not (phrase_in("denials", claim) or sides_of("order", claim))
        is_repeated = near == 1 and is_plain and is_in_order(claim, nearest)
        is_copy = copy is not None and not copy.replacements and (copy.share >= _COPIED or is_repeated)
        reason = "It denies what its source says." if is_negated(claim) else "Its source denies it."
        yield Objection(reason, is_certain=is_copy)
    if copy:
        others = _names(nearest, nearest) & content(nearest) - own
        elsewhere = own - content(copy.clause) - _measures(claim)
        if elsewhere and others and not is_negated(claim):
            yield Objection(f"Its source does not say this of {_as_written(elsewhere, claim)}.")
        yield from _replacements(copy, claim, nearest, " ".join([about, *sentences]), has_own_words=near < 1)
    if near >= _RELATED and not is_denied:
        yield from _reversals(claim, nearest, is_repeated=near == 1)
    yield from _opposites(claim, sentences)
    yield from _in_other_clause(claim, nearest)
    if near >= _RELATED:
        yield from _strengths(claim, nearest)
    yield from _other_words(claim, nearest, about, " ".join([about, *sentences]))


def _reversals(claim: str, nearest: str, *, is_repeated: bool) -> Iterator[Objection]:
    """Find `up` in place of `down`, and `more` in place of `less`."""
    clause, codes = _clause_of(content(claim), nearest), spoken_in(claim, nearest)
    is_copied = is_repeated and not phrase_in("denials", claim)
    is_moved = not is_in_order(claim, nearest)  # if A has more than B, B has less
    is_reversed = bool(is_moved and phrase_in("than", claim) and phrase_in("than", nearest))
    for subject, is_turned, is_certain in (("direction", is_reversed, True), ("amount", is_moved, is_copied)):
        claimed, stated = sides_of(subject, claim, codes), sides_of(subject, clause) or sides_of(subject, nearest)
        if claimed and stated and not (claimed & stated or is_turned):
            yield Objection(f"It says the opposite of its source ({subject}).", is_certain=is_certain)


def _opposites(claim: str, sentences: Sequence[str]) -> Iterator[Objection]:
    """Find the opposite word in the clause that has everything else of a claim."""
    codes = spoken_in(claim)
    if len(codes) != 1 or is_negated(claim):
        return
    clauses = [clause for sentence in sentences for clause in CLAUSE_END.split(sentence)]
    words = languages()[codes[0]]
    for group in (words.sides["verdict"], words.sides["extremes"], *words.alternatives):
        claimed, rest = {number for number, pattern in enumerate(group) if pattern.search(claim)}, claim
        if len(claimed) != 1:
            continue
        for pattern in group:
            rest = pattern.sub(" ", rest)
        own = content(rest)
        best = max((covered(own, content(clause)) for clause in clauses), default=0)
        nearest = [clause for clause in clauses if covered(own, content(clause)) == best >= _SAME]
        stated = {side for clause in nearest for side, pattern in enumerate(group) if pattern.search(clause)}
        if stated and not stated & claimed and not any(map(is_negated, nearest)):
            is_moved = phrase_in("than", claim) or not all(is_in_order(claim, clause) for clause in nearest)
            is_certain = not (is_moved or sides_of("order", claim))
            yield Objection("It says the opposite of its source.", is_certain=is_certain)


def _in_other_clause(claim: str, nearest: str) -> Iterator[Objection]:
    """Find a figure with words of another clause, which has a figure of its own: `butter rose by 14%, milk by 3%`."""
    figures = [each for each in quantities(claim) if not each.is_year]
    clauses = [(content(part), quantities(part)) for part in _COMMA.split(nearest)]
    own = content(claim)
    at = [number for number, (_, there) in enumerate(clauses) if figures and all(each.is_in(there) for each in figures)]
    if len(at) == 1:
        for number, (words, there) in enumerate(clauses):
            others = own & words - frozenset().union(*(each for each, _ in clauses if each is not words))
            least = 0 if number > at[0] else max(1, len(own & clauses[at[0]][0]))  # a subject stands in front
            is_rival = any(not each.is_year for each in there) and not any(each.is_in(figures) for each in there)
            if number != at[0] and is_rival and len(others) > least:
                yield Objection(f"Its source does not say {figures[0].written} of {_as_written(others, claim)}.")


def _replacements(copy: Copy, claim: str, nearest: str, known: str, *, has_own_words: bool) -> Iterator[Objection]:
    """Object to replaced words; a figure may also be a part of its source, or computed from it."""
    pairs = {(each.theirs, each.mine) for each in copy.replacements}
    old_at, new_at = ([nearest.find(getattr(each, of)) for each in copy.replacements] for of in ("theirs", "mine"))
    # All follow or precede the words that they replace: `in May 64 mm fell, in June 91 mm`.
    is_apart = len(new_at) > 1 and min(new_at) >= 0 and (max(old_at) < min(new_at) or max(new_at) < min(old_at))
    there, beside = quantities(known), quantities(nearest)
    is_rest = any(figure.completes(other) for figure in quantities(claim) for other in beside)
    computed = {
        each.mine
        for each in copy.replacements
        if each.kind == "figure" and (each.mine, each.theirs) not in pairs
        for figure in quantities(each.mine)
        if is_rest or figure.is_in(beside) or is_derived(figure, beside) or is_derived(figure, there)
    }
    for each in copy.replacements:
        reason = f"Its source has “{each.theirs}” where the claim says “{each.mine}”."
        is_both = each.kind == "direction" and bool(sides_of(each.kind, each.mine) & sides_of(each.kind, nearest))
        is_mutual = each.kind == "name" and (each.mine, each.theirs) in pairs and phrase_in("mutual", nearest)
        # For example, by buying what another sold, or in another month, with the figure computed for it.
        is_turned = each.mine in nearest and (has_own_words if each.kind == "name" else bool(computed))
        yield Objection(reason, is_certain=not (each.mine in computed or is_apart or is_both or is_mutual or is_turned))


def _other_words(claim: str, nearest: str, about: str, known: str) -> Iterator[Objection]:
    """Find a claim that nearly copies its source, with one different word or words of another sentence."""
    own = content(claim)
    new = own - content(known)
    is_foreign = language_of(claim) not in {None, language_of(known)}
    words = [] if language_of(claim) == "de" else claim.split()  # in German every noun would be a name
    named = content(" ".join(word for word in words if word[0].isupper()))
    if own and not is_foreign and not (own & content(known)) - named:
        yield Objection("Apart from names, its source has none of its words.")
    if len(new) > 1:  # it is worded differently
        return
    if elsewhere := own - new - content(f"{about} {nearest}") - _measures(claim):
        rest, there = own - elsewhere, content(nearest)
        is_of_other = rest <= there and bool(_names(nearest, known) & there - content(claim))
        is_certain = is_of_other and len(rest) >= _LEAST_REST and elsewhere <= _names(claim, known)
        yield Objection(f"Its source does not say this of {_as_written(elsewhere, claim)}.", is_certain=is_certain)
    elif new - _measures(claim):
        yield Objection(f"Its source does not mention {_as_written(new, claim)}.")


def _measures(claim: str) -> frozenset[str]:
    """List the words of units, scales and months, which are compared by value."""
    words = [each.written for each in quantities(claim) if not each.is_word]
    words += [word for word in claim.split() if months_of(f"on {word.strip(_MARKS)} 1")]
    return frozenset(stem for stem in content(" ".join(words)) if not any(map(str.isdigit, stem)))


def _names(text: str, known: str) -> frozenset[str]:
    """List the words of names: two capitalised in a row or, except in German, one within a sentence."""
    names = _NAME.findall(text)
    if language_of(known) != "de":
        names += [word for word in _INNER_CAPITAL.findall(known) if word in text]
    return content(" ".join(names))


def _as_written(stems: frozenset[str], claim: str) -> str:
    words = (word.strip(_MARKS) for word in claim.split() if any(stem in word.casefold() for stem in stems))
    return ", ".join(f"“{word}”" for word in dict.fromkeys(words))


def _clause_of(own: frozenset[str], sentence: str) -> str:
    return max(CLAUSE_END.split(sentence), key=lambda clause: covered(own, content(clause)))


def _strengths(claim: str, nearest: str) -> Iterator[Objection]:
    codes, own = spoken_in(claim, nearest), content(claim)
    is_repeated = own <= content(nearest)  # otherwise a new word may say so: `likely`, `depends on`
    duties, source_duties = sides_of("modality", claim, codes), sides_of("modality", nearest)
    if duties and source_duties and not duties & source_duties:
        # `may only afterwards` means `must not before`, and `may be 4 to 6` means `must be between 4 and 6`.
        is_narrow = _MAY in duties or phrase_in("denials", nearest)
        is_certain = is_repeated and not _RANGE.search(claim) and (not is_narrow or is_in_order(claim, nearest))
        yield Objection("It states a stronger duty than its source.", is_certain=is_certain)
    extent = sides_of("extent", each_time().sub(" ", claim), codes)
    other = sides_of("extent", each_time().sub(" ", nearest), spoken_in(nearest))
    is_rounded = bool(phrase_in("nearly", nearest)) and not phrase_in("nearly", claim)
    is_wider = _ALL in extent and (is_rounded or not other - {_PART})
    is_denied = any(without_negations(text) != text for text in (nearest, claim)) or phrase_in("denials", nearest)
    if (is_wider or (extent and other and not extent & other and extent != frozenset({_PART}))) and not is_denied:
        yield Objection(
            "It states a greater extent than its source.", is_certain=covered(own, content(nearest)) >= _SAME
        )
    clause = _clause_of(own, nearest)
    is_open = phrase_in("planned", clause) or sides_of("modality", clause) == frozenset({_MAY})
    if is_open and not (duties or phrase_in("planned", claim) or is_negated(claim)):
        yield Objection("Its source says only that this is possible or planned.", is_certain=is_repeated)
