"""What models read of outcomes, what agents may keep, and how much a turn may write."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from activities.contracts.model import ModelCard, OutputCaps, PriceStep
from activities.contracts.rounds import InputOutcome, Note, ToolCall
from activities.turn_kinds.judge_outcomes import JudgeTask
from activities.turn_kinds.plan import Allowance, PlanTask
from activities.turn_kinds.synthesis import SynthesisTask
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Finding, Outcome, Source, Success
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
from workflows.rules.evidence import MOST_NOTES, Notes
from workflows.rules.inputs import beginning, fit, rendered_tokens, tokens_of

OUTCOMES: st.SearchStrategy[Outcome] = st.builds(
    Success,
    content=st.tuples(st.sampled_from(["word ", "ü", "字"]), st.integers(0, 9_000)).map(lambda of: of[0] * of[1]),
    findings=st.integers(0, 40).map(lambda count: (Finding(claim="c" * 300, sources=("a",), confidence=1),) * count),
    sources=st.integers(0, 40).map(lambda count: (Source(ref="a", quote="q" * 600),) * count),
    gaps=st.integers(0, 20).map(lambda count: ("g" * 300,) * count),
)


def _reading(candidates: tuple[InputOutcome, ...]) -> JudgeTask:
    return JudgeTask(question="Which?", candidates=candidates)


def _given(outcome: Outcome, number: int = 1) -> InputOutcome:
    return InputOutcome(id=f"T{number}", agent="reader", instruction=f"Do {number}", outcome=outcome)


@given(outcomes=st.lists(OUTCOMES, max_size=8), most=st.integers(0, 30_000))
def test_outcomes_are_shortened_until_they_fit(outcomes: list[Outcome], most: int) -> None:
    """As a model reads them they add no more than the allowance, in tokens and bytes; none of them is left out."""
    inputs = [_given(outcome, number) for number, outcome in enumerate(outcomes)]
    bare = _reading(tuple(_given(Success(), number) for number in range(len(outcomes))))

    task = fit(inputs, _reading, most)

    assert rendered_tokens(task) <= rendered_tokens(bare) + most
    assert len(task.model_dump_json().encode()) <= len(bare.model_dump_json().encode()) + 6 * most
    assert [short.id for short in task.candidates] == [given.id for given in inputs]


def test_what_fits_is_not_shortened_whatever_stands_beside_it() -> None:
    """Outcomes within the allowance are read whole; a long question takes nothing from them."""
    inputs = (_given(Success(content="word " * 2_000, gaps=("g",), sources=(Source(ref="a"),))),)

    task = fit(inputs, lambda read: JudgeTask(question="字" * 20_000, candidates=read), 5_000)

    assert task.candidates == inputs


@given(text=st.text(max_size=60), most=st.integers(0, 50))
def test_a_beginning_has_about_as_many_tokens_as_are_left(text: str, most: int) -> None:
    """It is a prefix of the text, and all of it where it fits."""
    begun = beginning(text, most)

    assert text.startswith(begun)
    assert (begun == text) is (tokens_of(text) <= most)


PAGE = Source(ref="handbook.md#L1", title="Notice", url="https://example.org/h", quote="Notice is\n three months.")
READ = {PAGE.ref: PAGE}


def call(**arguments: JsonValue) -> ToolCall:
    return ToolCall(id="1", tool="note", arguments={"claim": "", "ref": "", "quote": ""} | arguments)


def test_a_note_rests_on_what_was_read() -> None:
    """A claim is kept with its source and the quoted words of it, and without a source as a conclusion."""
    notes = Notes()

    answers = [
        notes.answer(call(claim="Three months.", ref=f"[{PAGE.ref}]", quote="Notice is three months"), READ),
        notes.answer(call(claim="Nothing on costs."), READ),
    ]

    assert [result.output for result in answers] == [{"notes": 1}, {"notes": 2}]
    quoted = PAGE.model_copy(update={"quote": "Notice is three months"})
    assert notes.kept == (Note(claim="Three months.", source=quoted), Note(claim="Nothing on costs."))


def test_a_note_that_cannot_be_kept_says_why() -> None:
    """Nothing is kept that was not read, and the model is told what to change."""
    cases: list[tuple[dict[str, JsonValue], str]] = [
        ({"claim": "Four months.", "ref": "elsewhere.md"}, "No tool has returned this ref"),
        ({"claim": "Four months.", "ref": PAGE.ref, "quote": "four months"}, "does not contain these words"),
        ({"claim": "Long.", "ref": PAGE.ref, "quote": "n" * 601}, "at most 600 characters"),
        ({"claim": " ", "ref": PAGE.ref}, "1 to 1,000 characters"),
        ({"claim": "c" * 1_001}, "1 to 1,000 characters"),
        ({"claim": ["a", "b"]}, "are texts"),
        ({"claim": "Kept."}, "kept this note already"),
    ]
    for arguments, problem in cases:
        notes = Notes([Note(claim="Kept.")])
        result = notes.answer(call(**arguments), READ)
        assert not result.ok
        assert problem in str(result.output)
        assert notes.kept == (Note(claim="Kept."),)


@given(st.lists(st.text(min_size=1, max_size=1_000), max_size=8), st.integers(1, 300))
def test_notes_are_bounded(claims: list[str], times: int) -> None:
    """However many are taken, their number and their bytes stay within bounds, and the first ones stay."""
    notes = Notes()
    for number in range(times):
        for claim in claims:
            notes.answer(call(claim=f"{number} {claim}"[:1_000]), {})

    assert len(notes.kept) <= MOST_NOTES
    assert sum(len(note.model_dump_json().encode()) for note in notes.kept) <= 60_000
    assert Notes(notes.kept).kept == notes.kept


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
