"""The Nexus operations on sessions, served by workers.

Callers have no other rights in this namespace, so each operation checks that the workflow is a session.
Operations other than `run` are answered within seconds, as Nexus requires.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import nexusrpc
from nexusrpc.handler import StartOperationContext, service_handler, sync_operation
from temporalio import nexus
from temporalio.client import WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from chargehand.contracts import Report, SessionRequest
from chargehand.errors import ChargehandError, InvalidInput, NotReachable, SessionFailed
from chargehand.interface import Supervisor, refuse_another, start_options
from chargehand.messages import MESSAGES, Row
from chargehand.session import Session
from chargehand.temporal_errors import translated
from chargehand.visibility import describe_session, is_open
from chargehand_plugins.nexus.service import ForSession, OneSession, SessionService

_SECONDS: Final = 8.0
"""Time limit of one operation; Nexus allows ten."""


class SessionOperations:
    """Executes the operations with the worker's client."""

    @nexus.workflow_run_operation
    async def run(
        self, ctx: nexus.WorkflowRunOperationContext, asked: ForSession[SessionRequest]
    ) -> nexus.WorkflowHandle[Report]:
        """Start a session whose report is the operation's result."""
        await _refuse_another(asked)
        try:
            return await ctx.start_workflow(
                Supervisor.run,
                asked.message,
                id=asked.session,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                **start_options(asked.message),
            )
        except WorkflowAlreadyStartedError as error:
            raise _refusal(
                f"Session '{asked.session}' has ended already; the operation `result` returns its report."
            ) from error

    @sync_operation
    async def result(self, ctx: StartOperationContext, asked: OneSession) -> Report:  # noqa: ARG002  # the SDK's own signature
        async with _open_session(asked.session) as session:
            if is_open(await describe_session(nexus.client(), asked.session)):
                raise ChargehandError(
                    f"Session '{asked.session}' has not ended yet; the operation `run` with its id waits for it."
                )
            return await session.result()

    @sync_operation
    async def cancel(self, ctx: StartOperationContext, asked: OneSession) -> None:  # noqa: ARG002  # as above
        async with _open_session(asked.session) as session:
            await session.cancel()


def _sending(message: Row) -> Callable[..., Awaitable[Any]]:
    """Send a message; an update takes effect once even if the operation is retried."""

    async def send(_: object, ctx: StartOperationContext, asked: Any) -> Any:
        async with _open_session(asked.session):
            content = asked.message if message.takes else None
            return await Session(nexus.client(), asked.session).send(message, content, id=ctx.request_id)

    send.__name__, send.__annotations__ = message.name, {}  # the service has the types
    return sync_operation(send)


for _message in MESSAGES.values():
    setattr(SessionOperations, _message.name, _sending(_message))
service_handler(service=SessionService)(SessionOperations)


async def _refuse_another(asked: ForSession[SessionRequest]) -> None:
    """Refuse the id of a workflow with another request, since a start would attach to that workflow."""
    try:
        await refuse_another(nexus.client(), asked.session, asked.message)
    except InvalidInput as error:
        raise _refusal(str(error)) from error
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise


@asynccontextmanager
async def _open_session(session_id: str) -> AsyncGenerator[WorkflowHandle[Any, Report]]:
    """Yield a session; translate errors into Nexus errors that are retried or final."""
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
        raise _refusal(str(error)) from ApplicationError(str(error), type=kind, non_retryable=True)


def _refusal(why: str) -> nexusrpc.OperationError:
    return nexusrpc.OperationError(why, state=nexusrpc.OperationErrorState.FAILED)
