"""The Nexus operations on sessions, as a worker serves them.

A caller has no rights in this namespace but these operations, so that each of them makes sure that it is a session that
is named. Operations other than `run` are answered within seconds, which is all the time that Nexus gives them.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import nexusrpc
from nexusrpc.handler import StartOperationContext, service_handler, sync_operation
from pydantic import BaseModel
from temporalio import nexus
from temporalio.client import WorkflowHandle
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from chargehand.contracts import (
    Answer,
    CallDecision,
    Interruption,
    Plan,
    PlanDecision,
    PlanEdit,
    RaisedLimits,
    Report,
    SessionRequest,
    Status,
    UserMessage,
)
from chargehand.errors import ChargehandError, NotReachable, SessionFailed, SessionNotFound
from chargehand.interface import Supervisor
from chargehand.nexus import ForSession, OneSession, SessionService
from chargehand.start_options import start_options
from chargehand.temporal_errors import translated
from chargehand.visibility import describe_session, is_open
from chargehand.wire import UpdateName

_SECONDS: Final = 8.0
"""For one operation; Nexus allows ten."""

_Result = TypeVar("_Result", bound=BaseModel)


@service_handler(service=SessionService)
class SessionOperations:
    """Carries out the operations by the worker's own client."""

    @nexus.workflow_run_operation
    async def run(
        self, ctx: nexus.WorkflowRunOperationContext, asked: ForSession[SessionRequest]
    ) -> nexus.WorkflowHandle[Report]:
        """Start a session whose report is the operation's result."""
        await _refuse_other_workflow(asked.session)
        try:
            return await ctx.start_workflow(
                Supervisor.run, asked.message, id=asked.session, **start_options(asked.message)
            )
        except WorkflowAlreadyStartedError as error:
            raise _refused(
                f"Session '{asked.session}' has ended already; the operation `result` returns its report."
            ) from error

    @sync_operation
    async def status(self, ctx: StartOperationContext, asked: OneSession) -> Status:  # noqa: ARG002  # the SDK's own signature
        async with _answered(asked.session) as session:
            return await session.query(Supervisor.status)

    @sync_operation
    async def result(self, ctx: StartOperationContext, asked: OneSession) -> Report:  # noqa: ARG002  # as above
        async with _answered(asked.session) as session:
            if is_open(await describe_session(nexus.client(), asked.session)):
                raise ChargehandError(
                    f"Session '{asked.session}' has not ended yet; the operation `run` with its id waits for it."
                )
            return await session.result()

    @sync_operation
    async def decide_plan(self, ctx: StartOperationContext, asked: ForSession[PlanDecision]) -> Plan:
        return await _update(ctx, UpdateName.DECIDE_PLAN, asked.session, Plan, asked.message)

    @sync_operation
    async def decide_call(self, ctx: StartOperationContext, asked: ForSession[CallDecision]) -> Status:
        return await _update(ctx, UpdateName.DECIDE_CALL, asked.session, Status, asked.message)

    @sync_operation
    async def answer(self, ctx: StartOperationContext, asked: ForSession[Answer]) -> Status:
        return await _update(ctx, UpdateName.ANSWER, asked.session, Status, asked.message)

    @sync_operation
    async def raise_limits(self, ctx: StartOperationContext, asked: ForSession[RaisedLimits]) -> Status:
        return await _update(ctx, UpdateName.RAISE_LIMITS, asked.session, Status, asked.message)

    @sync_operation
    async def tell(self, ctx: StartOperationContext, asked: ForSession[UserMessage]) -> Status:
        return await _update(ctx, UpdateName.TELL, asked.session, Status, asked.message)

    @sync_operation
    async def interrupt(self, ctx: StartOperationContext, asked: ForSession[Interruption]) -> Status:
        return await _update(ctx, UpdateName.INTERRUPT, asked.session, Status, asked.message)

    @sync_operation
    async def edit_plan(self, ctx: StartOperationContext, asked: ForSession[PlanEdit]) -> Plan:
        return await _update(ctx, UpdateName.EDIT_PLAN, asked.session, Plan, asked.message)

    @sync_operation
    async def finish_now(self, ctx: StartOperationContext, asked: OneSession) -> Status:
        return await _update(ctx, UpdateName.FINISH_NOW, asked.session, Status)

    @sync_operation
    async def cancel(self, ctx: StartOperationContext, asked: OneSession) -> None:  # noqa: ARG002  # as above
        async with _answered(asked.session) as session:
            await session.cancel()


async def _refuse_other_workflow(session_id: str) -> None:
    """Refuse an id that another workflow has: to start it would be to attach to that one, and to cancel it."""
    try:
        await describe_session(nexus.client(), session_id)
    except SessionNotFound as error:
        raise _refused(f"The id '{session_id}' is that of a workflow that is no session; choose another.") from error
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise


async def _update(
    ctx: StartOperationContext, name: UpdateName, session_id: str, result: type[_Result], *message: BaseModel
) -> _Result:
    """Send an update once, also if the operation is tried again because its answer was lost."""
    async with _answered(session_id) as session:
        return await session.execute_update(  # pyright: ignore[reportUnknownMemberType]  # the SDK's overloads
            name, args=message, id=ctx.request_id, result_type=result
        )


@asynccontextmanager
async def _answered(session_id: str) -> AsyncGenerator[WorkflowHandle[Any, Report]]:
    """Give access to a session; translate errors into those that end the operation, or have it tried again."""
    try:
        async with asyncio.timeout(_SECONDS):
            with translated(session_id):
                await describe_session(nexus.client(), session_id)
                yield nexus.client().get_workflow_handle_for(Supervisor.run, session_id)
    except (NotReachable, TimeoutError) as error:
        raise nexusrpc.HandlerError(
            f"Session '{session_id}' does not answer: {error}", type=nexusrpc.HandlerErrorType.UPSTREAM_TIMEOUT
        ) from error
    except ChargehandError as error:
        kind = error.error_type if isinstance(error, SessionFailed) else None
        raise _refused(str(error)) from ApplicationError(str(error), type=kind, non_retryable=True)


def _refused(why: str) -> nexusrpc.OperationError:
    return nexusrpc.OperationError(why, state=nexusrpc.OperationErrorState.FAILED)
