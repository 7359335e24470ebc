"""What speaks against a claim: words and figures of it that are not in what it is said to rest on. Pure.

It never shows that a claim is right: it stops what no judge should have to see, and only where it is nearly sure; what
is merely suspicious is left to the judge. A conflict is a sentence for a writer.
"""

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Final

from chargehand_plugins.claim_checks.quantities import Quantity, is_converted, is_derived, quantities
from chargehand_plugins.claim_checks.senses import sense_conflicts
from chargehand_plugins.claim_checks.table_figures import (
    ResultTable,
    extreme_of,
    is_computed_from,
    misplaced,
    read_table,
    runs_against,
)
from chargehand_plugins.claim_checks.words import months_of, without_months
from workflows.rules.claim_words import language_of, languages, spoken_in

_WORD: Final = re.compile(r"[^\W\d_]+(?:[’'-][^\W\d_]+)*", re.UNICODE)
_SENTENCE: Final = re.compile(r"(?<=[.!?…;])\s+|\n")
_POSSESSIVE: Final = re.compile(r"['’]s$")
_LEAST_NAME: Final = 4
"""Letters of a name; fewer are an abbreviation."""
_STEM: Final = 4


def conflicts_of(
    claim: str, said: Sequence[str], results: Sequence[str] = (), titles: Sequence[str] = ()
) -> tuple[str, ...]:
    """List what speaks against a claim in all that it rests on together; empty if nothing does.

    Args:
        claim: the statement, without its citations.
        said: the quotations that it rests on.
        results: what queries and programs returned, with titles of their columns in the first line.
        titles: what else is known of the sources: their titles, and the questions that the results answer.
    """
    sentences = [part for quote in said for part in _SENTENCE.split(quote) if part.strip()]
    cells = (re.sub(r"[_|\n]", " 1 ", result) for result in results)  # a number, beside which "mai" is a month
    known = "\n".join((*said, *cells, *titles))
    tables = [table for result in results if (table := read_table(result))]
    named = "\n".join((*said, *titles, *(table.names for table in tables)))
    conflicts = [*_figures(claim, named, tables), *_names(claim, known)]
    months = months_of(known, spoken_in(claim))
    is_told = months or tables or language_of(known)
    counts_months = any(each.unit == "calendar" and each.size == 1 for each in quantities(known))
    if months_of(claim) - months and is_told and not counts_months:
        conflicts.append("It names a month that its source does not name.")
    if sentences and not tables:
        conflicts += sense_conflicts(claim, sentences)
    elif tables and not sentences:
        conflicts += _of_tables(claim, tables)
    return tuple(dict.fromkeys(conflicts))


def _of_tables(claim: str, tables: Sequence[ResultTable]) -> Iterator[str]:
    if all(extreme_of(claim, table) is False for table in tables):
        yield "Another row has the most or the least."
    if all(runs_against(claim, table) for table in tables):
        yield "The figures run the other way."


def _figures(claim: str, text: str, tables: Sequence[ResultTable]) -> Iterator[str]:
    there = quantities(without_months(text))
    cells = [cell.quantity for table in tables for cell in table.cells]
    for figure in quantities(without_months(claim)):
        if figure.is_in(there):
            continue
        places = [place for table in tables if (place := misplaced(figure, claim, table)) is not None]
        if places:
            yield from places[:1] if all(places) else ()
        elif other := next((each.written for each in (*there, *cells) if figure.is_other_size_of(each)), ""):
            yield f"{figure.written} is not there, only {other}."
        elif is_derived(figure, [each for each in there if not (figure.is_word and each.is_word)]):
            continue
        elif not (
            _is_bound(figure, claim)
            or (_is_small(figure, there) and not (tables and figure.unit == "percent"))
            or is_converted(figure, there)
            or any(is_computed_from(figure, claim, table) for table in tables)
        ):
            yield f"{figure.written} is not there."


def _is_bound(figure: Quantity, claim: str) -> bool:
    """Whether a number is a round one that something exceeds, or does not reach."""
    codes = spoken_in(claim)
    is_round = all(len(str(value).rstrip("0").replace(".", "")) <= 2 for value in figure.digits)  # 250, 96.000
    return is_round and any(
        re.search(rf"(?<!\w)(?:{languages()[code].about})(?!\w)", claim, re.IGNORECASE) for code in codes
    )


def _is_small(figure: Quantity, there: Sequence[Quantity]) -> bool:
    """Whether a number may count what no figure counts: it is written as a word, and nothing like it has a figure."""
    return figure.is_word and (Decimal(1) in figure.values or not any(figure.counts_as(each) for each in there))


def _names(claim: str, known: str) -> Iterator[str]:
    """List the names of a claim that its source does not have; in German every noun would be one."""
    language = language_of(claim) or language_of(known)
    if language in {None, "de"} or language != language_of(known):
        return
    initials = {word for word in _WORD.findall(known) if len(word) == 1}
    stems = {_POSSESSIVE.sub("", word).casefold()[:_STEM] for word in _WORD.findall(known)}
    for sentence in _SENTENCE.split(claim):
        for match in [word for word in _WORD.finditer(sentence) if len(word[0]) > 1][
            1:
        ]:  # the first of 's Nachts is none
            name = _POSSESSIVE.sub("", match[0])
            is_name = name.istitle() and len(name) >= _LEAST_NAME and not months_of(f"on {name} 1")
            if is_name and name[0] not in initials and name.casefold()[:_STEM] not in stems:
                yield f"Its source does not name “{name}”."
