"""What speaks against a claim: words and figures of it that are not in what it is said to rest on. Pure.

It never shows that a claim is right: it stops what no judge should have to see. A conflict is a sentence for a writer.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final

from workflows.rules.claim_senses import content, sense_conflicts, shared
from workflows.rules.claim_words import is_negated, language_of, languages, spoken_in
from workflows.rules.quantities import Quantity, differences, is_measure, quantities
from workflows.rules.table_figures import ResultTable, has_extreme, is_computed_from, is_extreme, misplaced, read_table

_WORD: Final = re.compile(r"[^\W\d_]+(?:[’'-][^\W\d_]+)*", re.UNICODE)
_TOKEN: Final = re.compile(r"[^\W_]+", re.UNICODE)
_SENTENCE: Final = re.compile(r"(?<=[.!?…;])\s+|\n")
_NUMERIC_DATE: Final = re.compile(r"\b(\d{4})-(\d\d)(?:-(\d\d))?\b|\b(\d{1,2})[./](\d{1,2})[./](\d{2,4})\b")
_LEAST_WORD: Final = 4
"""Letters of a word that says something."""
_STEM: Final = 5
_FEW_WORDS: Final = 5
"""Of a claim that need share only one with its source."""
_NEAR: Final = 0.6
"""How much two sentences share that differ in a word, or in whether they deny."""
_MOST_REPLACED: Final = 2


def conflicts_of(
    claim: str, said: Sequence[str], results: Sequence[str] = (), titles: Sequence[str] = ()
) -> tuple[str, ...]:
    """List what speaks against a claim; empty if nothing does.

    Args:
        claim: the statement, without its citations.
        said: the quotations that it rests on.
        results: what queries and programs returned, with titles of their columns in the first line.
        titles: what else is known of the sources: their titles, and the questions that the results answer.
    """
    sentences = [part for quote in said for part in _SENTENCE.split(quote) if part.strip()]
    known = "\n".join((*said, *results, *titles))
    codes = tuple(dict.fromkeys((*spoken_in(claim), *spoken_in(known))))
    conflicts = [*_figures(claim, known, results), *_dates(claim, known, codes), *_substitutions(claim, sentences)]
    if _is_same_language(claim, known):
        conflicts += _names(claim, known)
    if sentences:
        conflicts += [*sense_conflicts(claim, sentences), *_subject(claim, "\n".join((*said, *titles)))]
    elif results and is_negated(claim):
        conflicts.append("It denies what its source says.")
    return tuple(dict.fromkeys(conflicts))


def states_extreme(claim: str, results: Sequence[str]) -> bool:
    """Whether a claim says rightly, without a figure, that a row of a result has the most or the least."""
    tables = [table for result in results if (table := read_table(result))]
    return _has_extreme_word(claim) and any(has_extreme(claim, table) for table in tables)


def _has_extreme_word(claim: str) -> bool:
    return any(languages()[code].extremes.search(claim) for code in spoken_in(claim))


def _figures(claim: str, known: str, results: Sequence[str]) -> Iterator[str]:
    there = quantities(_without_months(known))
    apart = differences(there)
    tables = [table for result in results if (table := read_table(result))]
    for figure in quantities(_without_months(claim)):
        if figure.is_word:
            is_other = figure.is_other_in(there) or figure.is_of_other_unit_in(there)
            is_share = figure.unit == "percent" and bool(tables)
            if (
                (is_other or is_share)
                and not figure.is_in([*there, *apart])
                and not _is_computed(figure, claim, tables)
            ):
                yield f"“{figure.written}” is another number there."
        elif not figure.is_in(there):
            if not figure.is_in(apart) and not _is_computed(figure, claim, tables):
                yield f"{figure.written} is not there{_other_unit(figure, there)}."
        elif tables and (wrong := [misplaced(figure, claim, table) for table in tables]) and all(wrong):
            yield f"{wrong[0]}."
        elif tables and _has_extreme_word(claim) and not any(is_extreme(figure, table) for table in tables):
            yield f"{figure.written} is neither the most nor the least."


def _is_computed(figure: Quantity, claim: str, tables: Iterable[ResultTable]) -> bool:
    return any(is_computed_from(figure, claim, table) for table in tables)


def _other_unit(figure: Quantity, there: Iterable[Quantity]) -> str:
    other = next((each for each in there if figure.values & each.values), None)
    return f", only {other.written}" if other else ""


def _dates(claim: str, known: str, codes: Sequence[str]) -> Iterator[str]:
    for kind in ("months", "weekdays"):
        missing = _numbered(claim, kind, codes) - _numbered(known, kind, codes)
        if missing:
            yield f"It names one of the {kind} that its source does not name."


def _without_months(text: str) -> str:
    """Leave day and year of dates in figures, as they stand beside the name of a month."""
    return _NUMERIC_DATE.sub(lambda date: f"{date[3] or date[4] or ''} {date[1] or date[6]}", text)


def _numbered(text: str, kind: str, codes: Sequence[str]) -> set[str]:
    spoken = (getattr(languages()[code], kind) for code in codes)
    names = {number for patterns in spoken for number, pattern in patterns.items() if pattern.search(text)}
    if kind == "months":
        names.update(str(int(date[2] or date[5])) for date in _NUMERIC_DATE.finditer(text))
    return names


def _is_same_language(claim: str, known: str) -> bool:
    mine, theirs = language_of(claim), language_of(known)
    return mine is not None and mine == theirs


def _names(claim: str, known: str) -> Iterator[str]:
    """List the names of a claim that its source does not have; in German every noun would be one."""
    if language_of(claim) == "de" or not any(map(str.islower, claim)):
        return
    stems, initials = _stems(known), _initials(known)
    for sentence in _SENTENCE.split(claim):
        for position, match in enumerate(_WORD.finditer(sentence)):
            name = match[0].removesuffix("'s").removesuffix("’s")
            is_name = position > 0 and name[:1].isupper() and len(name) > 1
            if is_name and not _is_known(name, stems) and name not in initials and not _is_calendar(name):
                yield f"Its source does not name “{name}”."


def _is_known(name: str, stems: set[str]) -> bool:
    stem = _stem(name)
    return stem in stems or (len(stem) >= _LEAST_WORD and any(known.startswith(stem) for known in stems))


def _is_calendar(word: str) -> bool:
    codes = tuple(languages())
    return bool(_numbered(f"on {word} 1", "months", codes) or _numbered(word, "weekdays", codes))


def _initials(text: str) -> set[str]:
    capitals = [match[0][0] for match in _WORD.finditer(text) if match[0][:1].isupper()]
    return {"".join(capitals[start : start + length]) for length in (2, 3, 4) for start in range(len(capitals))}


def _substitutions(claim: str, sentences: Iterable[str]) -> Iterator[str]:
    """Find names and figures that replace others in a sentence that is otherwise the source's."""
    mine = _TOKEN.findall(claim)
    for sentence in sentences:
        if shared(content(claim), content(sentence)) < _NEAR:
            continue
        theirs = _TOKEN.findall(sentence)
        matcher = SequenceMatcher(
            None, [_stem(word) for word in mine], [_stem(word) for word in theirs], autojunk=False
        )
        if sum(block.size for block in matcher.get_matching_blocks()) < _NEAR * len(mine):
            continue
        for kind, start, end, other_start, other_end in matcher.get_opcodes():
            one, other = mine[start:end], theirs[other_start:other_end]
            is_short = 0 < len(one) <= _MOST_REPLACED and 0 < len(other) <= _MOST_REPLACED
            are_names = _is_name(one) and _is_name(other) and not any(map(is_measure, (*one, *other)))
            if kind == "replace" and start > 0 and is_short and are_names:
                yield f"It says “{' '.join(one)}” where its source says “{' '.join(other)}”."


def _is_name(words: Sequence[str]) -> bool:
    return any(word[:1].isupper() for word in words)


def _subject(claim: str, quoted: str) -> Iterator[str]:
    """Find a claim that shares hardly a word with its source, in the same language."""
    if not _is_same_language(claim, quoted):
        return
    common = languages()[language_of(claim) or "en"].common
    words = [
        match[0]
        for match in _WORD.finditer(claim)
        if len(match[0]) >= _LEAST_WORD and match[0].casefold() not in common
    ]
    # What begins a sentence is a name unless its source writes it small; a name is no subject of its own.
    small = {_stem(match[0]) for match in _WORD.finditer(quoted) if match[0][:1].islower()}
    spoken = [word for word in words if language_of(claim) == "de" or word[:1].islower() or _stem(word) in small]
    stems, figures = _stems(quoted), quantities(claim)
    there = quantities(quoted)
    if figures and all(figure.is_in([*there, *differences(there)]) for figure in figures):
        return
    in_source = sum(_stem(word) in stems for word in spoken)
    if len(spoken) > 1 and in_source < (1 if len(spoken) <= _FEW_WORDS else 2):
        yield "Its source speaks of something else."


def _stems(text: str) -> set[str]:
    return {_stem(match[0].removesuffix("'s").removesuffix("’s")) for match in _WORD.finditer(text)}


def _stem(word: str) -> str:
    return word.casefold()[:_STEM]
