"""A question being read against a view: which of its words have been understood, and as what."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from activities.models.extractive.tables import Field, View, means_same
from activities.models.extractive.wording import Word, read_words, word_set

FILLERS: Final = word_set(
    """
    work works working live lives living based located stay stays earn earns raised filed submitted placed
    logged single individual calculate calculated compute computed table tables data row rows record records
    entry entries column columns figure figures value values overall breakdown broken break compare compared
    comparison occur occurred recorded record report reported show shown sort sorted rank ranked ranking order
    ordered give period time times carry carried sell sold cost costs pay paid spend spent receive received make
    made take took run ran earn earned generate generated buy bought lose lost last lasted use used need cause
    caused come came group grouped grouping result results number numbers amount experience experienced suffer
    suffered across among respectively altogether together whole entire sum exactly currently yet still ever
    total totals overview have has had respectively kind accounted account due attributable happen during csv
    xlsx sheet spreadsheet dataset register
    """
)
"""Words that neither help nor harm when nothing in the table answers to them."""


@dataclass(frozen=True)
class Condition:
    """A restriction of the rows that are counted."""

    sql: str
    said: str
    """In words, for the answer."""
    is_period: bool = False
    position: int = -1
    """Index of the word that it was read from."""
    field: str = ""
    """Name of the column that it restricts."""


@dataclass
class Reading:
    """A question and how far it has been understood."""

    text: str
    view: View
    used: set[int] = field(default_factory=set[int])
    values: set[int] = field(default_factory=set[int])
    """Words that stand for a known value."""
    weak: set[int] = field(default_factory=set[int])
    """Words that were taken for a column of like meaning: they speak neither for nor against the reading."""
    unplaced: list[str] = field(default_factory=list[str])
    """Times relative to today, which rules without a clock cannot place."""

    @cached_property
    def words(self) -> tuple[Word, ...]:
        return read_words(self.text)

    @cached_property
    def lower(self) -> tuple[str, ...]:
        return tuple(word.lower for word in self.words)

    def use(self, positions: Iterable[int]) -> None:
        """Note words as understood."""
        self.used.update(positions)

    def use_span(self, start: int, end: int) -> None:
        """Note all words between two characters as understood."""
        self.used.update(i for i, word in enumerate(self.words) if word.start < end and start < word.end)

    def is_free(self, position: int) -> bool:
        return 0 <= position < len(self.words) and position not in self.used

    def find(self, *phrases: str) -> int | None:
        """Find the first of some phrases among the words that are not used; use it."""
        for phrase in phrases:
            parts = phrase.split()
            for start in range(len(self.words) - len(parts) + 1):
                span = range(start, start + len(parts))
                if all(self.is_free(i) and self.lower[i] == part for i, part in zip(span, parts, strict=True)):
                    self.use(span)
                    return start
        return None

    def field_at(self, position: int, accept: Callable[[Field], bool]) -> tuple[Field, tuple[int, ...]] | None:
        """Find the column that the words from a position on name best."""
        best: tuple[tuple[float, float, int], Field, tuple[int, ...]] | None = None
        for rank, candidate in enumerate(self.view.fields):
            if not accept(candidate):
                continue
            run: list[int] = []
            while self.is_free(position + len(run)) and self.words[position + len(run)].stem in candidate.tokens:
                run.append(position + len(run))
            if not run and self.is_free(position) and candidate.likeness(self.words[position].stem) > 0:
                run = [position]
            if run:
                said = frozenset(self.words[i].stem for i in run)
                exact = sum(1 for word in said if word in candidate.tokens)
                key = (float(exact), candidate.score(said), -rank)
                if best is None or key > best[0]:
                    best = key, candidate, tuple(run)
        return (best[1], best[2]) if best else None

    def is_subject(self, position: int) -> bool:
        """Whether a word names what the table is about."""
        if not 0 <= position < len(self.words):
            return False
        word = self.words[position].stem
        return word in self.view.subject or means_same(word, self.view.subject)

    @property
    def content(self) -> tuple[int, ...]:
        """Words that the query has to account for."""
        return tuple(
            i for i, word in enumerate(self.words) if i in self.used or (word.is_content and word.lower not in FILLERS)
        )

    @property
    def left_over(self) -> tuple[int, ...]:
        """Words that nothing answers to."""
        return tuple(i for i in self.content if i not in self.used and not self.is_subject(i))

    @property
    def explained(self) -> float:
        """Share of the words that were understood, 0 to 1."""
        content = [i for i in self.content if self.words[i].is_content and i not in self.weak]
        missed = len(self.left_over)
        if not content:
            return 0.7 if self.weak else 0.0
        return 1 - missed / len(content)
