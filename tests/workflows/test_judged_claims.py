"""How well the claims of a report are verified: by code, then by a judge of the small tier."""

from decimal import Decimal

import pytest

from chargehand.contracts import Report, SessionRequest, Verification
from tests.scripted_model import Script, Turn, answer, judged, plan, refuse, report, topics, use, verdicts
from tests.workflows.conftest import RunSession

GOAL = SessionRequest(goal="What do the documents say about the topics?")
REF = "search_documents.md#L1"
QUOTE = "what search_documents read"
FALSE = "Search documents did not read it in March [S1.1]."
TRUE = "It is what search_documents read [S1.1]."


def _written(*texts: str, strategy: str = "merge") -> Script:
    finding = answer("Known.", ref=REF, quote=QUOTE)
    drafts = [report(text) for text in texts]
    return Script().plan(*topics(2), strategy=strategy).work("", use("search_documents"), finding).synthesis(*drafts)


def _claims(result: Report) -> dict[str, Verification]:
    return {claim.text: claim.verification for claim in result.claims}


@pytest.mark.parametrize(
    ("judge", "true", "false"),
    [
        (verdicts(), "supported", "cited"),
        (verdicts(verdict="does_not_say"), "cited", "cited"),
        (verdicts(verdict="contradicts"), "contradicted", "contradicted"),
        (refuse, "cited", "cited"),
    ],
)
async def test_only_what_code_and_judge_agree_on_is_supported(
    run: RunSession, judge: Turn, true: Verification, false: Verification
) -> None:
    """No judge makes a claim supported whose words code finds denied; none at all leaves every claim cited."""
    text = f"{TRUE}\n\n{FALSE}\n\nI hope this helps."
    result, opened = await run(_written(text, text).on("judge_claims", judge), GOAL)

    assert list(_claims(result).values()) == [true, false]
    assert {call.model for call in opened.model.of_kind("judge_claims")} == {"scripted-small"}
    assert result.verification == false
    assert result.confidence <= (80 if true == "supported" else 60)


async def test_what_a_source_contradicts_goes_back_once(run: RunSession) -> None:
    """The writer is told which claim and why; what it corrects counts, and what it repeats is shown as contradicted."""
    judge = verdicts(verdict="contradicts", of="It costs 3")
    wrong, right = "It costs 3 [S1.1].", TRUE
    corrected, opened = await run(_written(wrong, right).on("judge_claims", judge), GOAL)
    repeated, again = await run(_written(wrong, wrong).on("judge_claims", judge), GOAL)

    [_, second] = opened.model.of_kind("synthesis")
    assert "“It costs 3.” It says 4." in second.messages[-1].text
    assert list(_claims(corrected).values()) == ["supported"]
    assert (list(_claims(repeated).values()), repeated.confidence) == (["contradicted"], 0)
    assert len(again.model.of_kind("synthesis")) == 2
    assert [claim.problem for claim in repeated.claims] == ["It says 4."]


@pytest.mark.parametrize("strategy", ["select", "deliver", "alone"])
async def test_a_text_that_nothing_was_written_from_is_judged_too(run: RunSession, strategy: str) -> None:
    """The answer of one agent, a chosen and a delivered one are verified as what a writer writes."""
    agents = topics(1 if strategy == "alone" else 2)
    planned = plan(*agents, strategy="merge" if strategy == "alone" else strategy)
    planned = planned.model_copy(update={"deliver": "T2"} if strategy == "deliver" else {})
    finding = answer(f"It is {QUOTE} [{REF}].", ref=REF, quote=QUOTE)
    script = Script().plans(planned).work("", use("search_documents"), finding).on("judge", judged("T1"))

    result, opened = await run(script, GOAL)

    assert opened.model.of_kind("judge_claims")
    assert all(claim.verification != "unsupported" for claim in result.claims if claim.sources)


async def test_a_judge_is_paid_from_the_budget(run: RunSession) -> None:
    """Whatever the budget, it holds; where it pays for no judge, nothing is supported."""
    for cents in (14, 16, 30, 200):
        limits = GOAL.limits.model_copy(update={"budget_usd": Decimal(cents) / 100})
        result, opened = await run(_written(TRUE, TRUE), GOAL.model_copy(update={"limits": limits}))

        assert result.usage.cost_usd <= limits.budget_usd
        if not opened.model.of_kind("judge_claims"):
            assert "supported" not in _claims(result).values()
