"""Disagreements of subtasks: two statements about the same thing that differ in a figure, a date or a name. Pure.

This does not decide which one is right, or whether both can be: a judge does.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Final

from activities.contracts.rounds import InputOutcome
from activities.turn_kinds.protocol import ContradictionDraft
from chargehand_plugins.claim_checks.quantities import Quantity, in_figures, quantities
from chargehand_plugins.claim_checks.words import is_negated, months_of, sentences_of, sides_of, without_month_names
from workflows.rules.claim_words import TOKEN, content, language_of, languages, shared, spoken_in
from workflows.rules.graph import USABLE

_CITATION: Final = re.compile(r"\[[^][]*\]")
_NUMERIC_DATE: Final = re.compile(r"\b(\d{4})-(\d\d)(?:-(\d\d))?\b")
_FIGURE_OR_TOKEN: Final = re.compile(r"\d+(?:[.,]\d+)+|[^\W_]+", re.UNICODE)
_BLANKS: Final = re.compile(r"…(?:\W*…)+")
_SAME_SUBJECT: Final = 0.7
"""Minimum share of the shorter statement's words in the other for both to be about the same thing."""
_LEAST_SHARED: Final = 2
_NOUN: Final = 4
"""Number of letters by which the nouns after two figures are compared."""
_LABEL: Final = 4
"""Maximum digits of a number that is part of a name."""
_MOST_STATEMENTS: Final = 200
"""Maximum statements that are compared, shared equally among the subtasks."""
_MOST_DISAGREEMENTS: Final = 10
_MOST_DIFFERING: Final = 10
"""Maximum differences described per statement: 200 that all differ would delay the workflow task."""
_CHARACTERS: Final = 300
"""Maximum characters of a statement."""


@dataclass(frozen=True)
class _Statement:
    text: str
    is_negated: bool
    is_rule: bool
    """Whether it says what must or may be, which does not contradict statements about what is."""
    words: frozenset[str]
    """Its stems, without figures and months."""
    names: frozenset[str]
    """Stems of capitalised words, and numbers that are part of a name: `Chapter 3`."""
    has_nouns_in_capitals: bool
    first: str
    dates: tuple[frozenset[str], ...]
    """Its years, months and days."""
    amounts: tuple[Quantity, ...]


def disagreements(outcomes: Iterable[InputOutcome]) -> list[ContradictionDraft]:
    """List the differences between subtasks on the same thing, each position with its subtask's id."""
    usable = [entry for entry in outcomes if entry.outcome.kind in USABLE]
    most = _MOST_STATEMENTS // max(len(usable), 1)
    differences = _differences(tuple((entry.id, text) for entry in usable for text in _texts(entry)[:most]))
    return [ContradictionDraft(about=about, positions=list(each), resolution="") for about, each in differences.items()]


@lru_cache(maxsize=16)
def _differences(texts: tuple[tuple[str, str], ...]) -> Mapping[str, Collection[str]]:
    """Return the positions on each subject, cached because a workflow asks repeatedly about the same texts."""
    statements = [(name, _statement(text)) for name, text in texts]
    by_subject: dict[str, dict[str, None]] = {}
    for number, (one_id, one) in enumerate(statements, 1):
        differing = (each for each in statements[number:] if each[0] != one_id and _differ(one, each[1]))
        for other_id, other in islice(differing, _MOST_DIFFERING):
            positions = by_subject.setdefault(_subject(one.text, other.text), {})
            positions |= dict.fromkeys((f"{one_id}: {one.text}", f"{other_id}: {other.text}"))
    return dict(islice(by_subject.items(), _MOST_DISAGREEMENTS))


def _differ(one: _Statement, other: _Statement) -> bool:
    """Whether two statements are about the same thing and differ in exactly one of figures, dates and names.

    Two differences are no contradiction: a figure of another year or company can be different.
    """
    if one.is_negated != other.is_negated or one.is_rule != other.is_rule:
        return False
    names, others = one.names - other.words, other.names - one.words
    rest, other_rest = one.words - names, other.words - others
    if len(rest & other_rest) < _LEAST_SHARED or shared(rest, other_rest) < _SAME_SUBJECT:
        return False
    has_other_name = bool(names and others)
    has_other_date = any(a and b and not a & b for a, b in zip(one.dates, other.dates, strict=True))
    if has_other_name and has_other_date:
        return False
    if has_other_name + has_other_date + _has_other_amount(one.amounts, other.amounts) != 1:
        return False
    return not has_other_name or (rest == other_rest and _is_about_names(one, names) and _is_about_names(other, others))


def _is_about_names(statement: _Statement, names: frozenset[str]) -> bool:
    """Whether names, all in one place, are what a statement asserts and not its subject."""
    places = "".join("x" if _stem(token) in names else " " for token in TOKEN.findall(statement.text)).split()
    is_plain = len(places) == 1 and all(map(str.isalpha, names))
    return is_plain and not statement.has_nouns_in_capitals and statement.first not in names


def _has_other_amount(mine: Sequence[Quantity], theirs: Sequence[Quantity]) -> bool:
    return any(
        not (any(map(one.is_one_with, theirs)) or any(map(other.is_one_with, mine)))
        for one in mine
        for other in theirs
        if one.unit == other.unit and one.noun[:_NOUN] == other.noun[:_NOUN]
    )


def _texts(entry: InputOutcome) -> list[str]:
    """List the statements of a subtask: its findings, or else the sentences of its answer."""
    findings = [finding.claim for finding in entry.outcome.findings]
    texts = findings or sentences_of(entry.outcome.content)
    plain = (" ".join(_CITATION.sub("", text).split()) for text in texts)
    return [text for text in dict.fromkeys(plain) if 0 < len(text) <= _CHARACTERS]


@lru_cache(maxsize=1024)
def _statement(text: str) -> _Statement:
    codes = spoken_in(text)
    dates = [[*match] for match in _NUMERIC_DATE.findall(text)]
    undated = _NUMERIC_DATE.sub(" ", text)
    plain, months = without_month_names(undated), {str(number) for number in months_of(text)}
    common = frozenset(word for code in codes for word in languages()[code].common)
    tokens = TOKEN.findall(plain)
    content_text = " ".join(token for token in tokens if token.casefold() not in common)
    years, labels, amounts = _figures(in_figures(undated), tokens, common)
    counted = {_stem(each.written) for each in amounts if each.is_word}
    words = frozenset(word for word in content(content_text) if not word[0].isdigit()) - counted
    codes_and_names = (token for token in tokens if token[0].isupper() or not (token.isalpha() or token.isdigit()))
    names = {*map(_stem, codes_and_names)} & words
    return _Statement(
        text=text,
        is_negated=is_negated(text),
        is_rule=bool(sides_of("modality", text)),
        words=words,
        names=frozenset(names | labels),
        has_nouns_in_capitals=language_of(text) == "de",
        first=_stem(tokens[0]) if tokens else "",
        dates=(
            frozenset({date[0] for date in dates} | years),
            frozenset(months),
            frozenset({date[2] for date in dates} - {""}),
        ),
        amounts=tuple(amounts),
    )


def _figures(text: str, tokens: Sequence[str], common: Collection[str]) -> tuple[set[str], set[str], list[Quantity]]:
    """Separate years, numbers that are part of a name, and amounts."""
    years, labels, amounts = set[str](), set[str](), list[Quantity]()
    for each in quantities(text):
        before = text[: each.start].split(" ")[-2:]
        after = text[each.start + len(each.written) :].lstrip()
        noun = "" if each.noun in common or after[:1].isupper() else each.noun
        is_bare = not each.unit and not noun
        # A word before a figure makes the figure part of a name; months are not among these words.
        is_title = before[0].istitle() and before[0] in tokens and before[0].casefold() not in common
        if is_bare and each.is_year:
            years.add(each.written)
        elif not each.unit and before[-1] == "" and is_title and len(each.written) <= _LABEL:
            labels.add(f"{_stem(before[0])} {each.written}")
        elif not text[: each.start][-1:].isalpha() and not (is_bare and each.is_word):
            amounts.append(replace(each, noun=noun))
    return years, labels, amounts


def _stem(token: str) -> str:
    return token.casefold()[:5]


def _subject(one: str, other: str) -> str:
    """Describe the subject of two statements: the first one, with blanks for words that the other lacks."""
    known = {token.casefold() for token in _FIGURE_OR_TOKEN.findall(other)}
    blanked = _FIGURE_OR_TOKEN.sub(lambda token: token[0] if token[0].casefold() in known else "…", one)
    return _BLANKS.sub("…", blanked)
