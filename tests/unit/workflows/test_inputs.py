"""What models read of outcomes."""

from hypothesis import given
from hypothesis import strategies as st

from activities.contracts.rounds import InputOutcome
from activities.turn_kinds.judge_outcomes import JudgeTask
from chargehand.contracts import Finding, Outcome, Source, Success
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
