"""What goes over the wire comes back as it was."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chargehand.contracts import (
    Contradiction,
    Delegation,
    Escalation,
    Failure,
    Finding,
    Limits,
    LimitUse,
    Outcome,
    Partial,
    Plan,
    PlanDecision,
    Report,
    SessionRequest,
    Source,
    SpendLine,
    Status,
    Step,
    Subtask,
    SubtaskRecord,
    Success,
    Tier,
    Tiers,
    Timing,
    Trace,
    Usage,
)
from chargehand.converter import data_converter

CONVERTER = data_converter().payload_converter


def _back(value: object, type_hint: Any) -> object:
    [there] = CONVERTER.to_payloads([value])
    [back] = CONVERTER.from_payloads([there], [type_hint])
    return back


TEXT = st.sampled_from(["", "a", "Größe\n\t夏🚢", "\x00\x1b", '"\\"', "</data>"]) | st.text(max_size=10)
TYPED = st.text(st.characters(codec="utf-8", exclude_categories=("Cc",)), max_size=20)
NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,39}", fullmatch=True)
IDS = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,19}", fullmatch=True)
PERCENT = st.integers(0, 100)
COUNT = st.integers(0, 10**9)
DOLLARS = st.integers(0, 5 * 10**14).map(lambda nanodollars: Decimal(nanodollars).scaleb(-9))
TIMES = st.timedeltas(timedelta(0), timedelta(days=36_500)).map(lambda after: datetime(1990, 1, 1, tzinfo=UTC) + after)
MAYBE_TIMES = st.none() | TIMES
SPANS = st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=30))


def _tuples(of: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(of, max_size=2).map(tuple)


USAGES = st.builds(
    Usage,
    turns=COUNT,
    input_tokens=COUNT,
    cached_input_tokens=COUNT,
    output_tokens=COUNT,
    cost_usd=DOLLARS,
    possibly_billed_twice_usd=DOLLARS,
    tool_calls=COUNT,
)
LINES = _tuples(st.builds(SpendLine, agent=TEXT, model=TEXT, purpose=TEXT, usage=USAGES))
SOURCES = _tuples(st.builds(Source, ref=TEXT, title=TEXT, url=st.none() | TEXT, quote=TEXT))
ENDED: dict[str, Any] = {
    "content": TEXT,
    "findings": _tuples(st.builds(Finding, claim=TEXT, sources=_tuples(TEXT), confidence=PERCENT)),
    "sources": SOURCES,
    "confidence": PERCENT,
    "gaps": _tuples(TEXT),
    "spend": LINES,
}
OUTCOMES = st.one_of(
    st.builds(Success, **ENDED),
    st.builds(Partial, reason=TEXT, **ENDED),
    st.builds(Failure, reason=st.sampled_from(["refused", "deadline", "skipped"]), message=TEXT, **ENDED),
    st.builds(Escalation, reason=st.sampled_from(["too_big", "timeout"]), message=TEXT, **ENDED),
)
SUBTASKS = st.builds(
    Subtask, id=IDS, agent=NAMES, instruction=TYPED.map(str.strip), depends_on=_tuples(IDS), required=_tuples(IDS)
)
PLANS = st.builds(
    Plan, subtasks=_tuples(SUBTASKS), strategy=st.sampled_from(["merge", "select", "reduce"]), final_instruction=TYPED
)
RECORDS = _tuples(
    st.builds(
        SubtaskRecord,
        id=TEXT,
        agent=TEXT,
        instruction=TEXT,
        depends_on=_tuples(TEXT),
        state=st.sampled_from(["waiting", "running", "partial", "skipped"]),
        reason=TEXT,
        attempts=COUNT,
        workflow_id=st.none() | TEXT,
        started_at=MAYBE_TIMES,
        ended_at=MAYBE_TIMES,
        confidence=PERCENT,
        usage=USAGES,
    )
)
STATES = st.sampled_from(["planning", "awaiting_approval", "executing", "synthesising", "finished", "failed"])
STATUSES = st.builds(
    Status,
    session=TEXT,
    goal=TEXT,
    state=STATES,
    plan=st.none() | PLANS,
    subtasks=RECORDS,
    turns=COUNT,
    max_turns=COUNT,
    spent_usd=DOLLARS,
    reserved_usd=DOLLARS,
    budget_usd=DOLLARS,
    started_at=MAYBE_TIMES,
    deadline_at=MAYBE_TIMES,
)
REPORTS = st.builds(
    Report,
    session=TEXT,
    goal=TEXT,
    answer=TEXT,
    sources=SOURCES,
    gaps=_tuples(TEXT),
    contradictions=_tuples(st.builds(Contradiction, about=TEXT, positions=_tuples(TEXT), resolution=TEXT)),
    confidence=PERCENT,
    stop_reason=st.sampled_from(["completed", "deadline", "nothing_succeeded"]),
    brain=TEXT,
    usage=USAGES,
    spend=LINES,
    limits=_tuples(st.builds(LimitUse, limit=TEXT, used=st.floats(0, 1e9), allowed=st.floats(0, 1e9))),
    timing=st.builds(
        Timing,
        started_at=TIMES,
        ended_at=TIMES,
        wall=SPANS,
        subtasks_one_after_another=SPANS,
        critical_path=SPANS,
        speed_up=st.floats(0, 100),
    ),
    subtasks=RECORDS,
)
LIMITS = st.builds(
    Limits,
    max_turns=st.integers(1, 1_000),
    budget_usd=st.integers(1, 10**13).map(lambda nanodollars: Decimal(nanodollars).scaleb(-9)),
    max_depth=st.integers(1, 10),
    max_parallel=st.integers(1, 100),
    max_attempts=st.integers(1, 10),
    max_rounds=st.integers(1, 50),
    deadline=st.timedeltas(min_value=timedelta(microseconds=1), max_value=timedelta(days=7)),
    on_limit=st.sampled_from(["finish", "pause"]),
)
REQUESTS = st.builds(
    SessionRequest,
    goal=TYPED.map(lambda text: f"goal {text} end"),
    crew=NAMES,
    documents=_tuples(st.sampled_from(["file:/docs/a b.pdf", f"artifact:{'0a' * 32}/Größe.csv"])),
    limits=LIMITS,
    approval=st.sampled_from(["none", "plan"]),
    tenant=NAMES,
    priority=st.integers(1, 5),
    tiers=st.builds(
        Tiers,
        supervisor=st.none() | st.sampled_from(Tier),
        agents=st.dictionaries(NAMES, st.sampled_from(Tier), max_size=2),
    ),
    delegation=st.none() | st.builds(Delegation, session=TEXT, depth=COUNT, ancestors=_tuples(TEXT), deadline_at=TIMES),
)
TRACES = st.builds(
    Trace,
    session=TEXT,
    exported_at=TIMES,
    steps=_tuples(
        st.builds(
            Step,
            id=TEXT,
            parent=st.none() | TEXT,
            kind=st.sampled_from(["session", "subtask", "turn", "tool", "other"]),
            name=TEXT,
            agent=TEXT,
            started_at=MAYBE_TIMES,
            ended_at=MAYBE_TIMES,
            attempts=COUNT,
            state=st.sampled_from(["running", "completed", "failed"]),
            error=TEXT,
            usage=USAGES,
            worker=TEXT,
        )
    ),
)
DECISIONS = st.builds(
    PlanDecision, decision=st.sampled_from(["approve", "edit", "reject"]), plan=st.none() | PLANS, reason=TYPED
)


@pytest.mark.parametrize(
    ("values", "type_hint"),
    [
        pytest.param(REQUESTS, SessionRequest, id="SessionRequest"),
        pytest.param(PLANS, Plan, id="Plan"),
        pytest.param(PLANS, Plan | None, id="Plan or nothing"),
        pytest.param(DECISIONS, PlanDecision, id="PlanDecision"),
        pytest.param(OUTCOMES, Outcome, id="Outcome"),
        pytest.param(STATUSES, Status, id="Status"),
        pytest.param(REPORTS, Report, id="Report"),
        pytest.param(TRACES, Trace, id="Trace"),
    ],
)
@settings(max_examples=25)
@given(data=st.data())
def test_what_is_sent_is_what_arrives(values: st.SearchStrategy[object], type_hint: Any, data: st.DataObject) -> None:
    """Every contract comes back equal and of the same type, to the last nanodollar and character."""
    value = data.draw(values)

    back = _back(value, type_hint)

    assert back == value
    assert type(back) is type(value)


def test_no_plan_arrives_as_no_plan() -> None:
    """The answer to a question about a plan may be that there is none."""
    assert _back(None, Plan | None) is None


def test_dollars_are_numbers_on_the_wire() -> None:
    """Money is a JSON number that other languages can add, exact to the nanodollar up to a million."""
    usage = Usage(cost_usd=Decimal("999999.999999999"))

    [payload] = CONVERTER.to_payloads([usage])

    assert b'"cost_usd":999999.999999999,' in payload.data


@given(one=USAGES, other=USAGES)
def test_usage_adds_field_by_field(one: Usage, other: Usage) -> None:
    """The sum of two usages is the sum of each of their fields, exactly."""
    total = one + other

    assert {name: getattr(total, name) for name in Usage.model_fields} == {
        name: getattr(one, name) + getattr(other, name) for name in Usage.model_fields
    }
