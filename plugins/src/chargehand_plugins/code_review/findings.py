"""Findings of reviewers: merged, checked against the second look and the diff, and told from dismissed ones. Pure."""

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, get_args

from chargehand.contracts import Issue, Severity
from chargehand_plugins.code_review.diff import ChangedFile

_NEAR_LINES: Final = 3
"""Two reviewers seldom name the same line of one problem."""
_ALIKE: Final = 0.3
"""The least share of common words of two messages about one problem, unless they name the same line."""
_WORD: Final = re.compile(r"\w{3,}")


@dataclass(frozen=True)
class Reported:
    """A finding, with the reviewers that have it."""

    issue: Issue
    reviewers: tuple[str, ...]
    fingerprint: str
    """The same as long as the line is, wherever it moves."""


@dataclass(frozen=True)
class Sifted:
    """What is reported, and what is not."""

    reported: tuple[Reported, ...]
    dismissed: tuple[Reported, ...]
    dropped: Mapping[str, int]
    """How many findings are left out, by the reason."""


def sift(
    found: Sequence[tuple[str, Issue]],
    confirmed: Sequence[Issue],
    files: Sequence[ChangedFile],
    dismissed: Collection[str],
    *,
    threshold: int,
    added_lines_only: bool,
) -> Sifted:
    """Decide which findings are reported.

    Args:
        found: by each reviewer.
        confirmed: those that the second look found to be right.
        files: of the change.
        dismissed: fingerprints of findings that people have dismissed.
        threshold: the least confidence of what is reported.
        added_lines_only: whether a finding has to be about an added line.
    """
    added = {file.path: file.added for file in files}
    dropped: dict[str, int] = {}
    kept: list[Reported] = []
    for reviewers, issue in _merged(found):
        near = (other for other in confirmed if _same_place(issue, other))
        checked = min(near, key=lambda other: (abs(other.line - issue.line), -other.confidence), default=None)
        if checked is None:
            reason = "not confirmed by the second look"
        elif issue.file not in added or (added_lines_only and not _touches(issue, added[issue.file])):
            reason = "not about a line that the change adds"
        elif min(issue.confidence, checked.confidence) < threshold:
            reason = f"less sure than {threshold}"
        else:
            sure = issue.model_copy(update={"confidence": min(issue.confidence, checked.confidence)})
            kept.append(Reported(sure, reviewers, fingerprint(sure, added[issue.file])))
            continue
        dropped[reason] = dropped.get(reason, 0) + 1
    kept.sort(key=lambda one: (get_args(Severity).index(one.issue.severity), one.issue.file, one.issue.line))
    return Sifted(
        tuple(one for one in kept if one.fingerprint not in dismissed),
        tuple(one for one in kept if one.fingerprint in dismissed),
        dropped,
    )


def fingerprint(issue: Issue, added: Mapping[int, str]) -> str:
    """Name a finding by its file and the words of its line, and by how many such lines come before it."""
    text = added.get(issue.line, "").strip()
    before = sum(1 for number, other in added.items() if number < issue.line and other.strip() == text)
    return hashlib.sha256(f"{issue.file}\0{text}\0{before}".encode()).hexdigest()[:32]


def _merged(found: Sequence[tuple[str, Issue]]) -> list[tuple[tuple[str, ...], Issue]]:
    """Merge findings of one problem: the surest stays, with the reviewers of all."""
    groups: list[list[tuple[str, Issue]]] = []
    for reviewer, issue in sorted(found, key=_order):
        group = next((group for group in groups if _same_problem(group[0][1], issue)), None)
        if group is None:
            groups.append([(reviewer, issue)])
        else:
            group.append((reviewer, issue))
    return [(tuple(dict.fromkeys(reviewer for reviewer, _ in group)), group[0][1]) for group in groups]


def _order(one: tuple[str, Issue]) -> tuple[int, str, int, str]:
    reviewer, issue = one
    return -issue.confidence, issue.file, issue.line, reviewer


def _same_place(one: Issue, other: Issue) -> bool:
    return one.file == other.file and abs(one.line - other.line) <= _NEAR_LINES


def _same_problem(one: Issue, other: Issue) -> bool:
    if not _same_place(one, other) or one.line == other.line:
        return _same_place(one, other)
    words, others = ({word.casefold() for word in _WORD.findall(each.message)} for each in (one, other))
    return len(words & others) >= _ALIKE * len(words | others)


def _touches(issue: Issue, added: Mapping[int, str]) -> bool:
    return issue.line in added
