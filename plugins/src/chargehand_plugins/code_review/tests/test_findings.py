"""Handling of each finding: confirmed individually or not at all, merged, reported, and counted if left out."""

import json
from collections import Counter
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from chargehand.contracts import Issue, SessionRequest
from chargehand_plugins.code_review.comments import PastComment, comments_in
from chargehand_plugins.code_review.contracts import CodeReviewRequest, FoundIssue
from chargehand_plugins.code_review.diff import ChangedFile, Line
from chargehand_plugins.code_review.documents import dismissed_in, gaps_in, markdown_of, sarif_of
from chargehand_plugins.code_review.findings import Sifted, sift
from chargehand_plugins.testing import Reply, Script, ScriptedRun, answer, issue, run_session, use
from chargehand_plugins.testing.scripts import ContentStatus

FILE = ChangedFile("a.py", (Line(" ", 1, "x"), *(Line("+", number, f"y{number}") for number in range(2, 10))))
MESSAGES = ("Text is run as a program.", "Text of a user is run as a program.", "It never closes the file.")


def finding(name: str, line: int, message: str = MESSAGES[0], confidence: int = 90, agent: str = "logic") -> FoundIssue:
    return FoundIssue(id=name, agent=agent, issue=look("", line, message, confidence))


def look(location: str, line: int = 0, message: str = "", confidence: int = 90) -> Issue:
    file = "a.py" if line else ""
    return Issue(severity="major", location=location, file=file, line=line, message=message, confidence=confidence)


def sifted(found: list[FoundIssue], confirmed: list[Issue], dismissed: tuple[str, ...] = ()) -> Sifted:
    given: dict[str, Any] = {"documents": (), "second_look": "whole", "threshold": 80, "added_lines_only": True}
    return sift(CodeReviewRequest(found=tuple(found), confirmed=tuple(confirmed), **given), [FILE], dismissed)


def ids(one: Sifted) -> set[str]:
    return {each.id for reported in one.reported for each in reported.findings}


_AGENTS = st.sampled_from(["logic", "security", "style"])
_ONE = st.builds(finding, st.just(""), st.integers(1, 10), st.sampled_from(MESSAGES), st.integers(70, 100), _AGENTS)
FOUND = st.lists(_ONE, max_size=12).map(
    lambda found: [one.model_copy(update={"id": f"T1.{number}"}) for number, one in enumerate(found)]
)


@given(st.data())
def test_a_finding_is_reported_only_if_individually_confirmed(data: st.DataObject) -> None:
    """It must also be on an added line and confident enough, in any order; all others are counted."""
    found = data.draw(FOUND)
    names = data.draw(st.sets(st.sampled_from([one.id for one in found]))) if found else set[str]()
    confirmed = [look(f"{name}: so it is", confidence=85) for name in sorted(names)]

    one = sifted(found, confirmed)
    other = sifted(data.draw(st.permutations(found)), data.draw(st.permutations(confirmed)))

    right = {
        each.id for each in found if each.id in names and 2 <= each.issue.line < 10 and each.issue.confidence >= 80
    }
    assert (ids(one), one.unknown) == (right, ())
    assert sum(one.dropped.values(), Counter[str]()) == Counter(each.agent for each in found if each.id not in right)
    assert markdown_of(one, [FILE]) == markdown_of(other, [FILE])


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (look("T1.1"), {"T1.1"}),
        (look("T1.1, T2.1: both"), {"T1.1", "T2.1"}),
        (look("T1.1 only, not T2.1"), {"T1.1"}),
        (look("T1.1", 9, MESSAGES[2]), {"T1.1"}),
        (look("a.py:4", 4, "A program is run from text."), {"T2.1"}),
        (look("a.py:5", 5), {"T3.1"}),
        (look("a.py:5", 5, "A name is misleading."), set[str]()),
        (look("a.py:4", 4), set[str]()),
        (look("a.py:3", 3, MESSAGES[0]), set[str]()),
        (look("T1.10"), set[str]()),
        (look("a.py:2 Finding [t1.1] and T2.1"), {"T1.1", "T2.1"}),
        (look("refuted: T1.1"), set[str]()),
        (look("not T1.1", 2), set[str]()),
        (look("T1.1–T2.2"), set[str]()),
        (look("a.py:4", 4, f"T2.2: {MESSAGES[0]}"), {"T2.2"}),
    ],
)
def test_a_confirmation_is_matched_to_the_findings_it_names(said: Issue, meant: set[str]) -> None:
    """It matches by id, else by line and words, else the only one there; one without a match is a gap."""
    found = [finding("T1.1", 2), finding("T2.1", 4), finding("T2.2", 4, MESSAGES[2]), finding("T3.1", 5)]

    one = sifted(found, [said])

    assert ids(one) == meant
    assert bool(gaps_in(one, found, "whole")) is not bool(meant)


def test_the_less_confident_of_two_confirmations_decides() -> None:
    """Two confidences for one finding count as the lower one, in any order."""
    both = [look("T1.1", confidence=95), look("T1.1", confidence=60)]

    assert [ids(sifted([finding("T1.1", 2)], list(order))) for order in permutations(both)] == [set(), set()]


def test_findings_on_one_line_are_one_entry_with_all_their_texts() -> None:
    """A problem is listed once with all its reviewers; two findings of one reviewer stay separate."""
    found = [
        finding("T1.1", 2, confidence=95, agent="security"),
        finding("T2.1", 2, MESSAGES[2], 85),
        finding("T3.1", 3, MESSAGES[1], 88, agent="style"),
        finding("T1.2", 3, MESSAGES[0], 84, agent="security"),
        finding("T1.3", 7, "The path has the name in it.", 95, agent="security"),
        finding("T1.4", 7, "The path has the city in it.", agent="security"),
        finding("T3.2", 7, "The path has the city in it, too.", agent="style"),
        finding("T3.3", 7, "The path has the name in it, too.", agent="style"),
        finding("T3.4", 9, "Not confirmed.", agent="style"),
    ]

    review = markdown_of(sifted(found, [look(one.id) for one in found[:-1]]), [FILE])

    assert review.count("###") == 3
    city = "line 7: The path has the city in it"
    named = "The path has the name in it. (security, style, confidence 90)"
    texts = (named, f"security, {city}.", f"style, {city}, too.")
    assert "\n\n".join(texts) in review
    counted = "Reported: 8 of 9 findings, as 3 problems.\n\nNot reported: 1 not confirmed by the second look (style 1)."
    assert review.endswith(f"\n\n{counted}")
    assert "Text is run as a program. (security, style, logic, confidence 90)" in review
    assert "logic, line 2: It never closes the file." in review
    assert "style, line 3: Text of a user is run as a program." in review


def test_dismissed_findings_are_read_from_a_reviews_sarif() -> None:
    """Every result has its rule, level and fingerprint; a rejected suppression dismisses nothing."""
    found = [finding("T1.1", 2, agent="security"), finding("T2.1", 9, "Never used.")]
    log = json.loads(sarif_of(sifted(found, [look(one.id) for one in found])))
    results = log["runs"][0]["results"]
    results[0]["suppressions"] = [{"kind": "external"}]
    results[1]["suppressions"] = [{"kind": "external", "status": "rejected"}]

    assert (log["version"], log["runs"][0]["tool"]["driver"]["name"]) == ("2.1.0", "chargehand code-review")
    assert [(each["ruleId"], each["level"], each["rank"]) for each in results] == [
        ("security", "warning", 90.0),
        ("logic", "warning", 90.0),
    ]
    assert list(dismissed_in(json.dumps(log))) == [results[0]["partialFingerprints"]["chargehand/v1"]]
    assert list(dismissed_in("[" * 100_000)) == []
    assert list(dismissed_in('{"runs": [3, {"results": {"a": 1}}]}')) == []


def test_github_gitlab_and_bitbucket_comments_are_read() -> None:
    """Concatenated pages are read, newest first; any other text, however nested, has no comments."""
    github = [{"path": "a.py", "line": None, "original_line": 3, "user": {"login": "ada"}, "body": "No\neval!"}]
    gitlab = [{"notes": [{"body": "Close it.", "author": {"username": "bo"}, "position": {"new_path": "b.py"}}]}]
    bitbucket = {
        "values": [{"content": {"raw": "Why?"}, "inline": {"path": "c.py", "to": 7}, "created_on": "2026-01-02"}]
    }
    pages = "\n".join(json.dumps(page) for page in (github, gitlab, bitbucket))

    assert comments_in(pages) == [
        PastComment("c.py", 7, "", "2026-01-02", "Why?"),
        PastComment("b.py", 0, "bo", "", "Close it."),
        PastComment("a.py", 3, "ada", "", "No eval!"),
    ]
    assert [comments_in(text) for text in ("[" * 100_000, '{"body": 3}', "no JSON", "")] == [[], [], [], []]


REVIEWERS = ("security", "performance", "logic", "style", "history", "conventions")


@pytest.fixture
def change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    lines = "".join(f"+value_{number} = {number}\n" for number in range(1, 301))
    (tmp_path / "big.patch").write_text(f"--- a/a.py\n+++ b/a.py\n@@ -0,0 +1,300 @@\n{lines}")
    return f"file:{tmp_path}/big.patch"


def reviews(each: int, text: str = "") -> Script:
    """Have every reviewer report problems in `each` lines."""
    script = Script().work("", answer("Nothing."))
    for position, agent in enumerate(REVIEWERS):
        first = position * each + 1
        issues = tuple(finding_of(agent, number, text) for number in range(first, first + each))
        script = script.work("", answer("", issues=issues), agent=agent)
    return script


def finding_of(agent: str, number: int, text: str) -> dict[str, JsonValue]:
    return issue(f"{agent} objects to value_{number}.{text}", file="a.py", line=number, confidence=90)


def names_of(agents: int, each: int) -> list[str]:
    return [f"T{agent}.{number}" for agent in range(1, agents + 1) for number in range(1, each + 1)]


def confirming(names: list[str], status: ContentStatus = "success") -> Reply:
    return answer("Checked.", status=status, issues=tuple(issue("", location=name, confidence=92) for name in names))


async def review(script: Script, *documents: str) -> ScriptedRun:
    request = SessionRequest(goal="Review this change.", crew="code-review", documents=documents, review="never")
    return await run_session(request, script)


async def test_a_checker_can_check_120_findings(change: str) -> None:
    """It gets the id, place and text of each, and only those it confirms by id are reported."""
    half = [name for name in names_of(6, 20) if name[-1] in "13579"]
    run = await review(reviews(20).work("", confirming(half), agent="checker"), change)

    [prompt] = [turn.prompt for turn in run.turns if turn.agent == "checker"]
    assert "Issue T6.20 (major, confidence 90) at a.py:120: conventions objects to value_120." in prompt
    assert [one.line for one in run.report.issues] == [*range(1, 121, 2)]
    assert "\n\nNot reported: 60 not confirmed by the second look (conventions 10, history 10, " in run.report.answer
    assert (run.report.gaps, run.report.stop_reason) == ((), "completed")


_LEFT = "findings not checked:"
_INCOMPLETE = f"The second look is incomplete; {_LEFT}"


@pytest.mark.parametrize(
    ("each", "text", "status", "gap"),
    [
        (2, "", "partial", f"{_INCOMPLETE} 6 (conventions 2, history 2, style 2)."),
        (70, "", "success", f"{_INCOMPLETE} 220 (conventions 70, history 70, "),
        (2, "", "no_answer", f"The second look did not take place; {_LEFT} 12 (conventions 2, history 2, "),
        (210, "", "success", "security: issues left out beyond the first 200: 10 (a.py 10)."),
        (90, "x" * 900, "success", "checker: issues it was not given, too long together: 420 (conventions 70, "),
    ],
)
async def test_unchecked_findings_are_counted_by_reviewer(
    change: str, each: int, text: str, status: ContentStatus, gap: str
) -> None:
    """If the second look is partial, missing or cut by a cap, a gap says how many findings, and whose."""
    run = await review(reviews(each, text).work("", confirming(names_of(3, each), status), agent="checker"), change)

    assert any(said.startswith(gap) for said in run.report.gaps), run.report.gaps
    words = {"no_answer": "not checked", "partial": "not confirmed, or not checked"}
    assert f" {words.get(status, words['partial'])} (" in run.report.answer
    assert run.report.stop_reason == "partial"


async def test_a_reviewer_reads_the_comments_of_earlier_reviews(change: str, tmp_path: Path) -> None:
    """An export among the documents is listed by file and read by line, author and date; it is not a gap."""
    comment = {"path": "a.py", "line": 4, "user": {"login": "ada"}, "body": "No 4!"}
    comment |= {"created_at": "2026-03-01T10:00:00Z"}
    (tmp_path / "comments.json").write_text(json.dumps([comment, comment | {"path": "b.py"}]))
    script = reviews(0).work(
        "", use("review_comments", file=""), use("review_comments", file="a.py"), answer("Read."), agent="past_reviews"
    )

    run = await review(script, change, f"file:{tmp_path}/comments.json")

    prompt = [turn.prompt for turn in run.turns if turn.agent == "past_reviews"][-1]
    assert "a.py 1" in prompt
    assert "line 4, ada, 2026-03-01: No 4!" in prompt
    assert (run.report.gaps, run.report.answer.partition("\n\n")[2]) == ((), "Nothing found.")
