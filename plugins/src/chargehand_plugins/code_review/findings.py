"""Findings of reviewers, checked individually against the second look and the diff, then merged. Pure."""

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile, takewhile
from typing import Final, get_args

from chargehand.contracts import Issue, Severity
from chargehand_plugins.code_review.contracts import CodeReviewRequest, FoundIssue
from chargehand_plugins.code_review.diff import ChangedFile

NOT_CONFIRMED: Final = "not confirmed by the second look"
_BEFORE_IDS: Final = re.compile(r"\d+|lines?|issues?|findings?", re.IGNORECASE)
"""Words that may precede an id; after others, such as `refuted`, an id confirms nothing."""
_NEAR_LINES: Final = 3
"""Maximum distance of lines that reviewers may name for the same problem."""
_ALIKE: Final = 0.3
"""Minimum share of words that two messages about the same problem have in common."""
_WORD: Final = re.compile(r"\w{3,}")
_ID: Final = re.compile(r"[\w–-]+(?:\.[\w–-]+)*")


@dataclass(frozen=True)
class Reported:
    """A problem with all findings that report it."""

    issue: Issue
    """The most confident finding, with the confidence of the second look."""
    findings: tuple[FoundIssue, ...]
    fingerprint: str
    """Stays the same while the line's text is unchanged, even if the line moves."""

    @property
    def reviewers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.agent for one in self.findings))

    @property
    def more(self) -> tuple[FoundIssue, ...]:
        """The findings that say something else: of each other reviewer, all but the one with most words in common."""
        first, *others = self.findings
        alike = {
            one.id: share
            for one in others
            if (one.agent != first.agent and one.issue.line == first.issue.line)
            and (share := _likeness(one.issue, first.issue)) >= _ALIKE
        }
        same = {one.agent: one.id for one in sorted(others, key=lambda one: alike.get(one.id, 0)) if one.id in alike}
        return tuple(one for one in others if one.id not in same.values())


@dataclass(frozen=True)
class Sifted:
    """The result for each finding: part of a reported or dismissed problem, or dropped."""

    reported: tuple[Reported, ...]
    dismissed: tuple[Reported, ...]
    dropped: Mapping[str, Counter[str]]
    """Number of dropped findings per reviewer, by reason."""
    unknown: tuple[Issue, ...] = ()
    """Entries of the second look that name no reviewer's finding."""


def sift(request: CodeReviewRequest, files: Sequence[ChangedFile], dismissed: Collection[str]) -> Sifted:
    """Decide which findings are reported, without those whose fingerprints people have dismissed.

    If the second look has duplicate entries, the less confident one counts.
    """
    added, threshold = {file.path: file.added for file in files}, request.threshold
    meant = [(look, _meant(look, request.found)) for look in request.confirmed]
    sure: dict[str, int] = {}
    for look, names in meant:
        sure |= {name: min(look.confidence, sure.get(name, look.confidence)) for name in names}
    dropped: dict[str, Counter[str]] = {}
    accepted: list[FoundIssue] = []
    for one in request.found:
        issue = one.issue
        if one.id not in sure:
            reason = NOT_CONFIRMED
        elif issue.file not in added or (request.added_lines_only and issue.line not in added[issue.file]):
            reason = "not about a line that the change adds"
        elif min(issue.confidence, sure[one.id]) < threshold:
            reason = f"less sure than {threshold}"
        else:
            surely = issue.model_copy(update={"confidence": min(issue.confidence, sure[one.id])})
            accepted.append(one.model_copy(update={"issue": surely}))
            continue
        dropped.setdefault(reason, Counter())[one.agent] += 1
    problems = [_report(group, added) for group in _merge(accepted)]
    problems.sort(key=lambda one: (get_args(Severity).index(one.issue.severity), one.issue.file, one.issue.line))
    return Sifted(
        tuple(one for one in problems if one.fingerprint not in dismissed),
        tuple(one for one in problems if one.fingerprint in dismissed),
        dropped,
        tuple(look for look, names in meant if not names),
    )


def fingerprint(issue: Issue, added: Mapping[int, str]) -> str:
    """Build a fingerprint from file, line text, and the number of equal lines before it."""
    text = added.get(issue.line, "").strip()
    before = sum(1 for number, other in added.items() if number < issue.line and other.strip() == text)
    return hashlib.sha256(f"{issue.file}\0{text}\0{before}".encode()).hexdigest()[:32]


def _meant(look: Issue, found: Sequence[FoundIssue]) -> list[str]:
    """Return the ids of the named findings, or else of the one on the same line with the most common words."""
    if named := _leading_ids(look.location, found) or _leading_ids(look.message, found):
        return named
    if {one.id for one in found}.intersection(_ID.findall(f"{look.location} {look.message}")):
        return []
    here = [one for one in found if (one.issue.file, one.issue.line) == (look.file, look.line)]
    if not look.message and len(here) == 1:
        return [here[0].id]
    likeness = {one.id: _likeness(one.issue, look) for one in here}
    return [name for name, share in likeness.items() if share >= _ALIKE and share == max(likeness.values())]


def _leading_ids(text: str, found: Sequence[FoundIssue]) -> list[str]:
    """Return the ids that a text begins with, after the place at most: of `T2.1 only, not T3.1`, the first."""
    ids = {one.id.casefold(): one.id for one in found}
    for file in sorted({one.issue.file for one in found}, key=len, reverse=True):
        text = text.replace(file, " ") if file else text
    tokens = dropwhile(_BEFORE_IDS.fullmatch, _ID.findall(text))
    return [ids[name] for name in takewhile({*ids, "and"}.__contains__, map(str.casefold, tokens)) if name in ids]


def _merge(found: Sequence[FoundIssue]) -> list[list[FoundIssue]]:
    groups: list[list[FoundIssue]] = []
    for one in sorted(found, key=lambda f: (-f.issue.confidence, f.issue.file, f.issue.line, f.agent, f.id)):
        group = next((group for group in groups if _is_of(group, one)), None)
        if group is None:
            groups.append(group := [])
        group.append(one)
    return groups


def _report(group: Sequence[FoundIssue], added: Mapping[str, Mapping[int, str]]) -> Reported:
    worst = min((one.issue.severity for one in group), key=get_args(Severity).index)
    issue = group[0].issue.model_copy(update={"severity": worst})
    return Reported(issue, tuple(group), fingerprint(issue, added[issue.file]))


def _is_of(group: Sequence[FoundIssue], one: FoundIssue) -> bool:
    """Whether a finding belongs to a problem: on its line, or nearby if its reviewer has none on that line."""
    first = group[0].issue
    if first.file != one.issue.file or abs(first.line - one.issue.line) > _NEAR_LINES:
        return False
    is_new = one.agent not in {other.agent for other in group}
    return first.line == one.issue.line or (is_new and _likeness(first, one.issue) >= _ALIKE)


def _likeness(one: Issue, other: Issue) -> float:
    words, others = ({word.casefold() for word in _WORD.findall(each.message)} for each in (one, other))
    return len(words & others) / max(len(words | others), 1)
