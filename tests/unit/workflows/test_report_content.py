"""From outcomes to the report."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from activities.contracts.rounds import InputOutcome
from activities.turn_kinds.synthesis import SynthesisAnswer
from chargehand.contracts import (
    Escalation,
    Failure,
    Outcome,
    Partial,
    Plan,
    Report,
    Source,
    SpendLine,
    Subtask,
    SubtaskRecord,
    Success,
    Timing,
    Usage,
)
from workflows.rules.report_content import (
    bound_report,
    brain_of,
    draft_from,
    draft_without_writer,
    gaps_of,
    merge_spend,
    nested_goal,
    numbered_sources,
    stop_reason_of,
    timing_of,
    usage_of,
)

START = datetime(2025, 6, 1, 12, 0, tzinfo=UTC)
A, B, C = (Source(ref=ref) for ref in ("a", "b", "c"))


def _given(outcome: Outcome, id_: str = "T1", agent: str = "reader") -> InputOutcome:
    return InputOutcome(id=id_, agent=agent, instruction=f"Do {id_}", outcome=outcome)


def _at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def test_each_source_is_numbered_once_in_the_plans_order() -> None:
    sources = numbered_sources([_given(Success(sources=(B, A))), _given(Success(sources=(A, C)), "T2")])

    assert sources == (B, A, C)


def test_the_report_of_one_subtask_is_its_answer() -> None:
    outcome = Partial(content="So it is [b].", sources=(A, B, C), confidence=64, gaps=("costs",), reason="r")
    draft = draft_from(outcome, (A, B, C))

    assert draft == SynthesisAnswer(
        answer="So it is [S2].\n\n*Read for this: [S1], [S3]*", gaps=["costs"], contradictions=[], confidence=64
    )


def test_without_a_writer_the_report_lists_the_outcomes() -> None:
    outcomes = [
        _given(Success(content="One [a].", sources=(A,), confidence=80)),
        _given(Failure(reason="no_answer", message="none"), "T2"),
        _given(Partial(content="Two.", confidence=30), "T3", "writer"),
    ]
    draft = draft_without_writer(outcomes, (A,), "No model answered.")

    assert draft == SynthesisAnswer(
        answer="*No model answered.*\n\n## T1 · reader\n\nOne [S1].\n\n*Sources: [S1]*\n\n## T3 · writer\n\nTwo.",
        gaps=[],
        contradictions=[],
        confidence=30,
    )


def test_every_gap_is_named_once() -> None:
    outcomes = [
        _given(Partial(gaps=("prices", "dates"))),
        _given(Failure(reason="no_answer", message="Nothing found."), "T2"),
        _given(Failure(reason="deadline"), "T3"),
        _given(Escalation(reason="too_big", message="Split it."), "T4"),
        _given(Failure(reason="skipped", message="It requires T4."), "T5"),
    ]
    gaps = gaps_of(outcomes, ["dates", "names"])

    assert gaps == (
        "dates",
        "names",
        "prices",
        "T2 (reader) failed: Nothing found.",
        "T3 (reader) failed: out of time",
        "T4 (reader) failed: Split it.",
        "T5 (reader) was skipped: It requires T4.",
    )


USAGES = st.builds(
    Usage,
    turns=st.integers(0, 9),
    input_tokens=st.integers(0, 9_999),
    cost_usd=st.integers(0, 10**9).map(lambda nanodollars: Decimal(nanodollars).scaleb(-9)),
    tool_calls=st.integers(0, 9),
)
LINES = st.lists(
    st.builds(
        SpendLine,
        agent=st.sampled_from(["reader", "writer"]),
        model=st.sampled_from(["m1", "m2"]),
        purpose=st.sampled_from(["work", "plan"]),
        usage=USAGES,
    ),
    max_size=12,
)


@given(lines=LINES)
def test_merging_spend_lines_preserves_the_total(lines: list[SpendLine]) -> None:
    merged = merge_spend(lines)

    keys = [(line.agent, line.model, line.purpose) for line in merged]
    assert len(set(keys)) == len(keys)
    assert usage_of(merged) == usage_of(lines)
    assert usage_of(lines).cost_usd == sum((line.usage.cost_usd for line in lines), Decimal(0))


def _timing(wall: int, one_after_another: int, critical: int, speed_up: float) -> Timing:
    return Timing(
        started_at=START,
        ended_at=_at(wall),
        wall=timedelta(seconds=wall),
        subtasks_one_after_another=timedelta(seconds=one_after_another),
        critical_path=timedelta(seconds=critical),
        speed_up=speed_up,
    )


def _record(id_: str, start: float, end: float) -> SubtaskRecord:
    return SubtaskRecord(id=id_, agent="reader", instruction="i", started_at=_at(start), ended_at=_at(end))


def _plan(**needs: tuple[str, ...]) -> Plan:
    return Plan(
        subtasks=tuple(
            Subtask(id=id_, agent="reader", instruction=f"Do {id_}", depends_on=needed) for id_, needed in needs.items()
        )
    )


def test_the_speed_up_compares_parallel_with_sequential_time() -> None:
    """Only overlapping time is gained; skipped and unfinished subtasks do not count."""
    waiting = SubtaskRecord(id="T1", agent="reader", instruction="i")
    unfinished = SubtaskRecord(id="T2", agent="reader", instruction="i", started_at=START)
    cases: list[tuple[list[SubtaskRecord], int, int, float]] = [
        # 10 s of planning and writing around 10 s of work: nothing overlaps, nothing is gained.
        ([_record("T1", 5, 15)], 10, 10, 1.0),  # one
        # 20 s of work done in 10 s of the 20 s: 30 s one after another, 30 / 20.
        ([_record("T1", 5, 15), _record("T2", 5, 15)], 20, 10, 1.5),  # two side by side
        ([_record("T1", 5, 10), _record("T2", 10, 15)], 10, 5, 1.0),  # two in a row
        # T1 5-12 and T2 8-15 overlap by 4 s: 24 / 20.
        ([_record("T2", 8, 15), _record("T1", 5, 12)], 14, 7, 1.2),  # two that overlap
        # T1 5-10, then T3 10-16 depends on it; T2 5-15 in parallel. 10 s overlap: 30 / 20.
        ([_record("T1", 5, 10), _record("T2", 5, 15), _record("T3", 10, 16)], 21, 11, 1.5),  # a chain
        ([waiting, unfinished], 0, 0, 1.0),  # none
    ]
    for records, one_after_another, critical, speed_up in cases:
        plan = _plan(T1=(), T2=(), T3=("T1",))
        assert timing_of(plan, records, START, _at(20)) == _timing(20, one_after_another, critical, speed_up)
    assert timing_of(None, [waiting, unfinished], START, START) == _timing(0, 0, 0, 1)


def test_the_report_names_the_models_that_were_used() -> None:
    cases: list[tuple[list[str], str]] = [
        ([], "No model was called."),
        (["extractive", "extractive"], "No language model was used: quoted passages and computed figures only."),
        (["m2", "m1", "m2", ""], "m1, m2"),
        (["extractive", "m1"], "extractive, m1"),
    ]
    for models, brain in cases:
        lines = [SpendLine(agent="reader", model=model, purpose="work", usage=Usage()) for model in models]
        assert brain_of(lines) == brain


def test_the_goal_of_a_nested_session_includes_its_inputs() -> None:
    subtask = Subtask(id="T3", agent="supervisor", instruction="Compare them")
    inputs = [_given(Success(content="One\x00.")), _given(Failure(reason="empty"), "T2")]
    goal = nested_goal(subtask, inputs)
    long = nested_goal(subtask, [_given(Success(content="w" * 30_000))])

    assert goal == "Compare them\n\nKnown already, from T1:\nOne."
    assert len(long) == 20_000


def test_the_stop_reason_prefers_interruptions_and_limits() -> None:
    cases: list[tuple[list[Outcome], str]] = [
        ([Success(), Failure(reason="empty")], "completed"),
        ([Partial(reason="half")], "completed"),
        ([Failure(reason="empty"), Escalation(reason="too_big")], "nothing_succeeded"),
        ([], "nothing_succeeded"),
        ([Success(), Failure(reason="out_of_turns")], "out_of_turns"),
        ([Partial(reason="out_of_budget"), Failure(reason="out_of_turns")], "out_of_budget"),
    ]
    for outcomes, reason in cases:
        assert stop_reason_of(outcomes, None) == reason
        assert stop_reason_of(outcomes, "deadline") == "deadline"
        assert stop_reason_of(outcomes, "finish_now") == "finish_now"


def test_a_report_always_fits_into_a_workflow_result() -> None:
    for character, (texts, items) in product("€\\", [(3_000_000, 1), (20_000, 110), (300, 7_000), (10, 1)]):
        text = character * texts
        given = Report(
            session="s",
            goal="g",
            answer=text,
            sources=(Source(ref="a", quote=text),) * items,
            gaps=(text,) * items,
            subtasks=(SubtaskRecord(id="T1", agent="reader", instruction=text[:4_000]),) * min(items, 200),
            stop_reason="completed",
            timing=_timing(0, 0, 0, 1),
        )

        fitting = bound_report(given)

        assert len(fitting.model_dump_json().encode()) < 2_000_000
        assert (fitting == given) is (texts == 10)
        assert texts == 10 or "too large" in fitting.gaps[-1]
