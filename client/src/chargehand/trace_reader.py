"""Read a session's steps back from Temporal's histories; needs a server, but no worker."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeVar, cast

from pydantic import JsonValue
from pydantic_core import to_json
from temporalio.api.common.v1 import Payloads
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from chargehand.contracts import Contract, PlannedSubtask, Recorded, Route, Source, Step, Trace, Usage
from chargehand.contracts.calls import call_title
from chargehand.history import State, end_state, error_of, time_of
from chargehand.visibility import describe, histories
from chargehand.wire import ActivityType, SignalName, WorkflowType

_SUPERVISOR: Final = "supervisor"
_MAX_PARALLEL_READS: Final = 8

_Kind = Literal["session", "subtask", "turn", "tool", "decision", "route", "other"]

_KINDS: Final[dict[str, _Kind]] = {
    WorkflowType.SUPERVISOR: "session",
    WorkflowType.SUBTASK: "subtask",
    ActivityType.TAKE_TURN: "turn",
    ActivityType.USE_TOOL: "tool",
}

_CALL_SIGNALS: Final = frozenset({SignalName.REQUEST_CALL, SignalName.CALL_REPLY})


_INLINE_BYTES: Final = 4_000
"""Larger arguments and results of tools are referred to."""


class _Arguments(Contract):
    arguments: dict[str, JsonValue] = {}


class _Called(Contract):
    """The part of a tool's request that is read."""

    call: _Arguments


class _ToolCall(_Arguments):
    """The part of a tool's call that is read."""

    tool: str


class _Given(Contract):
    """The part of a tool's result that is read."""

    output: dict[str, JsonValue] = {}
    sources: tuple[Source, ...] = ()


class _Used(Contract):
    """A call that was made before its turn ended."""

    position: int
    result: _Given
    began_at: datetime
    ended_at: datetime


class _Turn(Contract):
    """The part of a turn's result that is read: its cost, and the calls that were made before it ended."""

    model: str = ""
    usage: Usage = Usage()
    tool_calls: tuple[_ToolCall, ...] = ()
    used: tuple[_Used, ...] = ()


class _Requested(Contract):
    """The part of a request to decide about a call that is read."""

    number: int
    tool: str


class _Decided(Contract):
    """The part of the reply that is read."""

    number: int
    verdict: str
    reason: str = ""


_Payload = TypeVar("_Payload", bound=Contract)


@dataclass
class _Draft:
    """A step while its history is read."""

    id: str
    parent: str | None
    kind: _Kind
    name: str
    agent: str
    started_at: datetime | None = None
    ended_at: datetime | None = None
    attempts: int = 1
    state: State = "running"
    error: str = ""
    usage: Usage = field(default_factory=Usage)
    worker: str = ""
    subtask: str = ""
    task_hash: str = ""
    plan: tuple[PlannedSubtask, ...] = ()
    purpose: str = ""
    model: str = ""
    tool: str = ""
    arguments: Recorded | None = None
    result: Recorded | None = None
    route: Route | None = None

    def finished(self) -> Step:
        return Step(**vars(self))


@dataclass
class _WorkflowSteps:
    """The steps of one workflow, and the children that it started."""

    workflow: _Draft
    run: str = ""
    activities: dict[int, _Draft] = field(default_factory=dict[int, _Draft])
    """By the id of the event that scheduled them."""
    children: dict[int, _Draft] = field(default_factory=dict[int, _Draft])
    """As their parent's history describes them, by the id of the event that initiated them."""
    decisions: dict[int, _Draft] = field(default_factory=dict[int, _Draft])
    """About tool calls, by the number of the request."""
    runs: dict[int, str] = field(default_factory=dict[int, str])
    used: list[_Draft] = field(default_factory=list["_Draft"])
    """Tool calls that were made before the turns ended that asked for them."""
    routes: list[_Draft] = field(default_factory=list["_Draft"])
    """How agents got their work without a plan, as the memo says."""


async def read_trace(client: Client, session_id: str) -> Trace:
    """Read every step of a session, running or closed.

    Raises:
        RPCError: the server does not answer or has no such session.
    """
    reader = _Reader(client)
    steps = await reader.read(session_id, None, None)
    return Trace(session=session_id, run=reader.run, exported_at=datetime.now(UTC), steps=tuple(steps))


class _Reader:
    def __init__(self, client: Client) -> None:
        self._client = client
        self.run = ""
        """The first run of the session, when it is read."""
        self._parallel_reads = asyncio.Semaphore(_MAX_PARALLEL_READS)

    async def read(self, workflow_id: str, run_id: str | None, known: _Draft | None) -> list[Step]:
        """Read a workflow and everything below it; `known` is the fallback if its history was deleted."""
        try:
            async with self._parallel_reads:
                runs = await histories(self._client, workflow_id, run_id)
        except RPCError as error:
            if known and error.status is RPCStatusCode.NOT_FOUND:
                return [known.finished()]
            raise
        workflow = known or _Draft(workflow_id, None, "other", workflow_id, _agent_of(workflow_id))
        workflow.started_at = None
        collected = [await self._collect(workflow, run.events) for run in runs]
        if known is None:
            self.run = collected[0].run
        if workflow.state == "running":
            await self._add_pending(workflow_id, collected[-1])
        below = await asyncio.gather(
            *(
                self.read(child.id, found.runs[key], child)
                for found in collected
                for key, child in found.children.items()
                if key in found.runs
            )
        )
        steps_of_runs = (
            (*found.routes, *found.activities.values(), *found.used, *found.decisions.values()) for found in collected
        )
        own = [workflow, *(step for steps in steps_of_runs for step in steps)]
        return [*(draft.finished() for draft in own), *(step for steps in below for step in steps)]

    async def _collect(self, workflow: _Draft, events: Iterable[HistoryEvent]) -> _WorkflowSteps:
        """Collect the steps of one run; a workflow that continues as new has several."""
        found = _WorkflowSteps(workflow)
        for event in events:
            kind = event.WhichOneof("attributes") or ""
            attributes = getattr(event, kind) if kind else None
            if kind.startswith("activity_task"):
                await self._read_activity(found, event, kind, attributes)
            elif kind == "workflow_properties_modified_event_attributes":
                await self._read_routes(found, event, attributes)
                await self._read_plan(found.workflow, attributes)
            elif "child_workflow" in kind:
                await self._read_child(found, event, kind, attributes)
            elif getattr(attributes, "signal_name", "") in _CALL_SIGNALS:
                await self._read_decision(found, event, attributes)
            else:
                found.run = getattr(attributes, "original_execution_run_id", found.run)
                await self._read_workflow(found.workflow, event, kind, attributes)
        return found

    async def _read_workflow(self, draft: _Draft, event: HistoryEvent, kind: str, attributes: Any) -> None:
        if kind == "workflow_execution_started_event_attributes":
            if draft.started_at is None:  # a run that continues another has no summary
                draft.kind = _KINDS.get(attributes.workflow_type.name, "other")
                draft.name = await self._summary(event) or attributes.workflow_type.name
            draft.attempts = max(1, attributes.attempt)
        elif kind == "workflow_task_started_event_attributes":
            draft.started_at = draft.started_at or time_of(event.event_time)
        elif kind == "workflow_task_completed_event_attributes":
            draft.worker = attributes.identity
        elif state := end_state(kind, "workflow_execution"):
            _end(draft, state, event, attributes)

    async def _read_activity(self, found: _WorkflowSteps, event: HistoryEvent, kind: str, attributes: Any) -> None:
        if kind == "activity_task_scheduled_event_attributes":
            draft = found.activities[event.event_id] = _Draft(
                id=f"{found.workflow.id}#{attributes.activity_id}",
                parent=found.workflow.id,
                kind=_KINDS.get(attributes.activity_type.name, "other"),
                name=await self._summary(event) or attributes.activity_type.name,
                agent=found.workflow.agent,
            )
            if draft.kind == "turn":
                draft.purpose = draft.name.partition(": ")[2]
            if draft.kind == "tool":
                draft.tool = draft.name.partition(": ")[0]
                called = await self._decode(attributes.input, _Called)
                draft.arguments = _recorded(called.call.arguments if called else None, found, event)
            return
        draft = found.activities.get(attributes.scheduled_event_id)
        if draft is None:
            return
        if kind == "activity_task_started_event_attributes":
            draft.started_at = time_of(event.event_time)
            draft.attempts = attributes.attempt
            draft.worker = attributes.identity
        elif state := end_state(kind, "activity_task"):
            _end(draft, state, event, attributes)
            if state == "completed":
                if draft.kind == "turn" and (turn := await self._decode(attributes.result, _Turn)):
                    _read_turn(draft, turn, found, event)
                if draft.kind == "tool":
                    draft.usage = Usage(tool_calls=1)
                    given = await self._decode(attributes.result, _Given)
                    draft.result = _recorded(_whole(given) if given else None, found, event)

    async def _read_child(self, found: _WorkflowSteps, event: HistoryEvent, kind: str, attributes: Any) -> None:
        if kind == "start_child_workflow_execution_initiated_event_attributes":
            name = await self._summary(event)
            found.children[event.event_id] = _Draft(
                id=attributes.workflow_id,
                parent=found.workflow.id,
                kind=_KINDS.get(attributes.workflow_type.name, "other"),
                name=name or attributes.workflow_type.name,
                agent=_agent_of(attributes.workflow_id),
                subtask=name.partition(" ")[0],
                task_hash=attributes.workflow_id.rpartition("/")[2].partition("-")[0],
            )
            return
        draft = found.children.get(getattr(attributes, "initiated_event_id", 0))
        if draft is None:
            return
        if kind == "child_workflow_execution_started_event_attributes":
            found.runs[attributes.initiated_event_id] = attributes.workflow_execution.run_id
            draft.started_at = time_of(event.event_time)
        elif state := end_state(kind, "child_workflow_execution"):
            _end(draft, state, event, attributes)

    async def _read_decision(self, found: _WorkflowSteps, event: HistoryEvent, attributes: Any) -> None:
        """Read whether a tool call was allowed: requested by the subtask's signal, decided by the session's."""
        if attributes.signal_name == SignalName.REQUEST_CALL and found.workflow.kind == "subtask":
            requested = await self._decode(attributes.input, _Requested)
            if requested is not None:
                found.decisions[requested.number] = _Draft(
                    id=f"{found.workflow.id}#decision-{requested.number}",
                    parent=found.workflow.id,
                    kind="decision",
                    name=requested.tool,
                    agent=found.workflow.agent,
                    started_at=time_of(event.event_time),
                )
        elif attributes.signal_name == SignalName.CALL_REPLY:
            decided = await self._decode(attributes.input, _Decided)
            draft = found.decisions.get(decided.number) if decided else None
            if decided is not None and draft is not None:
                said = [draft.name, decided.verdict.replace("_", " "), decided.reason]
                draft.name, draft.state = ": ".join(part for part in said if part), "completed"
                draft.ended_at = time_of(event.event_time)

    async def _decode(self, payloads: Payloads, kind: type[_Payload]) -> _Payload | None:
        """Decode what is stored of a message; None if it is missing, so that the trace is without it."""
        try:
            return cast("_Payload", (await self._client.data_converter.decode(list(payloads.payloads), [kind]))[0])
        except Exception:  # noqa: BLE001  # whatever is wrong with it
            return None

    async def _read_routes(self, found: _WorkflowSteps, event: HistoryEvent, attributes: Any) -> None:
        """Read the routes of a memo, which repeats all those before."""
        if (payload := attributes.upserted_memo.fields.get("routes")) is None:
            return
        try:
            decoded = (await self._client.data_converter.decode([payload], [list[Route]]))[0]
        except Exception:  # noqa: BLE001  # as for a turn without its cost
            return
        known = len(found.routes)
        for number, route in enumerate(cast("list[Route]", decoded)[known:], start=known + 1):
            name = f"{route.subtask} " if route.subtask else ""
            found.routes.append(
                _Draft(
                    id=f"{found.workflow.id}#route-{number}",
                    parent=found.workflow.id,
                    kind="route",
                    name=f"{name}by {route.by}: {route.agent}{'' if route.used else ', not used'} ({route.reason})",
                    agent=found.workflow.agent,
                    started_at=time_of(event.event_time),
                    ended_at=time_of(event.event_time),
                    state="completed",
                    route=route,
                )
            )

    async def _read_plan(self, draft: _Draft, attributes: Any) -> None:
        """Read the plan in a memo."""
        payload = attributes.upserted_memo.fields.get("plan")
        if payload is None:
            return
        plan = await self._decode(Payloads(payloads=[payload]), cast("Any", tuple[PlannedSubtask, ...]))
        draft.plan = cast("tuple[PlannedSubtask, ...]", plan or draft.plan)

    async def _add_pending(self, workflow_id: str, found: _WorkflowSteps) -> None:
        """Describe running activities, whose start is not yet in the history."""
        description = await describe(self._client, workflow_id)
        pending = {each.activity_id: each for each in description.pending_activities}
        for draft in found.activities.values():
            if draft.state == "running" and (now := pending.get(draft.id.rpartition("#")[2])):
                _describe_pending(draft, now)

    async def _summary(self, event: HistoryEvent) -> str:
        if not event.user_metadata.HasField("summary"):
            return ""
        try:
            return str((await self._client.data_converter.decode([event.user_metadata.summary], [str]))[0])
        except Exception:  # noqa: BLE001  # a step without its summary is better than no trace
            return ""


def _read_turn(draft: _Draft, turn: _Turn, found: _WorkflowSteps, event: HistoryEvent) -> None:
    """Read the cost of a turn, and the tools that were used before it ended."""
    draft.usage, draft.model = turn.usage, turn.model
    if turn.model:
        draft.name = f"{draft.name} ({turn.model})"
    for used in turn.used:
        call = turn.tool_calls[used.position]
        found.used.append(
            _Draft(
                id=f"{draft.id}/{used.position + 1}.{call.tool}",
                parent=draft.parent,
                kind="tool",
                name=call_title(call.tool, call.arguments),
                agent=draft.agent,
                tool=call.tool,
                started_at=used.began_at,
                ended_at=used.ended_at,
                state="completed",
                usage=Usage(tool_calls=1),
                worker=draft.worker,
                arguments=_recorded(call.arguments, found, event),
                result=_recorded(_whole(used.result), found, event),
            )
        )


def _whole(given: _Given) -> dict[str, JsonValue]:
    """Join what a tool gave back with the texts that it read."""
    if not given.sources:
        return given.output
    return {**given.output, "sources": [source.model_dump(mode="json") for source in given.sources]}


def _recorded(value: JsonValue, found: _WorkflowSteps, event: HistoryEvent) -> Recorded | None:
    """Keep a value, or say where it stands if it is large; None if it could not be read."""
    if value is None:
        return None
    size = len(to_json(value, inf_nan_mode="null"))
    if size <= _INLINE_BYTES:
        return Recorded(bytes=size, value=value)
    return Recorded(bytes=size, reference=f"{found.workflow.id}/{found.run}#{event.event_id}")


def _describe_pending(draft: _Draft, now: PendingActivityInfo) -> None:
    if now.state != PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED:
        draft.started_at = time_of(now.last_started_time)
        draft.worker = now.last_worker_identity
    draft.attempts = max(1, now.attempt)
    if now.HasField("last_failure"):
        draft.error = error_of(now.last_failure)


def _end(draft: _Draft, state: State, event: HistoryEvent, attributes: Any) -> None:
    draft.state = state
    draft.ended_at = time_of(event.event_time)
    failure = getattr(attributes, "failure", None)
    if isinstance(failure, Failure):
        draft.error = error_of(failure)


def _agent_of(workflow_id: str) -> str:
    """Read the agent out of `<session>/<run>/<agent>/<fingerprint>`; anything else is a session."""
    parts = workflow_id.split("/")
    return parts[-2] if len(parts) > 3 else _SUPERVISOR
