"""The request and the result of the review of a change. Pure values; imported by workflows and activities."""

from chargehand.contracts import Artifact, Contract, Issue


class FoundIssue(Contract):
    """A finding of a reviewer."""

    agent: str
    issue: Issue


class CodeReviewRequest(Contract):
    """Check findings against the change that they are about, and write the review."""

    documents: tuple[str, ...]
    found: tuple[FoundIssue, ...]
    confirmed: tuple[Issue, ...]
    """What the second look found to be right."""
    was_checked: bool
    """Whether the second look took place."""
    threshold: int
    added_lines_only: bool


class CodeReview(Contract):
    """A review."""

    answer: str
    """Markdown."""
    issues: tuple[Issue, ...] = ()
    """Those that are reported."""
    artifacts: tuple[Artifact, ...] = ()
