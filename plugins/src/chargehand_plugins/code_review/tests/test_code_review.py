"""The crew `code-review` on the scripted model: honest reviewers, a second look, and a review that can be checked."""

import json
import re
from pathlib import Path
from typing import Any

from dulwich import porcelain
from pydantic import BaseModel

from activities.contracts.rounds import ToolCall
from activities.models.protocol import ModelCall, ModelReply
from activities.turn_kinds.judgements import GradeAnswer, GradeDraft, GradeTask
from activities.turn_kinds.work import IssueDraft, WorkWithIssuesAnswer
from chargehand.contracts import Report, SessionRequest
from chargehand.download import download_artifacts
from chargehand_plugins.code_review.activity import add_parts
from tests.environment import open_environment
from tests.scripted_model import usage, work_task

BEFORE = "def load(text):\n    return int(text)\n\n\ndef total(rows):\n    return sum(rows)\n"
AFTER = BEFORE.replace("int(text)", "eval(text)") + "\n\ndef last(rows):\n    return rows[-1]\n"
GOAL = "Review this change, please."
CREWS = Path(__file__).parents[1] / "crews"
TOOLS = ("read_diff", "read_code", "code_history", "review_comments")
_EVAL = re.compile(r"^\+ +(\d+) .*\beval\(", re.MULTILINE)
_LAST = re.compile(r"^\+ +(\d+) .*\[-1\]", re.MULTILINE)
_CONTEXT = re.compile(r"^  +(\d+) .*sum\(", re.MULTILINE)


def honest(call: ModelCall) -> BaseModel:
    """Review as an honest model would: read the list, then each file, then name what is there."""
    if isinstance(call.task, GradeTask):
        return GradeAnswer(grades=[GradeDraft(criterion=1, met=False, reason="It names no test.")])
    task = work_task(call)
    if not task.rounds:
        return _use("")
    if len(task.rounds) == 1:
        listed = task.rounds[0].results[0].output.get("files", [])
        assert isinstance(listed, list)
        return _use(*(str(entry).split()[0] for entry in listed))
    shown = {source.title: source.quote for past in task.rounds for result in past.results for source in result.sources}
    if call.agent == "checker":
        # It confirms what it finds again at the place, and refutes the rest.
        claimed = [issue for given in task.inputs for issue in given.outcome.issues]
        return _answer(
            *(
                _issue(issue.file, issue.line, issue.message)
                for issue in claimed
                if any(int(found[1]) == issue.line for found in _EVAL.finditer(shown.get(issue.file, "")))
            )
        )
    looks_for = {
        "security": (_EVAL, "The text of a stranger is evaluated as a program."),
        "logic": (_EVAL, "A text is evaluated as a program, not read as a number."),
        "style": (_LAST, "The name last is short."),
        "performance": (_CONTEXT, "The sum is computed anew."),
    }
    if call.agent not in looks_for:
        return _answer()
    pattern, message = looks_for[call.agent]
    return _answer(
        *(_issue(path, int(found[1]), message) for path, text in shown.items() for found in pattern.finditer(text))
    )


def _use(*files: str) -> ModelReply:
    calls = tuple(
        ToolCall(id=f"c{number}", tool="read_diff", arguments={"file": file, "first": 0})
        for number, file in enumerate(files)
    )
    return ModelReply(stop="tools", tool_calls=calls, model="scripted-1", provider="scripted", usage=usage())


def _issue(file: str, line: int, message: str) -> IssueDraft:
    return IssueDraft(
        severity="critical",
        location=f"{file}:{line}",
        message=message,
        suggestion="Use int().",
        file=file,
        line=line,
        confidence=95,
    )


def _answer(*issues: IssueDraft) -> WorkWithIssuesAnswer:
    return WorkWithIssuesAnswer(
        status="success", content="", findings=[], confidence=95, gaps=[], message="", issues=list(issues)
    )


def repository(folder: Path, after: str = AFTER) -> Path:
    """Make a repository of two commits, whose configuration and hooks would be noticed if anything looked at them."""
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


async def reviewed(root: Path, *documents: Path, crew: Path | None = None, criteria: tuple[str, ...] = ()) -> Report:
    uris = tuple(f"file:{path}" for path in documents)
    request = SessionRequest(goal=GOAL, crew="code-review", documents=uris, criteria=criteria)
    own = (CREWS, crew) if crew else (CREWS,)
    async with open_environment(
        None, root, honest, document_roots=(root,), own_crews=own, parts=[add_parts], more_tools=TOOLS
    ) as opened:
        return await opened.run(request)


def sarif(report: Report, store: Path, folder: Path) -> dict[str, Any]:
    """Fetch the SARIF document of a report."""
    for each in download_artifacts(report.artifacts, str(store / "artifacts"), folder, replace=True):
        assert not each.problem
    log: dict[str, Any] = json.loads((folder / "review.sarif").read_text(encoding="utf-8"))
    return log


async def test_a_repository_is_reviewed_without_running_anything_of_it(tmp_path: Path) -> None:
    """A finding of two reviewers is reported once, at its file and line; refuted ones are not; no turn plans."""
    repo = repository(tmp_path / "repo")

    report = await reviewed(tmp_path, repo)

    assert [(issue.file, issue.line, issue.severity, issue.confidence) for issue in report.issues] == [
        ("load.py", 2, "critical", 95)
    ]
    assert "`load.py:2`" in report.answer
    assert (report.claims, report.verification) == ((), None)  # there is nothing to judge
    assert "logic, security" in report.answer
    assert "2 not confirmed by the second look (performance 1, style 1)" in report.answer
    assert {line.purpose for line in report.spend} == {"work", "tools"}
    assert not (repo / "trapped").exists()
    log = sarif(report, tmp_path, tmp_path / "out")
    [result] = log["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 2


async def test_what_was_dismissed_is_not_reported_again(tmp_path: Path) -> None:
    """A suppression in the SARIF of one review holds in the next, also after the line has moved, and is handed on."""
    repo = repository(tmp_path / "repo")
    log = sarif(await reviewed(tmp_path, repo), tmp_path, tmp_path / "out")
    log["runs"][0]["results"][0]["suppressions"] = [{"kind": "external", "justification": "It is our own text."}]
    (tmp_path / "dismissed.sarif").write_text(json.dumps(log))
    moved = repository(tmp_path / "moved", f"import sys\n\n\n{AFTER}")

    report = await reviewed(tmp_path, moved, tmp_path / "dismissed.sarif")

    assert report.issues == ()
    assert "Nothing found." in report.answer
    assert "1 dismissed before" in report.answer
    [handed_on] = sarif(report, tmp_path, tmp_path / "again")["runs"][0]["results"]
    assert handed_on["suppressions"] == [{"kind": "external", "status": "accepted"}]


async def test_nothing_found_is_a_good_answer(tmp_path: Path) -> None:
    """A clean diff of 2 MB is read as a document, and its review says what was reviewed and that nothing was found."""
    lines = "".join(f"+value_{number} = {number}  # {'x' * 60}\n" for number in range(23_000))
    (tmp_path / "big.patch").write_text(f"--- a/big.py\n+++ b/big.py\n@@ -0,0 +1,23000 @@\n{lines}")

    report = await reviewed(tmp_path, tmp_path / "big.patch")

    assert report.answer.startswith("Reviewed: 1 changed file, 23000 added lines.\n\nNothing found.")
    assert report.stop_reason == "completed"
    assert report.gaps == ()


async def test_the_threshold_is_the_crews(tmp_path: Path) -> None:
    """A finding that is less sure than the crew's threshold is not reported."""
    crew = CREWS / "code-review.toml"
    (tmp_path / "crews").mkdir()
    stricter = crew.read_text(encoding="utf-8").replace("threshold = 80", "threshold = 96")
    (tmp_path / "crews/code-review.toml").write_text(stricter, encoding="utf-8")

    report = await reviewed(tmp_path, repository(tmp_path / "repo"), crew=tmp_path / "crews")

    assert report.issues == ()
    assert "2 less sure than 96 (logic 1, security 1)" in report.answer


async def test_a_review_is_graded_by_the_criteria_of_its_request(tmp_path: Path) -> None:
    """A review that misses a criterion names that as a gap, and stays as code wrote it."""
    repo = repository(tmp_path / "repo")

    report = await reviewed(tmp_path, repo, criteria=("Names the test that is missing",))

    assert [(each.criterion, each.met) for each in report.grades] == [("Names the test that is missing", False)]
    assert report.gaps == ("A criterion is not met: Names the test that is missing",)
    assert report.stop_reason == "partial"
    assert {line.purpose for line in report.spend} == {"work", "tools", "grade"}
    assert report.answer.startswith("Reviewed: ")
