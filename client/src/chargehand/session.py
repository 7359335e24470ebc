"""One session on a server: read it, steer it, wait for its report."""

import uuid
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any, ClassVar

from pydantic import ConfigDict
from temporalio.client import Client, WorkflowHandle
from temporalio.exceptions import WorkflowAlreadyStartedError

from chargehand.contracts import (
    Answer,
    CallDecision,
    Event,
    Interruption,
    Plan,
    PlanChange,
    PlanDecision,
    PlanEdit,
    RaisedLimits,
    Report,
    SessionRequest,
    Status,
    Trace,
    UserMessage,
)
from chargehand.errors import SessionNotFound
from chargehand.follow import follow
from chargehand.interface import Supervisor
from chargehand.listing import SessionSummary, sessions_query, summarise
from chargehand.start_options import start_options
from chargehand.temporal_errors import translated
from chargehand.trace_reader import read_trace
from chargehand.visibility import describe, list_executions, result_of


class _Asked(SessionRequest):
    """A request as the newest run of a session has it, beside what earlier runs have handed on."""

    model_config = ConfigDict(extra="ignore")
    largest_bytes: ClassVar[int] = 50 << 20


class Session:
    """One session on a server."""

    def __init__(self, client: Client, session_id: str) -> None:
        self.id = session_id
        self._client = client
        self._handle: WorkflowHandle[Supervisor, Report] = client.get_workflow_handle_for(Supervisor.run, session_id)

    async def request(self) -> SessionRequest:
        """Read what was asked, as the session was given it; works without a worker."""
        with translated(self.id):
            started = await anext(self._handle.fetch_history_events(page_size=1))
            given = started.workflow_execution_started_event_attributes.input.payloads
            (asked,) = await self._client.data_converter.decode(list(given), [_Asked])
            return SessionRequest(**{name: getattr(asked, name) for name in asked.model_fields_set})

    async def ask(self, goal: str, *, session_id: str | None = None, **fields: Any) -> "Session":
        """Start a session that follows this one, which has to be finished, and knows its report.

        `fields` are those of `SessionRequest`; crew and tenant are this session's unless they are named.
        """
        request = await self.follow_up(SessionRequest.model_validate({**fields, "goal": goal}))
        with translated(self.id):
            task_queue = (await describe(self._client, self.id)).workflow_execution_info.task_queue
        return await start_session(self._client, task_queue, request, session_id)

    async def documents(self) -> tuple[str, ...]:
        """List the addresses of all documents that it could read: its own, and those of sessions that it follows."""
        asked = await self.request()
        found = dict.fromkeys(asked.documents)
        seen = {self.id}
        while asked.follows and asked.earlier_documents and asked.follows not in seen:
            seen.add(asked.follows)
            try:
                asked = await Session(self._client, asked.follows).request()
            except SessionNotFound:
                break  # its retention has ended
            found |= dict.fromkeys(asked.documents)
        return tuple(found)

    async def thread(self) -> tuple[SessionSummary, ...]:
        """List this session with those that it follows and those that follow it, in the order of their starts.

        Without search attributes on the server, those that follow it are not known.
        """
        with translated(self.id):
            found = {self.id: await self._summary(self.id)}
            first = found[self.id].thread
            if first:
                async for execution in list_executions(self._client, sessions_query(thread=first)):
                    summary = await summarise(execution, self._client.data_converter)
                    found[summary.id] = summary
        follows = found[self.id].follows
        while follows and follows not in found:
            try:
                with translated(follows):
                    found[follows] = await self._summary(follows)
            except SessionNotFound:
                break  # its retention has ended
            follows = found[follows].follows
        return tuple(sorted(found.values(), key=lambda each: each.started_at))

    async def _summary(self, session_id: str) -> SessionSummary:
        described = await describe(self._client, session_id)
        return await summarise(described.workflow_execution_info, self._client.data_converter)

    async def follow_up(self, request: SessionRequest) -> SessionRequest:
        """Have a request follow this session; its crew and tenant are this session's unless it names others."""
        before = await self.request()
        same = {name: getattr(before, name) for name in ("crew", "tenant") if name not in request.model_fields_set}
        return request.model_copy(update={**same, "follows": self.id})

    async def status(self) -> Status:
        """Say where the session stands."""
        with translated(self.id):
            return await self._handle.query(Supervisor.status)

    async def plan(self) -> Plan | None:
        """Show the plan; None until there is one."""
        with translated(self.id):
            return await self._handle.query(Supervisor.plan)

    async def decide_plan(self, decision: PlanDecision) -> Plan:
        """Approve, edit or reject the plan of a session that waits for approval."""
        with translated(self.id):
            return await self._handle.execute_update(  # pyright: ignore[reportUnknownMemberType]  # the SDK's overloads
                Supervisor.decide_plan, decision
            )

    async def raise_limits(self, raised: RaisedLimits) -> Status:
        """Allow the session more turns, money or time; one that waits for them goes on."""
        with translated(self.id):
            return await self._handle.execute_update(  # pyright: ignore[reportUnknownMemberType]  # the SDK's overloads
                Supervisor.raise_limits, raised
            )

    async def answer(self, answer: Answer) -> Status:
        """Answer the question of a subtask; `status().questions` lists what is open."""
        with translated(self.id):
            return await self._handle.execute_update(  # pyright: ignore[reportUnknownMemberType]  # the SDK's overloads
                Supervisor.answer, answer
            )

    async def decide_call(self, decision: CallDecision) -> Status:
        """Approve, edit or reject a tool call; `status().calls` lists those that wait."""
        with translated(self.id):
            return await self._handle.execute_update(  # pyright: ignore[reportUnknownMemberType]  # the SDK's overloads
                Supervisor.decide_call, decision
            )

    async def tell(self, text: str, subtask: str | None = None) -> Status:
        """Have agents read a message at their next turn: those of a subtask, or all that run or begin later."""
        with translated(self.id):
            return await self._handle.execute_update(  # pyright: ignore[reportUnknownMemberType]  # the SDK's overloads
                Supervisor.tell, UserMessage(text=text, subtask=subtask)
            )

    async def interrupt(self, subtask: str | None = None) -> Status:
        """End the tools that the agent of a subtask is using, or all agents; they go on with their next turn."""
        with translated(self.id):
            return await self._handle.execute_update(  # pyright: ignore[reportUnknownMemberType]  # the SDK's overloads
                Supervisor.interrupt, Interruption(subtask=subtask)
            )

    async def edit_plan(self, *edits: PlanChange) -> Plan:
        """Change what has not begun of the plan, in this order and checked as a whole; returns the plan."""
        with translated(self.id):
            return await self._handle.execute_update(  # pyright: ignore[reportUnknownMemberType]  # the SDK's overloads
                Supervisor.edit_plan, PlanEdit(edits=edits)
            )

    async def finish_now(self) -> Status:
        """Have the report written from what is there."""
        with translated(self.id):
            return await self._handle.execute_update(  # pyright: ignore[reportUnknownMemberType]  # the SDK's overloads
                Supervisor.finish_now
            )

    async def result(self) -> Report:
        """Wait for the report.

        Raises:
            SessionEnded: there is none and never will be.
        """
        with translated(self.id):
            return await result_of(self._handle)

    async def cancel(self) -> None:
        """Ask the session to stop without a report."""
        with translated(self.id):
            await self._handle.cancel()

    async def trace(self) -> Trace:
        """Read every step back from the histories; works without a worker."""
        with translated(self.id):
            return await read_trace(self._client, self.id)

    async def follow(self, after: str | None = None) -> AsyncGenerator[Event]:
        """Yield what happens in the session as it happens, from its beginning to its end; works without a worker.

        Args:
            after: the `cursor` of an event, to get every event after that one instead, in whichever process.

        Raises:
            SessionNotFound: the server has no such session.
            NotReachable: the server does not answer at first; later on it is waited for.
        """
        with translated(self.id):
            async for event in follow(self._client, self.id, after):
                yield event


async def start_session(client: Client, task_queue: str, request: SessionRequest, session_id: str | None) -> Session:
    """Start a session; with the id of one that exists, give that one back instead of starting a second."""
    session_id = session_id or f"session-{uuid.uuid4().hex[:12]}"
    # A session of this id that has ended meanwhile is no error: its report is still the answer.
    with translated(session_id), suppress(WorkflowAlreadyStartedError):
        await client.start_workflow(
            Supervisor.run, request, id=session_id, task_queue=task_queue, **start_options(request)
        )
    return Session(client, session_id)
