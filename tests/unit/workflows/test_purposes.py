"""How much a turn may write, and how hard the model thinks about it."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from activities.contracts.model import ModelCard, OutputCaps, PriceStep
from activities.turn_kinds.judge_outcomes import JudgeTask
from activities.turn_kinds.plan import Allowance, PlanTask
from activities.turn_kinds.synthesis import SynthesisTask
from activities.turn_kinds.work import WorkTask
from workflows.budget.estimates import (
    DECISION,
    PLAN,
    REPORT,
    WORK,
    OutputRange,
    double_range,
    output_range,
    purpose_of,
    worst_case,
)

_tokens = st.integers(256, 128_000)
_ALLOWANCE = Allowance(turns=1, usd=Decimal(1), minutes=1, max_rounds=1, max_parallel=1)
_usd = st.decimals(0, 10, places=9)


def _model(usd_per_million: Decimal = Decimal(10), most: int | None = None) -> ModelCard:
    price = PriceStep(input_usd_per_million=usd_per_million, output_usd_per_million=usd_per_million)
    return ModelCard(provider="p", name="m", prices=(price,), max_output_tokens=most)


def test_plans_and_reports_are_thought_about_most_and_decisions_least() -> None:
    """The purpose of a turn follows from its task, and the effort of a crew replaces all but that of decisions."""
    report = SynthesisTask(goal="g", outcomes=())
    tasks = (
        PlanTask(goal="g", max_subtasks=1, allowance=_ALLOWANCE, may_nest=False),
        WorkTask(goal="g", instruction="i"),
        report,
        report.model_copy(update={"is_part": True}),
        JudgeTask(question="q", candidates=()),
    )

    purposes = [purpose_of(task) for task in tasks]

    assert purposes == [PLAN, WORK, REPORT, DECISION, DECISION]
    assert [purpose.effort_in(None) for purpose in purposes] == ["high", "medium", "high", "low", "low"]
    assert [purpose.effort_in("medium") for purpose in purposes] == ["medium"] * 3 + ["low"] * 2


@given(most=_tokens, least=_tokens, price=st.decimals(0, 100, places=6), usd=_usd)
def test_a_cap_costs_no_more_than_it_may_unless_it_is_the_least(
    most: int, least: int, price: Decimal, usd: Decimal
) -> None:
    """Whatever the prices: the cap is within its range, and what costs more than the least is paid for."""
    outputs = OutputRange(min(least, most), most)
    model = _model(price)

    def worst(cap: int) -> Decimal:
        return worst_case(model, 10_000, cap).usd

    cap = outputs.affordable(worst, usd)

    assert outputs.least <= cap <= outputs.most
    assert worst(cap) <= max(usd, worst(outputs.least))
    if worst(outputs.most) <= usd:
        assert cap == outputs.most


def test_a_cap_never_exceeds_what_the_model_can_write() -> None:
    """Neither the first time nor when the turn is repeated."""
    small = _model(most=3_000)

    assert output_range(WORK, OutputCaps(), small) == OutputRange(3_000, 3_000)
    assert output_range(WORK, OutputCaps(work=1_000), _model()) == OutputRange(1_000, 1_000)
    assert output_range(REPORT, OutputCaps(), _model()) == OutputRange(6_000, 24_000)
    assert double_range(12_000, _model()) == OutputRange(12_000, 24_000)
    assert double_range(3_000, small) == OutputRange(3_000, 3_000)
