"""The cost of limits: a larger grant in messages and milliseconds, binding limits compared with ones that never bind,
and the processor time of the accounting itself."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Final

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from activities.contracts.cards import ModelCard, PriceStep
from activities.contracts.rounds import Round, ToolCall, ToolResult
from activities.turn_kinds.work import WorkTask
from benchmarks import scripted
from benchmarks.jobs import one_worker
from benchmarks.scripted import WIDEST, Shape
from benchmarks.tables import Row
from chargehand.client import Chargehand
from chargehand.contracts import Limits, SessionRequest, Source
from workflows.budget.estimates import WORK, input_bound, worst_case
from workflows.budget.ledger import Amount, Ledger

_LONG: Final = Shape(subtasks=1, rounds=9)
"""One agent with ten turns: its first grant pays for the first; it requests each of the others."""
_MAIN: Final = Shape()
_PAIRS: Final = 15
_LONG_JOBS: Final = 8
_PROMPT_BYTES: Final = 6_000
_TURNS_TIMED: Final = 2_000
_MOST_OVERHEAD: Final = 0.05
_SENT: Final = EventType.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED
_RECEIVED: Final = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
_SCHEDULED: Final = EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
_COMPLETED: Final = EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED
_DECIDED: Final = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED


@dataclass(frozen=True)
class Gap:
    """The events of a subtask between the end of a round and its next turn."""

    asked: int
    """Number of requests for a larger grant."""
    answer_ms: float
    """From the request to its answer, by the server's clock; 0 without a request."""
    wait_ms: float
    """From the end of the round to the next turn, also by the server's clock."""
    events: int
    tasks: int


async def limits() -> tuple[Sequence[Row], Sequence[str]]:
    """Measure top-ups in one agent's history, then the main job with limits that bind and limits that do not."""
    async with one_worker() as (chargehand, _):
        await _run(chargehand, _MAIN, WIDEST)
        gaps = [gap for _ in range(_LONG_JOBS) for gap in await _gaps(chargehand, _LONG)]
        rows = [_gap_row("without", [gap for gap in gaps if not gap.asked])]
        rows.append(_gap_row("with", [gap for gap in gaps if gap.asked]))
        loose, tight, asked = await _pairs(chargehand)
    cpu = _books_seconds()
    wall = statistics.median(loose)
    share = cpu * _MAIN.turns / wall
    ratio = statistics.median(mine / other for mine, other in zip(tight, loose, strict=True))
    rows += [
        {"": "main job, limits that never bind", "wall, ms": wall * 1_000, "ratio": 1.0},
        {"": "main job, limits that just suffice", "wall, ms": statistics.median(tight) * 1_000, "ratio": ratio},
        {
            "": "the books alone, of that wall time",
            "wall, ms": cpu * _MAIN.turns * 1_000,
            "ratio": share,
            "at most": _MOST_OVERHEAD,
            "verdict": "pass" if share <= _MOST_OVERHEAD else "MISS",
        },
    ]
    extra = float(rows[1]["wait, ms"] or 0) - float(rows[0]["wait, ms"] or 0)
    return rows, [
        f"a larger grant: 1 round trip (a signal up, a signal down), {extra:.1f} ms more before the turn",
        f"limits that just suffice: max_turns {_MAIN.turns}, {asked:.0f} requests for more a session (median)",
        f"the books of a turn: {cpu * 1e6:.0f} µs of processor (three bounds of a prompt of 2 rounds, reserve, settle)",
    ]


async def _run(chargehand: Chargehand, shape: Shape, limits: Limits) -> tuple[str, list[str], float]:
    """Run a job; return its id, its subtasks' workflow ids, and its seconds."""
    allowed = limits.model_copy(update={"max_parallel": max(1, shape.subtasks), "deadline": timedelta(minutes=5)})
    started_at = time.perf_counter()
    session = await chargehand.start(SessionRequest(goal=shape.goal, limits=allowed, review="never"))
    report = await session.result()
    seconds = time.perf_counter() - started_at
    if report.stop_reason != "completed" or any(record.state != "success" for record in report.subtasks):
        raise RuntimeError(f"the job went wrong: {report.stop_reason} after {report.usage.turns} turns")
    return session.id, [record.workflow_id or "" for record in report.subtasks], seconds


async def _pairs(chargehand: Chargehand) -> tuple[list[float], list[float], float]:
    """Run the main job with both kinds of limits alternately, so that the machine affects both alike."""
    suffices = WIDEST.model_copy(update={"max_turns": _MAIN.turns, "budget_usd": Decimal(10)})
    seconds: dict[bool, list[float]] = {True: [], False: []}
    asked: list[int] = []
    for number in range(_PAIRS):
        for binds in (number % 2 == 0, number % 2 == 1):
            _, children, wall = await _run(chargehand, _MAIN, suffices if binds else WIDEST)
            seconds[binds].append(wall)
            requests = [await _requests(chargehand.client, child) for child in children]
            if binds:
                asked.append(sum(requests))
            elif sum(requests):
                raise RuntimeError("a limit was met that should never bind")
    return seconds[False], seconds[True], statistics.median(asked)


async def _requests(client: Client, workflow_id: str) -> int:
    return sum(event.event_type == _SENT for event in await _history(client, workflow_id))


async def _history(client: Client, workflow_id: str) -> Sequence[HistoryEvent]:
    return (await client.get_workflow_handle(workflow_id).fetch_history()).events


async def _gaps(chargehand: Chargehand, shape: Shape) -> list[Gap]:
    """Read the gap between each round of a long subtask and the turn after it."""
    _, [child], _ = await _run(chargehand, shape, WIDEST)
    events = await _history(chargehand.client, child)
    turns = [place for place, event in enumerate(events) if _is_turn(event)]
    return [_gap(events, before, after) for before, after in pairwise(turns)]


def _is_turn(event: HistoryEvent) -> bool:
    named = event.activity_task_scheduled_event_attributes.activity_id.partition(".")[0]
    return (
        event.event_type == _SCHEDULED
        and named.startswith("turn-")
        and "." not in (event.activity_task_scheduled_event_attributes.activity_id)
    )


def _gap(events: Sequence[HistoryEvent], before: int, after: int) -> Gap:
    ended = max(place for place in range(before, after) if events[place].event_type == _COMPLETED)
    between = events[ended + 1 : after]
    sent = [event for event in between if event.event_type == _SENT]
    received = [event for event in between if event.event_type == _RECEIVED]
    answer = _ms(sent[0], received[0]) if sent and received else 0.0
    tasks = sum(event.event_type == _DECIDED for event in between)
    return Gap(len(sent), answer, _ms(events[ended], events[after]), len(between), tasks)


def _ms(earlier: HistoryEvent, later: HistoryEvent) -> float:
    return (later.event_time.ToNanoseconds() - earlier.event_time.ToNanoseconds()) / 1e6


def _gap_row(what: str, gaps: Sequence[Gap]) -> Row:
    if not gaps:
        raise RuntimeError(f"no turn {what} a request for more was seen")
    return {
        "": f"before a turn {what} a larger grant",
        "turns seen": len(gaps),
        "wait, ms": statistics.median(gap.wait_ms for gap in gaps),
        "of it asking, ms": statistics.median(gap.answer_ms for gap in gaps),
        "events": statistics.median(gap.events for gap in gaps),
        "workflow tasks": statistics.median(gap.tasks for gap in gaps),
    }


def _books_seconds() -> float:
    """Time the pure code of a turn: bounds, a reservation and its settlement, with two rounds in the prompt."""
    sources = tuple(
        Source(ref=f"log-{number}.md#L1-L10", title="Log > Departures", quote=scripted.QUOTE) for number in range(2)
    )
    call = ToolCall(id="call-1", tool="search_documents", arguments={"query": "late departures 1"})
    result = ToolResult(call_id=call.id, tool=call.tool, output={"found": 2}, sources=sources)
    task = WorkTask(
        goal=_MAIN.goal, instruction=scripted.instruction(1), rounds=(Round(calls=(call,), results=(result,)),) * 2
    )
    price = PriceStep(input_usd_per_million=Decimal(1), output_usd_per_million=Decimal(5))
    model = ModelCard(provider="scripted", name=scripted.MODEL_NAME, prices=(price,))
    ledger = Ledger(granted=Amount(_TURNS_TIMED, Decimal(10_000)))
    cost = Amount(1, Decimal("0.0015"))
    before = time.process_time()
    for _ in range(_TURNS_TIMED):
        # First this turn and the next, to see whether both can be paid; then only the one that is taken.
        bounds = [worst_case(model, input_bound(task, _PROMPT_BYTES), WORK.least_output) for _ in range(3)]
        reservation = ledger.reserve(bounds[-1])
        if reservation is None:
            raise RuntimeError("the ledger that is timed ran empty")
        ledger.settle(reservation, cost)
    return (time.process_time() - before) / _TURNS_TIMED
