"""One session on a server: read it, steer it, wait for its report."""

from collections.abc import AsyncGenerator
from typing import ClassVar

from pydantic import ConfigDict
from temporalio.client import Client, WorkflowHandle

from chargehand.contracts import (
    Answer,
    CallDecision,
    Event,
    Plan,
    PlanDecision,
    RaisedLimits,
    Report,
    SessionRequest,
    Status,
    Trace,
)
from chargehand.follow import follow
from chargehand.interface import Supervisor
from chargehand.temporal_errors import translated
from chargehand.trace_reader import read_trace
from chargehand.visibility import result_of


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
