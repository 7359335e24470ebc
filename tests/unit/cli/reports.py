"""Reports and traces to render."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from chargehand.contracts import (
    Claim,
    Contradiction,
    LimitUse,
    PlannedSubtask,
    Recorded,
    Report,
    Source,
    SpendLine,
    Step,
    SubtaskRecord,
    Timing,
    Trace,
    Usage,
)

START = datetime(2026, 11, 2, 9, 30, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def report(**changes: object) -> Report:
    """Build a report of a session of three subtasks, one of which failed."""
    usage = Usage(turns=3, input_tokens=12_000, output_tokens=900, cost_usd=Decimal("0.0123"), tool_calls=2)
    made = Report(
        session="session-1",
        goal="How safe are our boilers?",
        answer="They are **tested** twice a year [S1], and [S2] agrees.",
        verification="cited",
        claims=(
            Claim(
                text="They are tested",
                verification="supported",
                sources=("boilers.md#L3",),
                quote="tested every six",
            ),
            Claim(text="and <b> agrees.", verification="cited", sources=("https://example.org/b",), problem="It may."),
        ),
        sources=(
            Source(ref="boilers.md#L3", title="Boiler rules", quote="tested every six months"),
            Source(ref="https://example.org/b", url="https://example.org/b", title="Boilers"),
        ),
        gaps=("The test of 2024 was not found.",),
        contradictions=(
            Contradiction(about="the interval", positions=("6 months [S1]", "a year [S2]"), resolution="S1"),
        ),
        confidence=80,
        stop_reason="completed",
        brain="claude-sonnet-5-5",
        usage=usage,
        spend=(SpendLine(agent="reader", model="claude-sonnet-5-5", purpose="work", usage=usage),),
        limits=(LimitUse(limit="turns", used=3, allowed=20),),
        timing=Timing(
            started_at=at(0),
            ended_at=at(95),
            wall=timedelta(seconds=95),
            subtasks_one_after_another=timedelta(seconds=120),
            critical_path=timedelta(seconds=70),
            speed_up=1.5,
        ),
        subtasks=(
            SubtaskRecord(id="T1", agent="reader", instruction="Read.", state="success", attempts=1, confidence=90,
                          started_at=at(1), ended_at=at(31)),
            SubtaskRecord(id="T2", agent="analyst", instruction="Count.", state="failure", reason="no_answer",
                          attempts=2, started_at=at(1), ended_at=at(41)),
            SubtaskRecord(id="T3", agent="writer", instruction="Write.", depends_on=("T1", "T2"), state="skipped"),
        ),
    )  # fmt: skip
    return made.model_copy(update=changes)


def trace() -> Trace:
    """Build the trace of a session with one subtask, a turn, a failed tool and a turn that still runs."""
    return Trace(
        session="session-1",
        exported_at=at(40),
        steps=(
            Step(id="session-1", kind="session", name="How safe", agent="supervisor", started_at=at(0)),
            Step(id="session-1/reader/1", parent="session-1", kind="subtask", name="T1 reader: Read.", agent="reader",
                 started_at=at(1), ended_at=at(31), state="completed"),
            Step(id="t", parent="session-1/reader/1", kind="turn", name="reader: work", started_at=at(2),
                 ended_at=at(12), state="completed"),
            Step(id="u", parent="session-1/reader/1", kind="tool", name="search: boilers", started_at=at(12),
                 ended_at=at(14), state="failed", attempts=3, error="ToolUnavailable"),
            Step(id="v", parent="session-1", kind="turn", name="supervisor: write", started_at=at(32)),
            Step(id="w", parent="session-1", kind="turn", name="never taken up"),
        ),
    )  # fmt: skip


HOSTILE = "<script>alert(1)</script>"
HOSTILE_TRACE = Trace(
    session="s1",
    run="run-1",
    exported_at=at(40),
    steps=(
        Step(id="s1", kind="session", name="How safe", agent="supervisor", started_at=at(0),
             plan=(PlannedSubtask(id="T1", agent="reader", title=HOSTILE),)),
        Step(id="s1/r/reader/ab12", parent="s1", kind="subtask", name="T1 reader: Read.", agent="reader",
             subtask="T1", task_hash="ab12", started_at=at(1), ended_at=at(31), state="completed"),
        Step(id="s1/r/reader/ab12#turn-1", parent="s1/r/reader/ab12", kind="turn", name="reader: work (m)",
             agent="reader", started_at=at(2), ended_at=at(12.5), state="completed", purpose="work", model="m",
             usage=Usage(turns=1, input_tokens=12, output_tokens=3)),
        Step(id="s1/r/reader/ab12#turn-1.1.search", parent="s1/r/reader/ab12", kind="tool", name="search: x",
             agent="reader", started_at=at(13), ended_at=at(14), state="failed", error="ToolUnavailable", tool="search",
             arguments=Recorded(bytes=9, value={"q": HOSTILE}), result=Recorded(bytes=9_999, reference="s1/run#7")),
        Step(id="s1#turn-9", parent="s1", kind="turn", name="never taken up"),
    ),
)  # fmt: skip
"""A trace of a running session, in which a model and a tool wrote HTML."""
