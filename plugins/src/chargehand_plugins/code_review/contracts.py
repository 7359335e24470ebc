"""Request and result of the review of a change. Pure values; imported by workflows and activities."""

from typing import Literal

from chargehand.contracts import Artifact, Contract, Issue

SecondLook = Literal["whole", "part", "none"]
"""Whether the second look was completed, and covered all findings."""


class FoundIssue(Contract):
    id: str
    """Its id in the second look: `T2.1` is the first of subtask T2."""
    agent: str
    issue: Issue


class CodeReviewRequest(Contract):
    """A request to check findings against the change that they concern, and to write the review."""

    documents: tuple[str, ...]
    found: tuple[FoundIssue, ...]
    confirmed: tuple[Issue, ...]
    """Findings confirmed by the second look."""
    second_look: SecondLook
    threshold: int
    added_lines_only: bool


class CodeReview(Contract):
    answer: str
    """Markdown."""
    issues: tuple[Issue, ...] = ()
    """Reported issues."""
    gaps: tuple[str, ...] = ()
    """Findings that were not checked."""
    artifacts: tuple[Artifact, ...] = ()
