"""A run of an evaluation: kept as it goes, resumed, capped, estimated, and judged."""

import asyncio
import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pytest

from activities.contracts.model import ModelCard, PriceStep
from activities.models.protocol import ModelCall, ModelReply
from benchmarks.evaluation.dataset import Case
from benchmarks.evaluation.judge import Judge
from benchmarks.evaluation.results import ResultsFile, RunLine, ScoreLine, read_results
from benchmarks.evaluation.scores import Scores, score
from benchmarks.evaluation.spending import NotAffordable, Spending
from chargehand.contracts import Usage
from chargehand_plugins.testing import report_of

RUN = RunLine(run="2026-01-01T00:00:00Z", command="eval", setting={"models": "m", "judge": ""})
FREE = ModelCard(
    provider="p", name="m", prices=(PriceStep(input_usd_per_million=Decimal(1), output_usd_per_million=Decimal(1)),)
)


def line(case: str, *, passed: bool = True, repetition: int = 1, error: str = "") -> ScoreLine:
    scores = Scores(case=case, repetition=repetition, passed=passed, error=error, usd=Decimal(1))
    return ScoreLine(dataset="d", backend="configured", score=scores)


def test_a_score_is_kept_the_moment_its_case_ends_and_a_run_goes_on_from_there(tmp_path: Path) -> None:
    """A line that was cut off, and cases that failed by an error, are run again; of two scores the later counts."""
    file = tmp_path / "run.jsonl"
    begun = ResultsFile(file)
    begun.begin(RUN, resume=False)
    for each in (line("a"), line("b", error="TimeoutError"), line("c", repetition=2)):
        begun.append(each)
    with file.open("a") as cut:
        cut.write('{"dataset":"d","ba')
    resumed = ResultsFile(file)
    resumed.begin(RUN, resume=True)

    assert resumed.done("d") == {("a", 1), ("c", 2)}
    resumed.append(line("b"))
    (kept,) = read_results(file)
    assert [(each.case, each.repetition, each.error) for each in kept.scores] == [
        ("a", 1, ""),
        ("b", 1, ""),
        ("c", 2, ""),
    ]
    assert len(file.read_text().splitlines()) == 5


async def test_no_case_starts_that_could_pass_the_sum() -> None:
    """Two of two dollars fit into five; the third waits for what they leave, and is refused if that is too little."""
    spending = Spending(Decimal(5))
    ended = asyncio.Event()

    async def case(usd: int) -> None:
        async with spending.reserve(Decimal(2)):
            await ended.wait()
            spending.charge(Decimal(usd))

    cheap = [asyncio.create_task(case(1)) for _ in range(3)]
    await asyncio.sleep(0)
    ended.set()
    await asyncio.gather(*cheap)
    assert spending.spent == 3
    await case(2)
    with pytest.raises(NotAffordable, match="a case may spend"):
        await case(0)


class Examiner:
    """A model that thinks what it is told to, and keeps what it was asked."""

    def __init__(self, *opinions: object) -> None:
        self.opinions = list(opinions)
        self.calls: list[ModelCall] = []

    async def complete(self, call: ModelCall) -> ModelReply:
        self.calls.append(call)
        said = self.opinions.pop(0)
        text = said if isinstance(said, str) else json.dumps(said)
        return ModelReply(stop="answer", text=text, model="m", provider="p", usage=Usage(cost_usd=Decimal("0.01")))


def opinion(*missing: str, right: bool = True, contradicted: Sequence[str] = ()) -> object:
    return {"missing": missing, "contradicted": contradicted, "right": right, "reason": "So it is."}


async def test_a_judge_decides_only_what_code_cannot() -> None:
    """A right answer and one that is certainly wrong cost nothing; `right` with a part missing is not right."""
    case = Case(id="c", goal="How many minutes?", answer=1995)
    cases = [
        ("1,995 minutes", opinion(), (True, False)),
        ("1,996 minutes", opinion(), (False, False)),
        ("33 hours, 15 minutes", opinion(), (True, True)),
        ("33 hours, 16 minutes", opinion("1995", right=False), (False, True)),
        ("about two thousand", opinion("1995"), (False, True)),
        ("nearly two thousand", "no JSON", (False, True)),
    ]
    for said, thought, (passed, judged) in cases:
        examiner = Examiner(thought, opinion("1995"))
        scores = await Judge(examiner, FREE).decide(case, said, score(case, report_of(said), [], 1.0))
        assert (scores.passed, scores.judged, bool(examiner.calls)) == (passed, judged, judged), said
        assert scores.judge_usd == Decimal("0.01") * len(examiner.calls)
