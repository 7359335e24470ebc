"""Print a review's findings as annotations of GitHub Actions; end with 1 if the build is to fail.

python gate.py report.json
"""

import sys
from pathlib import Path

from chargehand.contracts import Issue, Report

FAILS = {"critical", "major"}


def annotation(finding: Issue) -> str:
    """Write a finding as GitHub's command; its text cannot begin another one."""
    level = "error" if finding.severity in FAILS else "warning"
    text = _escape(f"{finding.message} {finding.suggestion}".strip())
    where = _escape(finding.file).replace(",", "%2C").replace(":", "%3A")
    return f"::{level} file={where},line={finding.line}::{text}"


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def judge(report: Report) -> tuple[list[str], bool]:
    """List what to print, and say whether the build passes; an unfinished review does not."""
    lines = [annotation(each) for each in report.issues]
    lines += [f"::error::Not reviewed: {_escape(gap)}" for gap in report.gaps]
    is_whole = report.stop_reason == "completed" and not report.gaps
    return lines, is_whole and not any(each.severity in FAILS for each in report.issues)


if __name__ == "__main__":
    printed, passes = judge(Report.model_validate_json(Path(sys.argv[1]).read_bytes()))
    print(*printed, sep="\n")
    sys.exit(0 if passes else 1)
