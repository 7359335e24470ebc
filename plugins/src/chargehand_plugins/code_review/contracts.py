"""The request and the result of the review of a change. Pure values; imported by workflows and activities."""

from typing import Literal

from chargehand.contracts import Artifact, Contract, Issue


class FoundIssue(Contract):
    id: str
    """By which the second look names it: `T2.1` is the first of subtask T2."""
    agent: str
    issue: Issue


class CodeReviewRequest(Contract):
    """Check findings against the change that they are about, and write the review."""

    documents: tuple[str, ...]
    found: tuple[FoundIssue, ...]
    confirmed: tuple[Issue, ...]
    """What the second look found to be right."""
    second_look: Literal["whole", "part", "none"]
    """Whether the second look took place, and came to its end."""
    threshold: int
    added_lines_only: bool


class CodeReview(Contract):
    answer: str
    """Markdown."""
    issues: tuple[Issue, ...] = ()
    """Those that are reported."""
    gaps: tuple[str, ...] = ()
    """Findings that were not checked."""
    artifacts: tuple[Artifact, ...] = ()
