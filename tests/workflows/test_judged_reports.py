"""Reports that are judged: by the user's criteria, and claim by claim."""

import re
from collections.abc import Callable
from decimal import Decimal

import pytest
from pydantic import BaseModel

from activities.models.protocol import ModelCall
from activities.turn_kinds.judgements import GradeTask, JudgeClaimsAnswer, JudgeClaimsTask
from activities.turn_kinds.synthesis import SynthesisTask
from chargehand.contracts import Grade, Limits, Report, SessionRequest, Verification
from tests.claim_judge import OBJECTION, claim_judge
from tests.scripted_model import Script, Turn, answer, graded, refuse, report, subtask, topics, use
from tests.workflows.conftest import RunSession

CRITERIA = ("Names a date.", "Is one paragraph.")
GOAL = SessionRequest(goal="When is the notice due?", review="never", criteria=CRITERIA)
REF, QUOTE = "search_documents.md#L1", "what search_documents read"
FOUND = answer(f"Three months [{REF}].", ref=REF, quote=QUOTE)
ONE = Script().plan(subtask("T1")).work("", use("search_documents"), FOUND)
TWO = Script().plan(*topics(2))


@pytest.mark.parametrize("is_nested", [False, True])
async def test_a_report_is_graded_by_each_criterion(run: RunSession, *, is_nested: bool) -> None:
    """One more turn grades what the reader sees, with the sources' text; a nested session is not graded."""
    nested = subtask("T1", "supervisor", instruction="Look into the notice as a whole.")
    script = ONE.plan(nested, goal=GOAL.goal) if is_nested else ONE
    result, opened = await run(script.on("grade", graded("", "")), GOAL)

    [task] = opened.model.tasks(GradeTask)
    assert result.grades == tuple(Grade(criterion=criterion, met=True, reason="It does.") for criterion in CRITERIA)
    assert (task.goal, task.criteria, task.answer) == (GOAL.goal, CRITERIA, result.answer)
    assert [(source.ref, source.quote) for source in task.sources] == [(REF, QUOTE)]
    plans = ["plan"] * (1 + is_nested)
    assert [call.task.kind for call in opened.model.calls] == [*plans, "work", "work", "grade"]
    assert result.usage.turns == len(plans) + 3


@pytest.mark.parametrize(
    ("grades", "revisions", "met"),
    [
        pytest.param([("no date", ""), ("", "")], 1, [True, True], id="a revision that meets all of them"),
        pytest.param([("a", "b"), ("", "b"), ("", "")], 2, [True, True], id="one after the other"),
        pytest.param([("a", "b"), ("", "c"), ("", "d")], 2, [True, False], id="two revisions at most"),
        pytest.param([("a", ""), ("", "b")], 1, [False, True], id="a revision that makes nothing better"),
    ],
)
async def test_a_report_that_fails_a_criterion_is_revised(
    run: RunSession, grades: list[tuple[str, str]], revisions: int, met: list[bool]
) -> None:
    """The writer is told what is not met and why; the version that meets most is returned with its grades."""
    given = iter(grades)

    def graded_next(_: ModelCall) -> BaseModel:
        return graded(*next(given))

    script = TWO.on("grade", graded_next).synthesis(report("First."), report("Revised."))
    result, opened = await run(script, GOAL)

    written = opened.model.tasks(SynthesisTask)
    again = [task.problems for task in written if task.problems]
    assert {task.criteria for task in written} == {CRITERIA}
    assert len(again) == revisions
    assert f"“{CRITERIA[0]}”: {grades[0][0]}" in again[0][0]
    assert [each.met for each in result.grades] == met
    assert result.wasted.turns == (0 if all(met) else 2)
    assert result.answer == ("First." if met == [False, True] else "Revised.")
    assert result.gaps == tuple(
        f"A criterion is not met: {criterion}" for criterion, is_met in zip(CRITERIA, met, strict=True) if not is_met
    )


@pytest.mark.parametrize(
    ("limits", "grades"),
    [
        pytest.param(Limits(max_turns=4), graded("", ""), id="no turn is left"),
        pytest.param(Limits(), graded(), id="the model grades nothing"),
    ],
)
async def test_a_report_that_could_not_be_graded_says_so(run: RunSession, limits: Limits, grades: BaseModel) -> None:
    """Missing grades are a gap, never a pass, and cost nothing that the limits do not allow."""
    script = ONE.plan(subtask("T1")).on("grade", grades).work("", use("search_documents"), use("read_document"), FOUND)
    result, _ = await run(script, GOAL.model_copy(update={"limits": limits}))

    assert result.grades == ()
    missing = "The report was not graded by its criteria: no model could do so in time and within the limits."
    assert missing in result.gaps
    assert result.usage.turns <= limits.max_turns


CLAIMS_GOAL = SessionRequest(goal="What do the documents say about the topics?")
FALSE = "Search documents did not read it in March [S1.1]."
TRUE = "It is what search_documents read [S1.1]."


def _written(*texts: str, strategy: str = "merge") -> Script:
    finding = answer("Known.", ref=REF, quote=QUOTE)
    drafts = [report(text) for text in texts]
    return Script().plan(*topics(2), strategy=strategy).work("", use("search_documents"), finding).synthesis(*drafts)


def _claims(result: Report) -> dict[str, Verification]:
    return {claim.text: claim.verification for claim in result.claims}


def _omitting(pattern: str) -> Callable[[ModelCall], JudgeClaimsAnswer]:
    """Agree with every claim, but give no verdict on those that begin like this."""

    def judge(call: ModelCall) -> JudgeClaimsAnswer:
        assert isinstance(call.task, JudgeClaimsTask)
        given = zip(claim_judge()(call).verdicts, call.task.claims, strict=True)
        return JudgeClaimsAnswer(verdicts=[each for each, claim in given if not re.match(pattern, claim.text)])

    return judge


@pytest.mark.parametrize(
    ("judge", "true", "false"),
    [
        (claim_judge(objections="says"), "supported", "cited"),
        (claim_judge(), "supported", "supported"),
        (claim_judge(verdict="does_not_say"), "cited", "cited"),
        (claim_judge(verdict="contradicts"), "contradicted", "contradicted"),
        (refuse, "cited", "cited"),
        (_omitting("."), "cited", "cited"),
        (_omitting(OBJECTION.pattern), "supported", "cited"),
    ],
)
async def test_a_claim_is_supported_only_if_code_and_judge_agree(
    run: RunSession, judge: Turn, true: Verification, false: Verification
) -> None:
    """Without a verdict on a claim, or one that dismisses an objection that code finds, the claim is only cited."""
    text = f"{TRUE}\n\n{FALSE}\n\nI hope this helps."
    result, opened = await run(_written(text, text).on("judge_claims", judge), CLAIMS_GOAL)

    assert list(_claims(result).values()) == [true, false]
    assert {call.model for call in opened.model.of_kind("judge_claims")} == {"scripted-small"}
    assert result.verification == false
    worth = {"supported": 100, "cited": 60, "contradicted": 0}
    assert result.confidence <= (worth[true] + worth[false]) / 2


async def test_a_claim_that_its_source_contradicts_is_returned_once(run: RunSession) -> None:
    """The writer is told why; a repeat is shown as contradicted, and a revision that is no better is waste."""
    judge = claim_judge(verdict="contradicts", of="It costs 3")
    wrong, right = "It costs 3 [S1.1].", TRUE
    corrected, opened = await run(_written(wrong, right).on("judge_claims", judge), CLAIMS_GOAL)
    repeated, again = await run(_written(wrong, wrong).on("judge_claims", judge), CLAIMS_GOAL)
    other, _ = await run(_written(wrong, "It costs 3 in May [S1.1].").on("judge_claims", judge), CLAIMS_GOAL)

    [_, second] = opened.model.of_kind("synthesis")
    assert "“It costs 3.” It says 4." in second.messages[-1].text
    assert list(_claims(corrected).values()) == ["supported"]
    assert (list(_claims(repeated).values()), repeated.confidence) == (["contradicted"], 0)
    assert (_claims(other), other.wasted.turns) == ({"It costs 3.": "contradicted"}, 2)
    assert (corrected.wasted.turns, repeated.wasted.turns) == (0, 2)
    assert len(again.model.of_kind("synthesis")) == 2
    assert [claim.problem for claim in repeated.claims] == ["It says 4."]


async def test_the_claim_judge_is_paid_from_the_session_budget(run: RunSession) -> None:
    """The budget always holds; if it cannot pay for a judge, no claim is supported."""
    for cents in (14, 16, 30, 200):
        limits = CLAIMS_GOAL.limits.model_copy(update={"budget_usd": Decimal(cents) / 100})
        result, opened = await run(_written(TRUE, TRUE), CLAIMS_GOAL.model_copy(update={"limits": limits}))

        assert result.usage.cost_usd <= limits.budget_usd
        if not opened.model.of_kind("judge_claims"):
            assert "supported" not in _claims(result).values()


@pytest.mark.parametrize(
    ("text", "ending", "gap"),
    [
        ("I cannot help with that.", "unanswered", "The report states nothing."),
        ("Which lease do you mean?", "unanswered", "The report states nothing."),
        ("", "unwritten", ""),
        (TRUE, "completed", ""),
    ],
)
async def test_a_report_that_states_nothing_is_not_an_answer(run: RunSession, text: str, ending: str, gap: str) -> None:
    """A refusal, a question or an empty text is named as such, whatever the writer's confidence."""
    result, _ = await run(_written(text).on("judge_claims", claim_judge()), CLAIMS_GOAL)

    assert (result.stop_reason, result.gaps) == (ending, (gap,) if gap else ())
