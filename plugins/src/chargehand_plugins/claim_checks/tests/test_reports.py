"""How a report treats invented claims that cite a true quotation, whatever wrote it and whatever a judge says."""

import pytest
from pydantic import JsonValue

from chargehand.contracts import SessionRequest, Source
from chargehand.tools import ToolAnswer
from chargehand_plugins.testing import Reply, Script, answer, finding, run_session, subtask, use

QUOTE = "Unemployment in the Nordmark region rose to 7.4% in March."
PAGE = Source(ref="https://example.org/a", url="https://example.org/a", title="Labour market", quote=QUOTE)
INVENTED = ("Nordwerk poisoned the river", "The mayor resigned over bribes", "The schools stay closed")
ALTERED = (
    "Unemployment in the Nordmark region fell to 7.4% in March",
    "Unemployment in the Nordmark region rose to 74% in March",
    "Unemployment in the Nordmark region rose to 7.4% in April",
)


@pytest.mark.parametrize("strategy", ["", "merge", "select", "deliver"])
@pytest.mark.parametrize("claims", [INVENTED, ALTERED], ids=["invented", "altered"])
async def test_a_judge_that_agrees_with_everything_verifies_no_false_claim(
    claims: tuple[str, ...], strategy: str
) -> None:
    """With one agent, and merged, selected or delivered, claims stay `cited` and confidence is 60."""
    findings = [finding(f"{claim}.", "p1", quote=QUOTE, confidence=95) for claim in claims]
    found = answer(" ".join(f"{claim} [p1]." for claim in claims), *findings, confidence=95)
    subtasks = [subtask(f"T{n}", "researcher", f"List what happened in Nordmark in {n} of March.") for n in (1, 2)]
    agrees: list[JsonValue] = [{"claim": number, "verdict": "says", "reason": "Yes."} for number in range(1, 7)]
    plan: dict[str, JsonValue] = {"subtasks": [*subtasks[: 2 if strategy else 1]], "strategy": strategy or "merge"}
    script = Script().on("plan", Reply({**plan, "deliver": "T2" if strategy == "deliver" else ""}))
    script = script.work("", use("search", query="Nordmark"), found)
    script = script.report(" ".join(f"{claim} [S1.1]." for claim in claims), confidence=95)
    script = script.on("judge", Reply({"chosen": "T1", "reason": "Best.", "confidence": 95}))
    script = script.on("judge_claims", Reply({"verdicts": agrees}))

    request = SessionRequest(goal="What happened in Nordmark in March?", crew="research")
    run = await run_session(request, script, answers={"search": ToolAnswer(sources=(PAGE,))})

    assert [claim.verification for claim in run.report.claims] == ["cited"] * 3
    assert (run.report.verification, run.report.confidence) == ("cited", 60)
    assert [turn.kind for turn in run.turns].count("judge_claims") == 1
