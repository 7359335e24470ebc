"""Objections to a claim: words and figures in it that its evidence lacks or contradicts. Pure.

This never shows that a claim is right. No judge may overrule what is nearly certain: a figure from another row, or with
another scale or unit, the opposite direction, a wider duty or extent. All else is a question to the judge.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from heapq import nlargest
from itertools import pairwise
from typing import Final

from chargehand_plugins.claim_checks.comparisons import comparison_objections
from chargehand_plugins.claim_checks.copies import LEAST_NAME
from chargehand_plugins.claim_checks.quantities import Quantity, factors_of, is_derived, quantities, roundings
from chargehand_plugins.claim_checks.roles import role_objections
from chargehand_plugins.claim_checks.senses import sense_objections
from chargehand_plugins.claim_checks.steps import step_objections
from chargehand_plugins.claim_checks.table_figures import (
    BOUND,
    is_alien,
    is_computed_from,
    is_unclear,
    misplaced,
    table_objections,
)
from chargehand_plugins.claim_checks.tables import PREVIOUS, ResultTable, read_table
from chargehand_plugins.claim_checks.words import (
    months_of,
    phrase_in,
    sentences_of,
    sides_of,
    without_month_names,
    without_months,
)
from workflows.rules.citation_checks import Objection
from workflows.rules.claim_words import content, language_of, spoken_in

_WORD: Final = re.compile(r"[^\W\d_]+(?:[’'-][^\W\d_]+)*", re.UNICODE)
_POSSESSIVE: Final = re.compile(r"['’]s$")
_DIGITS: Final = re.compile(r"\d+")
_STEM: Final = 4
_PERCENT: Final = Decimal(100)
_DOZEN: Final = 13
_OTHER_LETTER: Final = re.compile(r"[^\W\d_\u0000-\u00e4\u00e6-\u00f7\u00f9-\u00ff\u0152\u0153]")
"""A letter of a language whose number words are unknown: figures up to twelve may be written as words."""
_MOST_COMPARED: Final = 12_000
"""Maximum characters of a claim's evidence: workflow tasks have little time, and judges read less."""
_MOST_FIGURES: Final = 600
_MOST_COMPARISONS: Final = 3_000
"""Maximum comparisons between figures of a claim and those of its evidence."""
_MOST_SENTENCES: Final = 40
"""Maximum sentences that are read closely: those that share most words with a claim."""
_LONGEST_SENTENCE: Final = 1_000
_OF: Final = re.compile(r" (?:in|out of|of(?: the)?|von|sur|su|de cada|em cada|na|z|op de) ")
_YEAR: Final = 12
"""Months."""
_IN_BRACKETS: Final = re.compile(r"[(\[]([^()\[\]]{1,60})[)\]]")


def objections_of(
    claim: str, said: Sequence[str], results: Sequence[str] = (), titles: Sequence[str] = ()
) -> tuple[Objection, ...]:
    """List the objections to a claim, given all of its evidence; empty if there are none.

    Args:
        claim: the statement, without its citations.
        said: its quotations.
        results: what queries and programs returned, with titles of their columns in the first line.
        titles: the titles of its sources, and the questions that the results answer.
    """
    figures = sum(len(_DIGITS.findall(text)) for text in said)
    is_short = sum(map(len, (*said, *results, *titles))) <= _MOST_COMPARED and figures <= _MOST_FIGURES
    tables = [table for result in results if is_short and (table := read_table(result, " ".join(titles)))]
    pairs = len(quantities(claim)) * sum((figures, *(len(table.cells) for table in tables)))
    if not is_short or pairs > _MOST_COMPARISONS:
        return (Objection("Its sources are too long to be compared with it.", is_certain=True),)
    sentences = list(dict.fromkeys(part[:_LONGEST_SENTENCE] for quote in said for part in sentences_of(quote)))
    if len(sentences) > _MOST_SENTENCES:
        stems, lowered = content(claim), {each: each.casefold() for each in sentences}
        nearest = nlargest(_MOST_SENTENCES, sentences, key=lambda each: sum(stem in lowered[each] for stem in stems))
        sentences = sorted(nearest, key=sentences.index)
    # Next to a number, "mai" is a month.
    cells = (re.sub(r"(?<! ) *[_|\n] *", " 1 ", result) for result in results)
    known = "\n".join((*said, *cells, *titles))
    named = "\n".join((*said, *titles, *(table.names for table in tables)))
    alike = [] if tables else _alike(claim, sentences)
    objections = [*_figures(claim, named, tables, _scale_of(titles), alike), *_names(claim, known)]
    months = months_of(claim)
    if months and months - months_of(known, spoken_in(claim)):
        others = {number for each in alike for number in months_of(each, spoken_in(claim))}
        is_certain = len(months) == len(others) == 1  # with several months, it may be one in between
        objections.append(Objection("It names a month that its source does not name.", is_certain=is_certain))
    if sentences and not tables:
        objections += [*sense_objections(claim, sentences, titles), *role_objections(claim, sentences)]
        objections += step_objections(claim, sentences)
    elif tables and not sentences:
        objections += [*table_objections(claim, tables), *comparison_objections(claim, tables)]
    return tuple(dict.fromkeys(objections))


def unknown_figures(values: Mapping[str, str], words: str, results: Sequence[str]) -> dict[str, str]:
    """List the figures found in neither words nor results: unchanged, rounded, as a share, or computed."""
    tables = [table for result in results if (table := read_table(result))]
    cells = (cell.quantity for table in tables for cell in table.cells)
    there = {value for each in (*quantities(without_months(words)), *cells) for value in each.values}
    there |= {rounded for value in there for rounded in roundings(value)}
    small = {Decimal(number) for number in range(_DOZEN if _OTHER_LETTER.search(words) else 2)}

    def is_known(figure: Quantity, value: str) -> bool:
        meant = {each for each in figure.values if isinstance(each, Decimal)}
        shares = {each * factor for each in meant for factor in (_PERCENT, 1 / _PERCENT)}
        is_there = figure.is_word or meant <= small or not there.isdisjoint(figure.values | shares)
        return is_there or any(is_computed_from(figure, value, table) for table in tables)

    unknown = {
        name: [each.written for each in quantities(without_months(value)) if not is_known(each, value)]
        for name, value in values.items()
    }
    return {name: ", ".join(figures) for name, figures in unknown.items() if figures}


def _scale_of(titles: Sequence[str]) -> str:
    """Return the unit that a title states for its table: `Visitors (in thousands)`; empty if none."""
    words = (word for title in titles for part in _IN_BRACKETS.findall(title) for word in _WORD.findall(part))
    return next((word for word in words if len(word) > 1 and factors_of(word)), "")


def _alike(claim: str, sentences: Sequence[str]) -> list[str]:
    """List the sentences with all words of a claim except its figures and months, and no further figures."""
    rest, figures = content(_DIGITS.sub(" ", without_month_names(claim))), len(quantities(claim))
    alike = [sentence for sentence in sentences if len(rest) > 1 and rest <= content(sentence)]
    return [sentence for sentence in alike if len(quantities(sentence)) == figures]


def _figures(
    claim: str, text: str, tables: Sequence[ResultTable], scale: str, alike: Sequence[str]
) -> Iterator[Objection]:
    there = list({(each.values, each.unit, each.size): each for each in quantities(without_months(text))}.values())
    cells = [cell.quantity for table in tables for cell in table.cells]
    ratios, figures = _ratios(claim, there), quantities(without_months(claim))
    for figure in (
        _completed(each, before, (*there, *cells)) for each, before in zip(figures, (None, *figures), strict=False)
    ):
        if figure.is_in(there) or figure.values <= {Decimal(1)} or figure.start in ratios:
            continue
        if figure.is_year and _is_counted(figure, there, text):
            continue
        places = [place for table in tables if (place := misplaced(figure, claim, table)) is not None]
        is_computed = any(is_computed_from(figure, claim, table) for table in tables)
        is_bound = bool(sides_of("amount", claim[max(figure.start - BOUND, 0) : figure.start], spoken_in(claim)))
        if places and all(places) and not (figure.is_word and is_computed):
            yield from (replace(each, is_certain=each.is_certain and not is_bound) for each in places[0])
        elif places or is_computed:
            if places and scale and figure.scale == 1 and not figure.is_year:
                yield Objection(f"Its source gives figures in {scale}.")
            if any(is_unclear(figure, table) for table in tables):
                yield Objection(f"{figure.written} may have a decimal mark or a thousands separator in its source.")
        elif other := next((each.written for each in (*there, *cells) if figure.is_other_size_of(each)), ""):
            yield Objection(f"Its source has {other}, not {figure.written}.", is_certain=not scale)
        elif not (_counts_other(figure, there) or is_derived(figure, there)):
            is_exact = not (scale or is_bound or phrase_in("nearly", claim) or any(map(figure.completes, there)))
            is_of_none = bool(tables) and all(is_alien(figure, claim, table) for table in tables)
            is_certain = is_exact and (is_of_none or bool(alike))
            yield Objection(f"Its source does not have {figure.written}.", is_certain=is_certain)


def _completed(figure: Quantity, before: Quantity | None, there: Sequence[Quantity]) -> Quantity:
    """Give a figure unit and scale of the one before it if its source has that: `30 MWh, of which 27 are lost`."""
    if before is None or figure.unit or figure.scale != 1 or figure.is_in(there):
        return figure
    whole = replace(figure, unit=before.unit, size=before.size, scale=before.scale, noun="")
    return whole if whole.is_in(there) else figure


def _ratios(claim: str, there: Sequence[Quantity]) -> frozenset[int]:
    """Find where a claim has two figures for one share of its source: `two in three`."""
    text, figures = without_months(claim), sorted(quantities(without_months(claim)), key=lambda each: each.start)
    parts = [(a, b) for a, b in pairwise(figures) if _OF.fullmatch(text, a.start + len(a.written), b.start)]
    shares = ((pair, is_derived(each, pair)) for pair in parts for each in there if each.unit == "percent")
    return frozenset(each.start for pair, is_known in shares if is_known for each in pair)


def _is_counted(year: Quantity, there: Sequence[Quantity], text: str) -> bool:
    """Whether a year is so many years before or after another one: `eleven years later`."""
    spans = {value for each in there if each.unit == "calendar" and each.size == _YEAR for value in each.values}
    spans |= {Decimal(1)} if PREVIOUS.search(text) else set()
    years = [int(each.written) for each in there if each.is_year]
    return any(abs(int(year.written) - other) in spans for other in years)


def _counts_other(figure: Quantity, there: Sequence[Quantity]) -> bool:
    """Whether a number word may count what no figure counts: no share, and not what one of them counts."""
    is_plain = figure.is_word and figure.scale == 1 and figure.unit != "percent"
    return is_plain and not any(map(figure.counts_as, there))


def _names(claim: str, known: str) -> Iterator[Objection]:
    """List names in a claim that its source lacks; not in German, in which every noun would be one."""
    language = language_of(claim) or language_of(known)
    if language in {None, "de"} or language != language_of(known):
        return
    initials = {word for word in _WORD.findall(known) if len(word) == 1}
    stems = {_POSSESSIVE.sub("", word).casefold()[:_STEM] for word in _WORD.findall(known)}
    for sentence in sentences_of(claim):
        words = [word for word in _WORD.findall(sentence) if len(word) > 1]  # the `s` of 's Nachts is no word
        for name in (_POSSESSIVE.sub("", word) for word in words[1:]):
            is_name = name.istitle() and len(name) >= LEAST_NAME and not months_of(f"on {name} 1")
            if is_name and name[0] not in initials and name.casefold()[:_STEM] not in stems:
                yield Objection(f"Its source does not name “{name}”.", is_certain=True)
