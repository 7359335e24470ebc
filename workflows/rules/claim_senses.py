"""Whether a claim says what the sentence nearest to it says: direction, order, duty, extent, plan, cause, person."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

from workflows.rules.claim_words import is_negated, language_of, languages, spoken_in
from workflows.rules.quantities import quantities

_TOKEN: Final = re.compile(r"[^\W_]+", re.UNICODE)
_CLAUSE_END: Final = re.compile(r"[,;:()]|\s(?:and|und|et|y|e|en|with|mit|avec|con|com|met)\s")
_EACH_TIME: Final = re.compile(
    r"\b(?:every|each|all|jede\w*|alle|chaque|tous les|toutes les|cada|todos los|todas las|ogni|elke?|iedere?) "
    r"(?:\w+ )?(?:second|minute|hour|day|night|week|month|quarter|year|sekunde|stunde|tag|woche|monat|quartal|jahr"
    r"|heure|jour|nuit|semaine|mois|trimestre|an|année|hora|día|noche|semana|mes|año|ora|giorno|notte|settimana|mese|anno|uur|dag"
    r"|nacht|maand|kwartaal|jaar)\w*",
    re.IGNORECASE,
)
"""How often, which is no extent."""
_UNSPACED: Final = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_RELATED: Final = 0.35
"""Which part of the words of the shorter of two sentences the other has, if they are about the same."""
_NEAR: Final = 0.5
"""The same, of sentences that differ in one word, or in whether they deny."""
_SAME: Final = 0.6
"""The same, of sentences that differ in a name."""
_STEM: Final = 5
_ALL, _PART = 0, 1
"""Places in the list of extents."""
_SUBJECTS: Final = ("direction", "amount", "time", "decision", "balance", "vote")


def sense_conflicts(claim: str, sentences: Sequence[str]) -> Iterator[str]:
    """Say what of a claim the sentence that is nearest to it says otherwise."""
    own = content(claim)
    nearest = max(sentences, key=lambda sentence: shared(own, content(sentence)))
    near, negated = shared(own, content(nearest)), is_negated(claim)
    is_denied = negated != is_negated(nearest)
    related = [sentence for sentence in sentences if shared(own, content(sentence)) >= _RELATED]
    is_elsewhere = any(is_negated(sentence) == negated for sentence in related)
    if near >= _NEAR and is_denied and not (is_elsewhere or _has("denials", claim) or _has("denials", nearest)):
        yield "It denies what its source says." if negated else "Its source denies it."
    if near >= _RELATED:
        yield from _opposites(claim, nearest, is_denied=is_denied)
        yield from _strengths(claim, nearest)
    names, others = _names(claim), _names(nearest)
    if near >= _SAME and language_of(claim) != "de" and names and others and not names & others:
        yield "Its source says it of another."
    if _has("claimed_causes", claim) and not any(
        _has("causes", sentence) and is_negated(sentence) == negated for sentence in sentences
    ):
        yield "Its source names no cause."
    yield from _at_figures(claim, "\n".join(sentences))


@lru_cache(maxsize=2048)
def content(text: str) -> frozenset[str]:
    """List the stems of what a text says; of a script without blanks, each two characters."""
    common = languages()[code].common if (code := language_of(text)) else frozenset[str]()
    words = [match[0] for match in _TOKEN.finditer(text) if match[0].casefold() not in common]
    return frozenset(
        part for word in words for part in (_pairs(word) if _UNSPACED.search(word) else [word.casefold()[:_STEM]])
    )


def shared(mine: frozenset[str], theirs: frozenset[str]) -> float:
    """Compute which part of the shorter of two lists of words the other has as well."""
    least = min(len(mine), len(theirs))
    return len(mine & theirs) / least if least else 0.0


def _pairs(word: str) -> list[str]:
    return [word[at : at + 2] for at in range(len(word) - 1)]


def _opposites(claim: str, nearest: str, *, is_denied: bool) -> Iterator[str]:
    for subject in _SUBJECTS:
        mine, theirs = _sides(claim, subject), _sides(nearest, subject)
        if mine and theirs and not mine & theirs and not is_denied:
            yield f"It says the opposite of its source ({subject})."


def _strengths(claim: str, nearest: str) -> Iterator[str]:
    duties, theirs = _of("modality", claim), _of("modality", nearest)
    if duties and theirs and not duties & theirs:
        yield "It says more than its source (duty)."
    extent, other = (_of("extent", _EACH_TIME.sub(" ", text)) for text in (claim, nearest))
    is_wider = _ALL in extent and not other - {_PART}
    is_denied = is_negated(nearest) or is_negated(claim) or _has("denials", nearest)
    if (is_wider or (extent and other and not extent & other and extent != frozenset({_PART}))) and not is_denied:
        yield "It says more than its source (extent)."
    own = content(claim)
    clause = max(_CLAUSE_END.split(nearest), key=lambda clause: shared(own, content(clause)))
    is_to_come = _has("planned", clause) and shared(own, content(clause)) >= _NEAR
    if is_to_come and not (_has("planned", claim) or _of("modality", claim) or is_negated(claim)):
        yield "Its source says that it is planned."


def _at_figures(claim: str, known: str) -> Iterator[str]:
    """Compare what is said of a figure that both have: an average or a peak, a level or a change."""
    there = quantities(known)
    for figure in quantities(claim):
        same = [each for each in there if figure.values & each.values and each.start >= 0]
        if figure.is_word or not same or figure.start < 0:
            continue
        for subject, around in (("measure", _clause), ("change", _word_before)):
            mine = _sides(around(claim, figure.start), subject)
            theirs = [_sides(around(known, each.start), subject) for each in same]
            if mine and all(other and not mine & other for other in theirs):
                yield f"{figure.written} is said otherwise there ({subject})."


def _clause(text: str, at: int) -> str:
    before, after = text[:at].rsplit("\n", 1)[-1], text[at:].split("\n", 1)[0]
    starts = [match.end() for match in _CLAUSE_END.finditer(before)]
    end = _CLAUSE_END.search(after)
    return before[starts[-1] if starts else 0 :] + (after[: end.start()] if end else after)


def _word_before(text: str, at: int) -> str:
    words = text[:at].split()
    return words[-1] if words else ""


def _names(text: str) -> set[str]:
    """List the names of a sentence: capitals that do not begin it."""
    words = [match[0] for match in _TOKEN.finditer(text)]
    return {word.casefold()[:_STEM] for word in words[1:] if word[:1].isupper() and len(word) > 1}


@lru_cache(maxsize=8192)
def _has(kind: str, text: str) -> bool:
    return any(getattr(languages()[code], kind).search(text) for code in spoken_in(text))


@lru_cache(maxsize=8192)
def _sides(text: str, subject: str) -> frozenset[int]:
    return _matches(text, [languages()[code].opposites[subject] for code in spoken_in(text)])


@lru_cache(maxsize=8192)
def _of(kind: str, text: str) -> frozenset[int]:
    return _matches(text, [getattr(languages()[code], kind) for code in spoken_in(text)])


def _matches(text: str, alternatives: Iterable[Sequence[re.Pattern[str]]]) -> frozenset[int]:
    return frozenset(
        number for patterns in alternatives for number, pattern in enumerate(patterns) if pattern.search(text)
    )
