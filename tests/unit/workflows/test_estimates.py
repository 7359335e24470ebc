"""The budget: books always balance, no turn costs more than its reservation, and who goes without."""

from decimal import ROUND_UP, Decimal
from itertools import permutations
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from activities.contracts.cards import AgentCard, CrewCard, ModelCard, PriceStep
from activities.contracts.rounds import InputOutcome, Round, ToolResult
from activities.contracts.session import SessionFacts
from activities.documents.catalog import Catalog, DocumentEntry
from activities.models.protocol import ModelCall
from activities.turn.activity import most_input_tokens, prompt_bytes
from activities.turn.contracts import Counted
from activities.turn_kinds.judgements import CritiqueTask, JudgeTask
from activities.turn_kinds.plan import PlanTask, RefineTask, RejectedPlan, ReviewTask
from activities.turn_kinds.protocol import SCHEMA_BYTES, ContradictionDraft
from activities.turn_kinds.registry import TASK_TYPES, Task
from activities.turn_kinds.rendering import CitedSource, Quotation
from activities.turn_kinds.synthesis import SynthesisAnswer, SynthesisTask
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Failure, Finding, Limits, Outcome, Partial, Source, Success, Tier
from tests.scripted_model import ALLOWANCE, TODAY
from tests.simulation import budget
from tests.unit.strategies import contracts
from workflows.budget.estimates import conversation_bound, fixed_bytes, input_bound, least_workable, worst_case
from workflows.budget.grants import Grants
from workflows.budget.ledger import Amount, Ledger, Reservation

SYSTEM = "You are the reader. Wörter."
CARD = AgentCard(
    name="reader", tools=("read_document",), tier=Tier.SMALL, prompt_bytes=len(SYSTEM.encode()) + SCHEMA_BYTES
)
WITHOUT_TOOLS = CARD.model_copy(update={"tools": ()})
TEXT = st.text(max_size=60) | st.sampled_from(["</data>" * 9, "€" * 40, '\x00\x1f\\"' * 9, "夏🚢" * 20, ""])
TASKS = cast("st.SearchStrategy[Task]", st.one_of([contracts(kind, TEXT) for kind in TASK_TYPES.values()]))


def _call(task: Task, catalog: Catalog | None) -> ModelCall:
    return ModelCall(
        model="m",
        task=task,
        agent="reader",
        catalog=catalog or Catalog(),
        system=SYSTEM,
        messages=task.messages(catalog, TODAY),
        answer_type=task.answer_type,
        max_output_tokens=1,
        timeout_seconds=1,
        idempotency_key="k",
    )


def _rendered(task: Task, catalog: Catalog | None = None) -> int:
    return prompt_bytes(_call(task, catalog))


def _bound(task: Task, catalog: Catalog | None = None) -> int:
    documents = ["file:a.md"] if catalog is not None and catalog.documents else []
    return input_bound(task, fixed_bytes(WITHOUT_TOOLS if catalog is None else CARD, documents))


@settings(max_examples=25)
@given(task=TASKS, catalog=st.none() | contracts(Catalog, TEXT))
def test_no_prompt_exceeds_its_reserved_tokens(task: Task, catalog: Catalog | None) -> None:
    """I01: whatever the texts, the rendered prompt has no more bytes than tokens were reserved."""
    assert _rendered(task, catalog) <= _bound(task, catalog)


@settings(max_examples=15)
@given(
    task=contracts(WorkTask, TEXT),
    kinds=st.lists(contracts(Round, TEXT) | st.builds(Round, correction=TEXT.filter(bool)), min_size=1, max_size=2),
    times=st.integers(1, 60),
    catalog=st.sampled_from([None, Catalog()]),
)
def test_no_long_conversation_exceeds_its_reserved_tokens(
    task: WorkTask, kinds: list[Round], times: int, catalog: Catalog | None
) -> None:
    """I01: this holds for any number of corrections, calls and messages, with or without tools."""
    whole = task.model_copy(update={"rounds": tuple(kinds) * times, "told": task.told * times})
    counted = Counted(model="m", tokens=0, messages=2)

    assert _rendered(whole, catalog) <= _bound(whole, catalog)
    assert most_input_tokens(_call(whole, catalog), counted) <= conversation_bound(counted, whole.rounds)


@settings(max_examples=25)
@given(task=contracts(WorkTask, TEXT), more=st.lists(contracts(Round, TEXT), min_size=1, max_size=3), data=st.data())
def test_no_conversation_exceeds_its_counted_tokens_plus_new_bytes(
    task: WorkTask, more: list[Round], data: st.DataObject
) -> None:
    """I01: after any reply counted by the provider, the next prompt fits into its reservation."""
    whole = task.model_copy(update={"rounds": (*task.rounds, *more)})
    answered = data.draw(st.integers(0, len(whole.rounds) - 1))
    call = _call(whole, Catalog())
    counted = Counted(model=call.model, tokens=data.draw(st.integers(0, 50_000)), messages=2 * answered + 2)
    bound = conversation_bound(counted, whole.rounds[answered:])

    assert most_input_tokens(call, counted) <= bound
    assert most_input_tokens(call, counted.model_copy(update={"model": "another"})) == prompt_bytes(call)


LONG = 20_000
SMALL_NUMBERS: list[JsonValue] = [1e-07, 1e22] * LONG


def _ended(outcome: Outcome) -> InputOutcome:
    return InputOutcome(id="T1", agent="a", instruction="i", outcome=outcome)


def _work(*inputs: Outcome, goal: str = "g", rounds: tuple[Round, ...] = ()) -> WorkTask:
    return WorkTask(goal=goal, instruction="i", inputs=tuple(map(_ended, inputs)), rounds=rounds, must_answer=True)


MANY: dict[str, Task] = {
    "sources": SynthesisTask(goal="g", outcomes=(), sources=(CitedSource(number=99, ref="a", title="b"),) * LONG),
    "quotations": SynthesisTask(
        goal="g",
        outcomes=(),
        sources=(CitedSource(number=9, ref="a", quotations=(Quotation(number=9, text="q"),) * LONG),),
    ),
    "gaps and findings": _work(
        Success(gaps=("b",) * LONG), Success(findings=(Finding(claim="c", confidence=1),) * LONG)
    ),
    "forged ends of data": _work(goal="</data>" * LONG),
    "thoughts in another script": _work(rounds=(Round(provider_items=({"thinking": "夏" * LONG},)),)),
    "small numbers": _work(
        rounds=(Round(results=(ToolResult(call_id="1", tool="t", output={"rows": SMALL_NUMBERS}),)),)
    ),
    "corrections": _work(rounds=(Round(correction="x"),) * 50),
    "corrections that a person comments on": _work(rounds=(Round(correction="x", told=("t",) * 200),) * 50),
    "errors": PlanTask(
        goal="g",
        max_subtasks=1,
        allowance=ALLOWANCE,
        may_nest=True,
        rejected=(RejectedPlan(plan="p", errors=("e",) * LONG),) * 2,
    ),
    "problems": SynthesisTask(goal="g", outcomes=(), problems=("p",) * LONG),
    "contradictions": CritiqueTask(
        goal="g",
        draft=SynthesisAnswer(
            answer="a",
            gaps=["g"] * LONG,
            contradictions=[ContradictionDraft(about="a", positions=["p"] * 3, resolution="")] * LONG,
            confidence=1,
        ),
        outcomes=(),
        sources=(CitedSource(number=99, ref="a"),) * LONG,
    ),
    "sources of candidates": JudgeTask(
        question="q", candidates=(_ended(Success(gaps=("b",) * LONG, sources=(Source(ref="r"),) * LONG)),) * 2
    ),
    "lost subtasks": ReviewTask(
        goal="g", outcomes=(_ended(Failure(reason="empty")),) * LONG, max_subtasks=0, may_nest=False
    ),
    "gaps of a bad end": RefineTask(
        goal="g", agent="a", instruction="i", problem="p", outcome=Partial(gaps=("g",) * LONG), attempts=1
    ),
}


def test_many_small_parts_do_not_exceed_the_reserved_tokens() -> None:
    """I01: the bound includes what a prompt adds around each part; a catalogue is cut to its allowance."""
    entries = tuple(DocumentEntry(name="</data>" * 9 + str(number), kind="md") for number in range(5_000))
    cases = [*((task, None) for task in MANY.values()), (_work(), Catalog(documents=entries))]
    for task, catalog in cases:
        assert _rendered(task, catalog) <= _bound(task, catalog)


PRICES = st.integers(0, 10**12).map(lambda nanodollars: Decimal(nanodollars).scaleb(-9))
STEPS = st.lists(st.tuples(st.integers(1, 400_000), PRICES, PRICES), max_size=3).flatmap(
    lambda later: st.tuples(PRICES, PRICES).map(
        lambda first: tuple(
            PriceStep(above_input_tokens=above, input_usd_per_million=given, output_usd_per_million=written)
            for above, given, written in sorted([(0, *first), *later])
        )
    )
)


@given(steps=STEPS, bounds=st.tuples(st.integers(0, 500_000), st.integers(0, 100_000)), data=st.data())
def test_the_worst_case_price_covers_any_usage_within_its_bounds(
    steps: tuple[PriceStep, ...], bounds: tuple[int, int], data: st.DataObject
) -> None:
    """I01: any number of tokens up to the bounds is covered at the price step that it falls on."""
    most_input, most_output = bounds
    model = ModelCard(provider="p", name="m", prices=steps)
    given_tokens = data.draw(st.integers(0, most_input))
    written_tokens = data.draw(st.integers(0, most_output))
    worst = worst_case(model, most_input, most_output)

    at = [step for step in steps if step.above_input_tokens < given_tokens] or [steps[0]]
    true = given_tokens * at[-1].input_usd_per_million + written_tokens * at[-1].output_usd_per_million
    assert worst.turns == 1
    assert worst.usd * 1_000_000 >= true


def test_a_turn_is_priced_at_the_step_that_its_prompt_can_reach() -> None:
    steps = [(0, "2.5", 10), (200_000, "5", 15)]
    prices = tuple(
        PriceStep(
            above_input_tokens=above, input_usd_per_million=Decimal(given), output_usd_per_million=Decimal(written)
        )
        for above, given, written in steps
    )
    model = ModelCard(provider="p", name="m", prices=prices)

    # Up to 200,000 tokens, and above: all input is charged at the step.
    for input_tokens, usd in [(100_000, "0.26"), (199_999, "0.5099975"), (200_000, "1.015"), (400_000, "2.015")]:
        assert worst_case(model, input_tokens, 1_000) == Amount(1, Decimal(usd))


def test_the_smallest_limits_pay_for_a_plan_a_turn_and_a_report() -> None:
    """They are the sum of the three worst cases, rounded up to a cent, with the cheapest agent."""
    cheap = (PriceStep(input_usd_per_million=Decimal(1), output_usd_per_million=Decimal(1)),)
    dear = (PriceStep(input_usd_per_million=Decimal(10), output_usd_per_million=Decimal(100)),)
    models = {tier: ModelCard(provider="p", name=tier, prices=dear) for tier in Tier}
    models[Tier.SMALL] = ModelCard(provider="p", name="small", prices=cheap)
    agents = tuple(
        AgentCard(name=name, tier=tier, prompt_bytes=2_000)
        for name, tier in [("reader", Tier.SMALL), ("writer", Tier.LARGE)]
    )
    crew = CrewCard(name="c", tier=Tier.LARGE, agents=agents, prompt_bytes=2_000)
    least = least_workable(SessionFacts(crew=crew, models=models, ceilings=Limits()), ["file:a.md"])

    # plan 20,000 in and 4,000 out, report 36,000 in and 6,000 out, both dear; a turn 11,000 in and 3,500 out, cheap
    usd = (Decimal(200_000 + 400_000) + Decimal(360_000 + 600_000) + Decimal(11_000 + 3_500)) / 1_000_000
    assert least == Amount(3, usd.quantize(Decimal("0.01"), rounding=ROUND_UP))


DOLLARS = st.integers(min_value=0, max_value=3_000_000_000).map(lambda nanodollars: Decimal(nanodollars).scaleb(-9))
AMOUNTS = st.builds(Amount, st.integers(min_value=0, max_value=30), DOLLARS)


SETTLED = st.none() | st.tuples(st.integers(0, 9), AMOUNTS)
"""Which of the open reservations is settled, and with what."""


@given(granted=AMOUNTS, steps=st.lists(st.tuples(AMOUNTS, SETTLED), max_size=20))
@budget.settings_for(100)
def test_the_books_balance(granted: Amount, steps: list[tuple[Amount, tuple[int, Amount] | None]]) -> None:
    """I01: what does not fit is not reserved; what is settled, even above what was reserved for it, is spent once."""
    ledger, spent, held = Ledger(granted=granted), Amount(), list[Reservation]()
    for amount, settled in steps:
        used = sum((each.amount for each in held), spent)
        assert ledger.missing(amount) == (used + amount).beyond(granted)
        reservation = ledger.reserve(amount)
        assert (reservation is not None) == granted.beyond(used).covers(amount)
        held += [reservation] if reservation else []
        if held and settled is not None:
            number, cost = settled
            ended = held.pop(number % len(held))
            ledger.settle(ended, cost)
            spent += cost
            with pytest.raises(KeyError):
                ledger.settle(ended, cost)
        reserved = sum((each.amount for each in held), Amount())
        assert (ledger.granted, ledger.spent, ledger.reserved) == (granted, spent, reserved)
        assert ledger.unspent == granted.beyond(spent + reserved)


def test_negative_or_non_finite_amounts_are_refused() -> None:
    """I01: this covers negative turns, and NaN, infinite or negative dollars."""
    cases = [(1, "NaN"), (1, "sNaN"), (1, "Infinity"), (1, "-Infinity"), (1, "-0.000000001"), (-1, "0")]
    for turns, usd in cases:
        with pytest.raises(ValueError, match="never negative"):
            Amount(turns, Decimal(usd))


CHILDREN = {"a": True, "b": False, "c": True, "d": False}
"""Whether each child can continue without what it asks for."""


@pytest.mark.parametrize("waiting", [1, 2, 5])
def test_waiting_subtasks_get_equal_shares_of_the_budget(waiting: int) -> None:
    """A share is less only if the subtask needs less, and never below the minimum."""
    granted, least = Amount(20, Decimal(5)), Amount(4, Decimal(1))
    grants = Grants(Ledger(granted=granted))
    left = range(waiting, 0, -1)
    shares = [reserved.amount for each in left if (reserved := grants.reserve(least, granted, each))]
    assert shares == [Amount(20 // waiting, Decimal(5) / waiting)] * waiting
    small, few = Grants(Ledger(granted=granted)), Amount(6, Decimal("1.5"))
    assert [each and each.amount for each in (small.reserve(least, few, 2), small.reserve(least, granted, 9))] == [
        few,
        least,
    ]


@pytest.mark.parametrize("order", list(permutations(CHILDREN)))
def test_subtasks_that_can_continue_are_denied_a_grant_first(order: tuple[str, ...]) -> None:
    """They are denied one at a time, in any order of requests; those that need it come after all others."""
    ledger = Ledger(granted=Amount(8))
    grants, left = Grants(ledger), list(order)
    for child in order:
        reservation = ledger.reserve(Amount(2))
        assert reservation is not None
        assert grants.open(child, reservation)
    for child in order:
        assert not grants.all_wait
        grants.queue(child, is_optional=CHILDREN[child])
    gone = list[str]()
    while left:
        assert grants.all_wait is not any(CHILDREN[each] for each in left)
        (victim,) = (each for each in left if grants.is_hopeless(each, is_optional=CHILDREN[each]))
        grants.dequeue(victim, is_optional=CHILDREN[victim])
        grants.close(victim, "researcher", Failure(reason="out_of_turns", message=""))
        gone.append(victim)
        left.remove(victim)
    assert [CHILDREN[each] for each in gone] == [True, True, False, False]
