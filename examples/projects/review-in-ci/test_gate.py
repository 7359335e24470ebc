"""What fails a build, and what the annotations may say."""

import pytest
from gate import annotation, judge

from chargehand.contracts import Issue, Severity
from chargehand_plugins.testing import report_of


def _finding(severity: Severity, message: str = "The name is put into the SQL text.") -> Issue:
    return Issue(severity=severity, location="a.py:18", file="a.py", line=18, message=message, confidence=90)


@pytest.mark.parametrize(("severity", "passes"), [("critical", False), ("major", False), ("minor", True)])
def test_serious_findings_fail_the_build(severity: Severity, *, passes: bool) -> None:
    """Each is annotated at its line."""
    lines, result = judge(report_of("Reviewed.").model_copy(update={"issues": (_finding(severity),)}))

    assert result is passes
    assert "file=a.py,line=18::The name is put" in lines[0]


def test_an_unfinished_review_fails_the_build() -> None:
    """A session that a limit stopped, or that left something unread, is not a clean review."""
    reviewed = report_of("Reviewed.")

    assert judge(reviewed) == ([], True)
    assert judge(reviewed.model_copy(update={"stop_reason": "deadline"}))[1] is False
    assert judge(reviewed.model_copy(update={"gaps": ("the checker ended early",)})) == (
        ["::error::Not reviewed: the checker ended early"],
        False,
    )


def test_the_text_of_a_finding_is_no_command() -> None:
    """The code may contain copied text."""
    assert "\n" not in annotation(_finding("major", "Bad.\n::set-env name=PATH::/tmp"))
