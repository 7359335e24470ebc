"""The few sentences of found passages that answer a question best, copied out word for word."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from activities.models.extractive.cues import Cue, labels
from activities.models.extractive.sentences import ITEM, MARKUP, ROWS_OF, sentences
from activities.models.extractive.terms import Terms, stands, weigh
from activities.models.extractive.wording import Word, read_words, stems
from chargehand.contracts import Source

LONGEST_WINDOW: Final = 600
_SHORTEST: Final = 25
_ENOUGH_WORDS: Final = 3
"""Fewer words of a question may be found together by chance."""
_MOST_SENTENCES: Final = 3
_REPEATED_ABOVE: Final = 0.55
_LISTING: Final = re.compile(r"^(?:```|    |>>> |\$ |\.\. )|::=|^\s*\w+ = \w+\(")
_POINTS_BACK: Final = re.compile(
    r"^\W*(?:it|this|these|that|they|those|he|she|such|then|there|here|otherwise|however|but|instead|therefore|thus|both"
    r"|in (?:this|that|which) (?:case|mode|way))\b",
    re.IGNORECASE,
)
_ENDS: Final = re.compile(r"[.!?:;…|][\"'”’)\]*_`]*$")
_YEAR: Final = re.compile(r"(?<!\d)(19[89]\d|20\d\d)(?:-(\d\d))?(?!\d)")


@dataclass(frozen=True)
class Passage:
    """A found passage with what is known about how well it fits."""

    source: Source
    text: str
    """Its words: all of the source's quotation, or the part of it between two ellipses."""
    coverage: float
    """Share, 0 to 1, of the question's words that stand in it, as the search says."""
    rank: int = 0
    """Its place among what was found, 0 being the best."""

    @property
    def document(self) -> str:
        return self.source.ref.split("#", 1)[0]

    @cached_property
    def is_rows(self) -> bool:
        return ROWS_OF.search(self.document) is not None

    @cached_property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """Where its sentences are, or its rows."""
        found = sentences(self.text, is_rows=self.is_rows)
        return tuple((start, end) for start, end in found if not MARKUP.match(self.text[start:end]))

    @cached_property
    def words(self) -> tuple[tuple[Word, ...], ...]:
        """The words of each of its sentences."""
        return tuple(read_words(self.text[start:end]) for start, end in self.spans)

    @cached_property
    def headings(self) -> frozenset[str]:
        """Stems of the titles above it and of its document's name."""
        return frozenset(stems(f"{self.source.title} {self.document}"))

    @cached_property
    def names(self) -> frozenset[str]:
        """Stems of its document's name."""
        return frozenset(stems(self.document))

    @cached_property
    def dated(self) -> str:
        """The newest year, and month, in its document's name and titles; empty if there is none."""
        dates = _YEAR.findall(f"{self.document} {self.source.title}")
        return max((f"{year}-{month or '00'}" for year, month in dates), default="")

    def heading_of(self, start: int) -> str:
        """Find the line that a definition list has above an indented text: the thing that is defined."""
        line_start = self.text.rfind("\n", 0, start) + 1
        indent = _indent(self.text[line_start:])
        if not indent:
            return ""
        for line in reversed(self.text[:line_start].splitlines()):
            if line.strip() and _indent(line) < indent:
                return line.strip() if len(line) <= _LONGEST_TERM else ""
        return ""


_LONGEST_TERM: Final = 120


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))


@dataclass(frozen=True)
class Window:
    """A few sentences of a passage."""

    passage: Passage
    quote: str
    """Copied from the source, white space and all."""
    first: int
    last: int
    """Numbers of its sentences."""
    coverage: float
    """Share, 0 to 1, of the question's words that stand in it or in its headings."""
    inside: float
    """The same without the headings."""
    close: float
    """The same with the nearest heading only."""
    score: float
    is_fitting: bool = True
    """Whether it has what the question asks for: a number, a time, a person."""
    lost_names: int = 0
    """How many names of the question stand neither in it nor in its headings."""
    found: int = _ENOUGH_WORDS
    """How many words of the question stand in it or in its headings."""

    @property
    def source(self) -> Source:
        return self.passage.source

    @property
    def passage_coverage(self) -> float:
        return self.passage.coverage

    @property
    def support(self) -> float:
        """How surely it answers, 0 to 1: what the passage, its titles and its own words cover of the question."""
        covered = 0.5 * self.passage.coverage + 0.25 * (self.coverage + self.inside)
        doubt = (0.0 if self.is_fitting else 0.35) + 0.15 * min(self.lost_names, 2)
        return covered - doubt - 0.05 * max(0, _ENOUGH_WORDS - self.found)

    @cached_property
    def stems(self) -> frozenset[str]:
        return frozenset(stems(self.quote))


class _Asked:
    """A question with all that its windows are measured by."""

    def __init__(self, question: str, passages: Sequence[Passage], cues: tuple[Cue, ...], named: str) -> None:
        self.named = named
        self.terms = terms_of(question, passages)
        self.cues = cues
        self.labels: Callable[[str], bool] = labels(question)
        dates = sorted({passage.dated for passage in passages if passage.dated})
        self.newness: Mapping[str, float] = {date: (place + 1) / len(dates) for place, date in enumerate(dates)}

    def is_fitting(self, text: str, words: Sequence[Word]) -> bool:
        """Whether a sentence has what is asked for, beside a word of the question."""
        needed = [cue for cue in self.cues if cue.is_needed]
        said = frozenset(word.stem for word in words)
        return not needed or (
            all(cue.given.search(text) for cue in needed) and any(stands(word, said) for word in self.terms.weights)
        )


def terms_of(question: str, passages: Sequence[Passage]) -> Terms:
    """Weigh a question's words by how few of the passages have them."""
    return weigh(question, [f"{one.source.title} {one.document} {one.text}" for one in passages])


def best_windows(
    question: str, passages: Sequence[Passage], most: int, cues: tuple[Cue, ...] = (), named: str = ""
) -> tuple[Window, ...]:
    """Choose the windows that answer best and do not repeat each other (maximal marginal relevance).

    `cues` are the kinds of answer that are asked for; `named` is the document that the question names, if it names one.
    """
    asked = _Asked(question, passages, cues, named)
    windows: list[Window] = [window for passage in passages for window in _windows(asked, passage)]
    chosen: list[Window] = []
    while windows and len(chosen) < most:
        likeliest = max(windows, key=lambda window: window.score - 0.5 * _likeness(window, chosen))
        best = _completed(asked, likeliest, chosen)
        windows = [
            window for window in windows if not _overlap(window, best) and _likeness(window, [best]) < _REPEATED_ABOVE
        ]
        chosen.append(best)
    return tuple(chosen)


def _windows(asked: _Asked, passage: Passage) -> list[Window]:
    found: list[Window] = []
    longest = 1 if passage.is_rows else _MOST_SENTENCES
    for first in range(len(passage.spans)):
        for last in range(first, min(first + longest, len(passage.spans))):
            text = _text(passage, first, last)
            if (len(text) < _SHORTEST and not asked.labels(text)) or (len(text) > LONGEST_WINDOW and last > first):
                continue
            found.append(_window(asked, passage, text, first, last))
    if not found and len(passage.text.strip()) >= 3:
        found.append(_window(asked, passage, passage.text.strip(), 0, max(0, len(passage.spans) - 1)))
    return found


def _text(passage: Passage, first: int, last: int) -> str:
    return passage.text[passage.spans[first][0] : _end(passage, last)].strip()


def _window(asked: _Asked, passage: Passage, text: str, first: int, last: int) -> Window:
    is_listed = not passage.spans or passage.spans[last][1] != _end(passage, last)
    words = read_words(text) if is_listed else [word for some in passage.words[first : last + 1] for word in some]
    # `own` is not what `who owns` asks for: what says nothing in a question says nothing in a text.
    own = frozenset(word.stem for word in words if word.is_content)
    start = passage.spans[first][0] if first < len(passage.spans) else 0
    above = frozenset(stems(f"{passage.source.title.rsplit(' > ', 1)[-1]} {passage.heading_of(start)}"))
    terms = asked.terms
    known = own | passage.headings | above
    coverage = terms.share(known)
    is_fitting = (
        asked.is_fitting(text, words)
        if is_listed
        else any(_fits(asked, passage, number) for number in range(first, last + 1))
    )
    # Words of the document's name lead to the document; in it they tell nothing.
    score = 0.55 * terms.share(own, light=passage.names) + 0.25 * coverage + 0.35 * passage.coverage
    score += 0.1 * sum(1 for cue in asked.cues if cue.given.search(text))
    is_labelled = asked.labels(text)
    score += 0.2 if is_labelled else 0.0
    score += 0.06 * max(0.0, 1 - passage.rank / 6) + 0.04 * asked.newness.get(passage.dated, 0.0)
    score += 0.15 if passage.document == asked.named else 0.0
    score -= 0.05 * (last - first) + len(text) / 6_000
    lost_names = len(terms.missing_names(known))
    score -= 0.2 if _LISTING.search(text) or text.endswith("?") else 0.0
    score -= 0.1 if len(text) < 2 * _SHORTEST and not is_labelled else 0.0
    inside, close = terms.share(own), terms.share(own | above)
    found = sum(stands(word, known) for word in terms.weights)
    return Window(passage, text, first, last, coverage, inside, close, score, is_fitting, lost_names, found)


def _fits(asked: _Asked, passage: Passage, number: int) -> bool:
    return asked.is_fitting(passage.text[slice(*passage.spans[number])], passage.words[number])


def _end(passage: Passage, last: int) -> int:
    """Keep a list with the sentence that announces it."""
    start, end = passage.spans[last]
    if not passage.text[start:end].rstrip().endswith(":"):
        return end
    for item_start, item_end in passage.spans[last + 1 :]:
        if not ITEM.match(passage.text[item_start:item_end]) or item_end - start > LONGEST_WINDOW:
            break
        end = item_end
    return end


def _completed(asked: _Asked, window: Window, chosen: Sequence[Window]) -> Window:
    """Add the sentence before or after where only both together say something."""
    passage, first, last = window.passage, window.first, window.last
    if passage.is_rows or not passage.spans:
        return window

    def sentence(number: int) -> str:
        return passage.text[slice(*passage.spans[number])] if 0 <= number < len(passage.spans) else ""

    wider: list[tuple[int, int]] = []
    following = sentence(last + 1)
    if following and (
        not _ENDS.search(window.quote)
        or _POINTS_BACK.match(following)
        or (not window.is_fitting and _fits(asked, passage, last + 1))
    ):
        wider.append((first, last + 1))
    if _POINTS_BACK.match(sentence(first)) and sentence(first - 1):
        wider.append((first - 1, last))
    for start, end in wider:
        text = _text(passage, start, end)
        if end - start >= _MOST_SENTENCES or len(text) > LONGEST_WINDOW or _LISTING.search(text):
            continue
        whole = _window(asked, passage, text, start, end)
        if not any(_overlap(whole, other) for other in chosen):
            return whole
    return window


def _overlap(left: Window, right: Window) -> bool:
    return left.passage is right.passage and left.first <= right.last and right.first <= left.last


def _likeness(window: Window, others: Sequence[Window]) -> float:
    shares = (len(window.stems & other.stems) / (len(window.stems | other.stems) or 1) for other in others)
    return max(shares, default=0.0)


def missing_words(question: str, windows: Sequence[Window]) -> tuple[str, ...]:
    """List the words of a question that stand in none of the windows."""
    said = frozenset[str]().union(*(window.passage.headings for window in windows))
    said = said.union(*(stems(window.source.quote) for window in windows))
    return tuple(
        dict.fromkeys(word.text for word in read_words(question) if word.is_content and not stands(word.stem, said))
    )
