"""Every view of a recorded session shows the same after each of its events."""

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from decimal import Decimal
from io import StringIO
from itertools import cycle
from pathlib import Path
from typing import Any, Final, get_args

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from rich.cells import cell_len
from rich.console import Console
from temporalio.api.history.v1 import HistoryEvent, WorkflowExecutionTerminatedEventAttributes

from chargehand.contracts import (
    CallEvent,
    EndEvent,
    Event,
    FailureReason,
    PlanEvent,
    QuestionEvent,
    SpendEvent,
    StateEvent,
    Status,
    SubtaskEvent,
    SubtaskRecord,
    ToolEvent,
    Trace,
    TurnEvent,
    Usage,
)
from chargehand.converter import data_converter
from chargehand.history.projection import Child, Projection
from chargehand.history.records import Decoder, SessionResult
from chargehand.history.steps import Draft, Scope, Written
from chargehand.history.tree import status_of, trace_of, under_way
from chargehand.state_words import REASONS, SESSION_STATES, STOP_REASONS
from chargehand.wire import ErrorType
from chargehand_cli.live_tree import session_tree
from chargehand_cli.rendering.progress import record_state, record_words, step_words
from chargehand_cli.rendering.text import count, dollars
from chargehand_plugins.console.activity import AgentView
from chargehand_plugins.console.views import Page, view_of_status
from chargehand_plugins.opentelemetry.otlp import otlp
from tests.parameters import first_fast
from tests.replay.record import RECORDED, histories_in
from workflows.rules.web_ui import details

_DECODER: Final = Decoder(data_converter())
_TERMINATED: Final = HistoryEvent(
    event_id=9_999,
    event_time=Timestamp(seconds=2_000_000_000),
    workflow_execution_terminated_event_attributes=WorkflowExecutionTerminatedEventAttributes(reason="by hand"),
)


class Recorded:
    """A recorded session, whose histories are read together, event by event."""

    def __init__(self, session_id: str, histories: Mapping[str, list[HistoryEvent]]) -> None:
        self._histories = histories
        self.root = Projection(Scope(_DECODER, session_id, Draft.of(session_id)))
        self.events: list[Event] = []

    async def prefixes(self) -> AsyncGenerator[None]:
        """Read all of it, and stop after each event."""
        async for _ in self._read(self.root):
            yield
        yield

    async def _read(self, projection: Projection) -> AsyncIterator[bool]:
        """Read a history and its children's in turns; yield whether the next event is not the last one: a workflow ends
        together with its parent's record of that."""
        below: dict[int, AsyncIterator[bool]] = {}
        going: dict[int, AsyncIterator[bool]] = {}
        history = self._histories[projection.scope.draft.id]
        for number, event in enumerate(history, start=2):
            going.pop(_child_ended_by(event), None)
            async for _ in below.pop(_child_ended_by(event), _nothing()):
                yield True
            change = await projection.read(event)
            outputs = (projection.settle(), *change.outputs)
            self.events += [each for each in outputs if each is not None and not isinstance(each, Written)]
            if change.started is not None:
                reading = self._read(self._below(change.started))
                below[change.started.number] = going[change.started.number] = reading
            if number <= len(history):
                yield number < len(history)
            going = {id_: reading for id_, reading in going.items() if await anext(reading)}

    def _below(self, child: Child) -> Projection:
        draft = child.draft.unread()
        child.projection = Projection(Scope(_DECODER, self.root.scope.session, draft, child.subtask))
        return child.projection


async def _nothing() -> AsyncIterator[bool]:
    for nothing in ():
        yield nothing


def _child_ended_by(event: HistoryEvent) -> int:
    """Return the number of the child that has ended with an event, 0 if none has."""
    kind = event.WhichOneof("attributes") or ""
    is_end = kind.startswith("child_workflow_execution_") and "_started_" not in kind
    return int(getattr(event, kind).initiated_event_id) if is_end else 0


def recorded_sessions(file: Path) -> list[Recorded]:
    histories = {history.workflow_id: list(history.events) for history in histories_in(file)}
    return [Recorded(id_, histories) for id_ in histories if "/" not in id_]


def calls_in(events: list[Event], kind: type[TurnEvent] | type[ToolEvent]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return what the latest events say about each turn or tool call."""
    latest: dict[tuple[str, str], tuple[str, ...]] = {}
    for each in events:
        if isinstance(each, kind):
            state = each.state.replace("started", "running")
            about = (each.purpose, each.model) if isinstance(each, TurnEvent) else (each.tool, each.title)
            latest[each.subtask, each.turn if isinstance(each, TurnEvent) else each.call] = (state, each.error, *about)
    return latest


def calls_of(trace: Trace, paths: Mapping[str, str], kind: str) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return what a trace says about each turn or tool call."""
    return {
        (paths[step.parent or ""], step.id.rpartition("#")[2]): (
            step.state,
            step.error,
            *((step.purpose, step.model) if kind == "turn" else (step.tool, step.name)),
        )
        for step in trace.steps
        if step.kind == kind
    }


def attempts_in(events: list[Event]) -> dict[str, SubtaskEvent]:
    """The latest event of each attempt at a subtask, by its workflow."""
    attempts = (each for each in events if isinstance(each, SubtaskEvent) and each.reason != "duplicate")
    return {each.workflow_id: each for each in attempts if each.workflow_id}


def records_in(events: list[Event]) -> dict[str, tuple[str, str, int]]:
    """Return the state, reason and attempts of each subtask of the plan, according to the events."""
    planned = next((each.subtasks for each in reversed(events) if isinstance(each, PlanEvent) and not each.subtask), ())
    records: dict[str, tuple[str, str, int]] = {each.id: ("waiting", "", 0) for each in planned}
    for each in events:
        if isinstance(each, SubtaskEvent) and each.subtask in records and each.reason != "duplicate":
            stopped = each.state in {"cancelled", "terminated", "timed_out"}
            state, reason = ("failure", each.state) if stopped else (each.state, each.reason)
            records[each.subtask] = state, reason, 0 if state == "skipped" else each.attempt
    questions, calls = open_requests(events)
    waits = dict.fromkeys(questions, "awaiting an answer")
    waits |= {each.partition("/")[0]: "awaiting call approval" for each in calls.values()}
    for id_, reason in waits.items():
        records[id_] = "running", reason, records[id_][2]
    if any(isinstance(each, EndEvent) for each in events):
        left = {id_ for id_, (state, *_) in records.items() if state == "waiting"}
        records |= dict.fromkeys(left, ("skipped", "not started", 0))
    return records


def state_in(events: list[Event]) -> str:
    return next(each.state for each in reversed(events) if isinstance(each, StateEvent) and not each.subtask)


def open_requests(events: list[Event]) -> tuple[set[str], dict[str, str]]:
    """Return subtasks with open questions, and the subtask of each open call, according to the events."""
    questions = {each.question.subtask: each.is_open for each in events if isinstance(each, QuestionEvent)}
    calls = {each.call.id: each for each in events if isinstance(each, CallEvent)}
    open_calls = {id_: each.subtask for id_, each in calls.items() if each.is_open}
    return {id_ for id_, is_open in questions.items() if is_open}, open_calls


def tree_text(status: Status, root: Projection, width: int = 200) -> str:
    output = StringIO()
    at = status.started_at
    assert at is not None
    limits = {"max_turns": 99, "budget_usd": 5}
    Console(file=output, width=width).print(session_tree("s", status.model_copy(update=limits), "", at, at, work=root))
    return output.getvalue()


def agents_of(agent: AgentView) -> list[AgentView]:
    return [agent, *(found for each in agent.below for found in agents_of(each))]


def words_of(record: SubtaskRecord) -> str:
    """Return the words with which each screen begins a subtask's description."""
    waits = record.state == "waiting" and record.depends_on
    return "waiting for" if waits else record.reason if is_awaiting(record) else record.state


def is_awaiting(record: SubtaskRecord) -> bool:
    """Whether a person has to decide before a subtask can continue."""
    return record.state == "running" and bool(record.reason)


def is_at_work(agent: AgentView) -> bool:
    """Whether the page shows an agent's latest steps without a click."""
    return bool(agent.record and agent.record.state == "running" and agent.steps(running=False))


def spent_words(usage: Usage) -> str:
    return f"{count(usage.turns, 'turn')} · {dollars(float(usage.cost_usd))}" if usage.turns else ""


_FOR_PROGRAMS: Final = [
    *ErrorType,
    *(each for each in (*get_args(FailureReason), *REASONS, *SESSION_STATES, *STOP_REASONS) if "_" in each),
]
_IDENTIFIERS: Final = re.compile(rf"\b({'|'.join(_FOR_PROGRAMS)})\b")


def check(session: Recorded) -> None:
    events, trace, status = session.events, trace_of(session.root), status_of(session.root)
    subtasks = attempts_in(events)
    paths = {trace.session: ""} | {id_: each.subtask for id_, each in subtasks.items()}

    spent = sum((each.usage for each in events if isinstance(each, SpendEvent)), Usage())
    assert sum((step.usage for step in trace.steps), Usage()).model_copy(update={"tool_calls": 0}) == spent
    assert (status.turns, status.spent_usd) == (spent.turns, spent.cost_usd)
    assert calls_in(events, TurnEvent) == calls_of(trace, paths, "turn")
    assert calls_in(events, ToolEvent) == calls_of(trace, paths, "tool")
    is_running = {step.id: step.state == "running" for step in trace.steps if step.kind in {"session", "subtask"}}
    assert is_running.pop(trace.session) == (not any(isinstance(each, EndEvent) for each in events))
    assert is_running == {id_: each.state == "running" for id_, each in subtasks.items()}
    if any(isinstance(each, StateEvent) for each in events):
        assert status.state == state_in(events)
    assert {each.id: (each.state, each.reason, each.attempts) for each in status.subtasks} == records_in(events)
    requests = {each.subtask for each in status.questions}, {each.id: each.subtask for each in status.calls}
    assert requests == open_requests(events)
    going_on = [*under_way(session.root)]
    begun = calls_in(events, TurnEvent) | calls_in(events, ToolEvent)
    assert {(path, step.activity_id) for path, step in going_on} == {
        call for call, (state, *_) in begun.items() if state == "running"
    }
    page = view_of_status(status, None, session.root)
    if status.started_at:
        tree = tree_text(status, session.root)
        live = Page("s", "").parts(page)["live"]
        assert page.tree is not None
        at_work = {each.draft.id for each in agents_of(page.tree) if each.draft and is_at_work(each)}
        assert {*re.findall(r'data-open="actions ([^"]*)" open', live)} - {session.root.scope.draft.id} == at_work
        seen = [tree, details(status, status.started_at), live.striptags()]
        of_agents = "because of ambiguous_input"
        assert [_IDENTIFIERS.findall(text.replace(of_agents, "")) for text in seen] == [[], [], []]
        roots = {"", *(each.id for each in status.subtasks)}
        assert all(step_words(step) in tree for path, step in going_on if path.partition("/")[0] in roots)
        assert f"{spent.turns} of 99 turns · " in tree.splitlines()[1]
        assert all(f" {each.id} {each.agent} {words_of(each)}" in tree for each in status.subtasks)
    assert page.tree is not None
    assert page.tree.spent == spent_words(spent)
    assert [(each.record, each.spent) for each in page.tree.below] == [
        (each, spent_words(each.usage)) for each in status.subtasks
    ]
    for record in status.subtasks:
        assert record_state(record) == ("waiting" if is_awaiting(record) else record.state)
        assert record_words(record).startswith(words_of(record))
    assert sum(len(each.steps(running=True)) for each in agents_of(page.tree)) <= len(going_on)
    over = sum(len(each.steps(running=False)) for each in agents_of(page.tree))
    assert over <= len([step for step in trace.steps if step.kind in {"turn", "tool"} and step.state != "running"])


@pytest.mark.parametrize("name", first_fast(list(RECORDED), 8))
async def test_views_agree_after_every_event(name: str) -> None:
    """They list the same turns, tools, subtasks and requests in the same states, and add up to the same spend."""
    for session in recorded_sessions(RECORDED[name]):
        async for _ in session.prefixes():
            check(session)

        spent = session.root.spent
        if isinstance(session.root.result, SessionResult):
            assert (spent.turns, spent.cost_usd) == _cost(session.root.result.usage)
        for path, attempts in _attempts(session.events).items():
            below = [each for each in session.events if f"{each.subtask}/".startswith(f"{path}/")]
            spent_below = sum((each.usage for each in below if isinstance(each, SpendEvent)), Usage())
            assert _cost(spent_below) == _cost(attempts)
        assert _span_dollars(trace_of(session.root)) == pytest.approx(float(spent.cost_usd))


@pytest.mark.parametrize("name", first_fast(list(RECORDED), 8))
async def test_the_live_tree_never_truncates_figures_ids_or_states(name: str) -> None:
    for session in recorded_sessions(RECORDED[name]):
        async for _ in session.prefixes():
            status = status_of(session.root)
            for width in (40, 80) if status.started_at else ():
                lines = tree_text(status, session.root, width).splitlines()
                assert max(map(cell_len, lines)) <= width
                assert f"{status.turns} of 99 turns · {dollars(float(status.spent_usd))} of $5.00" in lines[1]
                marks = [line for line in lines if " asks " not in line]
                shown = [next(line for line in marks if f" {each.id} " in line) for each in status.subtasks]
                cut = [words_of(each)[: width - 12 - len(f"{each.id} {each.agent}")] for each in status.subtasks]
                assert [words in line for words, line in zip(cut, shown, strict=True)] == [True] * len(shown)


@pytest.mark.parametrize(("name", "share"), first_fast(zip(RECORDED, cycle((0.3, 0.6, 0.9)), strict=False), 8))
async def test_views_show_no_activity_in_a_terminated_session(name: str, share: float) -> None:
    for whole, session in zip(recorded_sessions(RECORDED[name]), recorded_sessions(RECORDED[name]), strict=True):
        length = len([None async for _ in whole.prefixes()])
        async with aclosing(session.prefixes()) as prefixes:
            for _ in range(int(share * length)):
                await anext(prefixes)
        root = session.root
        if root.scope.draft.ended_at or root.scope.draft.started_at is None:
            continue
        change = await root.read(_TERMINATED)
        session.events += [each for each in change.outputs if not isinstance(each, Written)]

        check(session)
        status = status_of(root)
        assert (status.state, status.questions, status.calls) == ("terminated", (), ())
        assert not {each.state for each in status.subtasks} & {"running", "waiting"}
        assert not [*under_way(root)]
        page = view_of_status(status, None, root)
        assert page.tree is not None
        assert (page.status.standing.words, page.since, page.can_steer) == ("terminated", None, False)
        assert not any(each.steps(running=True) for each in agents_of(page.tree))


def _cost(usage: Usage) -> tuple[int, Decimal]:
    return usage.turns, usage.cost_usd


def _attempts(events: list[Event]) -> dict[str, Usage]:
    cost: dict[str, Usage] = {}
    for each in attempts_in(events).values():
        cost[each.subtask] = cost.get(each.subtask, Usage()) + each.usage
    return cost


def _span_dollars(trace: Trace) -> float:
    spans: list[Any] = json.loads(otlp(trace))["resourceSpans"][0]["scopeSpans"][0]["spans"]
    return sum(
        each["value"].get("doubleValue", 0.0)
        for span in spans
        for each in span["attributes"]
        if each["key"] == "chargehand.cost_usd"
    )
