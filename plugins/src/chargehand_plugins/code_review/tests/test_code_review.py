"""The crew `code-review` on a scripted model: reviewers, a second look, and a review that can be checked."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from dulwich import porcelain
from pydantic import JsonValue

from chargehand.contracts import Report, SessionRequest
from chargehand.shared_files import download_artifacts
from chargehand_plugins.testing import Reply, Script, ScriptedRun, answer, issue, run_session, use

BEFORE = "def load(text):\n    return int(text)\n\n\ndef total(rows):\n    return sum(rows)\n"
AFTER = BEFORE.replace("int(text)", "eval(text)") + "\n\ndef last(rows):\n    return rows[-1]\n"
CREW = Path(__file__).parents[1] / "crews" / "code-review.toml"
SAID = {
    "security": (2, "The text of a stranger is evaluated as a program."),
    "logic": (2, "A text is evaluated as a program, not read as a number."),
    "style": (10, "The name last is short."),
    "performance": (6, "The sum is computed anew."),
}


@pytest.fixture(autouse=True)
def _documents_are_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def found(*said: tuple[int, str], below: int = 0) -> Reply:
    """Report problems in lines of the file, each shifted down by `below` lines."""
    at = partial(issue, severity="critical", file="load.py", suggestion="Use int().", confidence=95)
    return answer("", issues=tuple(at(text, line=line + below) for line, text in said))


def reviews(below: int = 0) -> Script:
    """Have four reviewers read the change and report problems, and the second look confirm those of two."""
    script = Script().work("", answer("Nothing.", confidence=95))
    read = [use("read_diff", file=file, first=0) for file in ("", "load.py")]
    for agent, said in SAID.items():
        script = script.work("", *read, found(said, below=below), agent=agent)
    return script.work("", found(SAID["security"], SAID["logic"], below=below), agent="checker")


def repository(folder: Path, after: str = AFTER) -> Path:
    """Make a repository of two commits whose configuration and hooks leave a trace if anything uses them."""
    folder.mkdir()
    repo = porcelain.init(str(folder))
    for text, message in ((BEFORE, b"Read numbers with int, since eval runs programs"), (after, b"Accept terms, too")):
        (folder / "load.py").write_text(text, encoding="utf-8")
        porcelain.add(repo, [str(folder / "load.py")])
        porcelain.commit(repo, message, author=b"A <a@example.org>", committer=b"A <a@example.org>", sign=False)
    repo.close()
    trap = f"#!/bin/sh\ntouch {folder}/trapped\n"
    (folder / ".git/hooks").mkdir(exist_ok=True)
    for hook in ("post-checkout", "fsmonitor"):
        (folder / ".git/hooks" / hook).write_text(trap)
        (folder / ".git/hooks" / hook).chmod(0o755)
    (folder / ".git/config").write_text(f"[core]\n\tfsmonitor = {folder}/.git/hooks/fsmonitor\n")
    return folder


async def reviewed(
    script: Script, *documents: Path, crews: Path | None = None, criteria: tuple[str, ...] = ()
) -> ScriptedRun:
    uris = tuple(f"file:{path}" for path in documents)
    request = SessionRequest(goal="Review this change.", crew="code-review", documents=uris, criteria=criteria)
    return await run_session(request, script, crews=crews, state=Path.cwd())


def sarif(report: Report, folder: Path) -> dict[str, Any]:
    """Fetch the SARIF document of a report."""
    for each in download_artifacts(report.artifacts, str(Path.cwd() / "state" / "artifacts"), folder, replace=True):
        assert not each.problem
    log: dict[str, Any] = json.loads((folder / "review.sarif").read_text(encoding="utf-8"))
    return log


async def test_a_repository_is_reviewed_without_running_its_code(tmp_path: Path) -> None:
    """Duplicate findings appear once, with file and line; refuted ones do not; no turn is spent on planning."""
    repo = repository(tmp_path / "repo")

    run = await reviewed(reviews(), repo)

    report = run.report
    assert [(issue.file, issue.line, issue.severity, issue.confidence) for issue in report.issues] == [
        ("load.py", 2, "critical", 95)
    ]
    assert "`load.py:2`" in report.answer
    assert (report.claims, report.verification) == ((), None)  # there is nothing to judge
    assert "logic, security" in report.answer
    assert "2 not confirmed by the second look (performance 1, style 1)" in report.answer
    assert {line.purpose for line in report.spend} == {"work", "tools"}
    assert any("+      2     return eval(text)" in turn.prompt for turn in run.turns if turn.agent == "logic")
    assert not (repo / "trapped").exists()
    [result] = sarif(report, tmp_path / "out")["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 2


async def test_a_dismissed_finding_is_not_reported_again(tmp_path: Path) -> None:
    """A SARIF suppression applies to the next review, also after the line has moved, and is carried over."""
    first = await reviewed(reviews(), repository(tmp_path / "repo"))
    log = sarif(first.report, tmp_path / "out")
    log["runs"][0]["results"][0]["suppressions"] = [{"kind": "external", "justification": "It is our own text."}]
    (tmp_path / "dismissed.sarif").write_text(json.dumps(log))
    moved = repository(tmp_path / "moved", f"import sys\n\n\n{AFTER}")

    report = (await reviewed(reviews(3), moved, tmp_path / "dismissed.sarif")).report

    assert report.issues == ()
    assert "Nothing found." in report.answer
    assert "2 dismissed before (logic 1, security 1)" in report.answer
    [handed_on] = sarif(report, tmp_path / "again")["runs"][0]["results"]
    assert handed_on["suppressions"] == [{"kind": "external", "status": "accepted"}]


async def test_a_review_without_findings_succeeds(tmp_path: Path) -> None:
    """A clean 2 MB diff is read as a document; the answer says what was reviewed and that nothing was found."""
    lines = "".join(f"+value_{number} = {number}  # {'x' * 60}\n" for number in range(23_000))
    (tmp_path / "big.patch").write_text(f"--- a/big.py\n+++ b/big.py\n@@ -0,0 +1,23000 @@\n{lines}")

    report = (await reviewed(Script(), tmp_path / "big.patch")).report

    assert report.answer.startswith("Reviewed: 1 changed file, 23000 added lines.\n\nNothing found.")
    assert (report.stop_reason, report.gaps) == ("completed", ())


async def test_the_crew_sets_the_confidence_threshold(tmp_path: Path) -> None:
    """A finding below the crew's threshold is not reported."""
    (tmp_path / "crews").mkdir()
    stricter = CREW.read_text(encoding="utf-8").replace("threshold = 80", "threshold = 96")
    (tmp_path / "crews/code-review.toml").write_text(stricter, encoding="utf-8")

    report = (await reviewed(reviews(), repository(tmp_path / "repo"), crews=tmp_path / "crews")).report

    assert report.issues == ()
    assert "2 less sure than 96 (logic 1, security 1)" in report.answer


async def test_a_review_is_graded_by_the_criteria_of_its_request(tmp_path: Path) -> None:
    """A missed criterion is a gap, and the answer stays as code wrote it."""
    grade: JsonValue = {"criterion": 1, "met": False, "reason": "It names no test."}
    script = reviews().on("grade", Reply({"grades": [grade]}))

    run = await reviewed(script, repository(tmp_path / "repo"), criteria=("Names the test that is missing",))

    report = run.report
    assert [(each.criterion, each.met) for each in report.grades] == [("Names the test that is missing", False)]
    assert report.gaps == ("A criterion is not met: Names the test that is missing",)
    assert report.stop_reason == "partial"
    assert {line.purpose for line in report.spend} == {"work", "tools", "grade"}
    assert report.answer.startswith("Reviewed: ")
