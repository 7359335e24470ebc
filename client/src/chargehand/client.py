"""The Python client: start sessions, watch them, fetch their reports."""

import uuid
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import ClassVar, Final, TypeVar, overload

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import to_json
from temporalio.client import (
    Client,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
    WorkflowUpdateFailedError,
)
from temporalio.envconfig import ClientConfig
from temporalio.exceptions import ApplicationError, CancelledError, TerminatedError, WorkflowAlreadyStartedError
from temporalio.exceptions import TimeoutError as WorkflowTimedOut
from temporalio.service import RPCError, RPCStatusCode

from chargehand.contracts import (
    Answer,
    CallDecision,
    Plan,
    PlanDecision,
    RaisedLimits,
    Report,
    SessionRequest,
    Status,
    Trace,
)
from chargehand.converter import data_converter, describe_problems, join_problems
from chargehand.errors import (
    ChargehandError,
    NotReachable,
    OutputInvalid,
    SessionCancelled,
    SessionFailed,
    SessionNotFound,
    SessionTerminated,
)
from chargehand.interface import Supervisor
from chargehand.payloads.encryption import Encryption
from chargehand.payloads.storage import Storage
from chargehand.start_options import start_options
from chargehand.trace_reader import read_trace
from chargehand.visibility import ROOT_SESSIONS, list_executions, result_of, state_word
from chargehand.wire import TASK_QUEUE, ErrorType

OutputModel = TypeVar("OutputModel", bound=BaseModel)

_UNANSWERED: Final = {RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.UNAVAILABLE, RPCStatusCode.CANCELLED}


class _Asked(SessionRequest):
    """A request as the newest run of a session has it, beside what earlier runs have handed on."""

    model_config = ConfigDict(extra="ignore")
    largest_bytes: ClassVar[int] = 50 << 20


class SessionSummary(BaseModel):
    """One line of a list of sessions."""

    model_config = ConfigDict(frozen=True)

    id: str
    state: str
    """Temporal's word: running, paused, completed, failed, canceled, terminated, timed_out."""
    started_at: datetime
    ended_at: datetime | None


class Session:
    """One session on a server."""

    def __init__(self, client: Client, session_id: str) -> None:
        self.id = session_id
        self._client = client
        self._handle: WorkflowHandle[Supervisor, Report] = client.get_workflow_handle_for(Supervisor.run, session_id)

    async def request(self) -> SessionRequest:
        """Read what was asked, as the session was given it; works without a worker."""
        with _translated(self.id):
            started = await anext(self._handle.fetch_history_events(page_size=1))
            given = started.workflow_execution_started_event_attributes.input.payloads
            (asked,) = await self._client.data_converter.decode(list(given), [_Asked])
            return SessionRequest(**{name: getattr(asked, name) for name in asked.model_fields_set})

    async def status(self) -> Status:
        """Say where the session stands."""
        with _translated(self.id):
            return await self._handle.query(Supervisor.status)

    async def plan(self) -> Plan | None:
        """Show the plan; None until there is one."""
        with _translated(self.id):
            return await self._handle.query(Supervisor.plan)

    async def decide_plan(self, decision: PlanDecision) -> Plan:
        """Approve, edit or reject the plan of a session that waits for approval."""
        with _translated(self.id):
            return await self._handle.execute_update(  # pyright: ignore[reportUnknownMemberType]  # the SDK's overloads
                Supervisor.decide_plan, decision
            )

    async def raise_limits(self, raised: RaisedLimits) -> Status:
        """Allow the session more turns, money or time; one that waits for them goes on."""
        with _translated(self.id):
            return await self._handle.execute_update(  # pyright: ignore[reportUnknownMemberType]  # the SDK's overloads
                Supervisor.raise_limits, raised
            )

    async def answer(self, answer: Answer) -> Status:
        """Answer the question of a subtask; `status().questions` lists what is open."""
        with _translated(self.id):
            return await self._handle.execute_update(  # pyright: ignore[reportUnknownMemberType]  # the SDK's overloads
                Supervisor.answer, answer
            )

    async def decide_call(self, decision: CallDecision) -> Status:
        """Approve, edit or reject a tool call; `status().calls` lists those that wait."""
        with _translated(self.id):
            return await self._handle.execute_update(  # pyright: ignore[reportUnknownMemberType]  # the SDK's overloads
                Supervisor.decide_call, decision
            )

    async def finish_now(self) -> Status:
        """Have the report written from what is there."""
        with _translated(self.id):
            return await self._handle.execute_update(  # pyright: ignore[reportUnknownMemberType]  # the SDK's overloads
                Supervisor.finish_now
            )

    async def result(self) -> Report:
        """Wait for the report.

        Raises:
            SessionEnded: there is none and never will be.
        """
        with _translated(self.id):
            return await result_of(self._handle)

    async def cancel(self) -> None:
        """Ask the session to stop without a report."""
        with _translated(self.id):
            await self._handle.cancel()

    async def trace(self) -> Trace:
        """Read every step back from the histories; works without a worker."""
        with _translated(self.id):
            return await read_trace(self._client, self.id)


class Chargehand:
    """Sessions on one Temporal namespace and task queue."""

    def __init__(self, client: Client, task_queue: str = TASK_QUEUE) -> None:
        """Use a connected client; it must have been built with `chargehand.converter.data_converter()`."""
        self.client = client
        self.task_queue = task_queue

    @classmethod
    async def connect(
        cls,
        address: str | None = None,
        *,
        task_queue: str = TASK_QUEUE,
        encryption: Encryption | None = None,
        storage: Storage | None = None,
    ) -> "Chargehand":
        """Connect to an address, or as Temporal's own environment variables and profiles say.

        Encryption and storage have to be those of the workers.
        """
        options = ClientConfig.load_client_connect_config()
        if address:
            options["target_host"] = address
        try:
            client = await Client.connect(**options, data_converter=data_converter(encryption, storage))
        except RuntimeError as error:
            target = options.get("target_host", "localhost:7233")
            raise NotReachable(f"No Temporal server answers at {target}. Is it running? ({error})") from error
        return cls(client, task_queue)

    async def start(self, request: SessionRequest, *, session_id: str | None = None) -> Session:
        """Start a session; with the id of one that exists, give that one back instead of starting a second."""
        session_id = session_id or f"session-{uuid.uuid4().hex[:12]}"
        # A session of this id that has ended meanwhile is no error: its report is still the answer.
        with _translated(session_id), suppress(WorkflowAlreadyStartedError):
            await self.client.start_workflow(
                Supervisor.run,
                request,
                id=session_id,
                task_queue=self.task_queue,
                **start_options(request),
            )
        return self.session(session_id)

    @overload
    async def run(self, request: SessionRequest, *, session_id: str | None = None) -> Report: ...

    @overload
    async def run(
        self, request: SessionRequest, *, output: type[OutputModel], session_id: str | None = None
    ) -> OutputModel: ...

    async def run(
        self, request: SessionRequest, *, output: type[OutputModel] | None = None, session_id: str | None = None
    ) -> Report | OutputModel:
        """Run a session to its end; returns the report, or the report's output as an instance of a pydantic model.

        Raises:
            SessionEnded: there is no report.
            OutputInvalid: there is a report without a valid output; the error has the report.
        """
        if output is not None:
            request = request.model_copy(update={"output_schema": output.model_json_schema()})
        session = await self.start(request, session_id=session_id)
        report = await session.result()
        return report if output is None else output_of(report, output)

    def session(self, session_id: str) -> Session:
        """Give access to a session by its id, without asking the server whether it exists."""
        return Session(self.client, session_id)

    async def list(self, limit: int = 20) -> AsyncIterator[SessionSummary]:
        """List sessions, the newest first."""
        with _translated(""):
            async for execution in list_executions(self.client, ROOT_SESSIONS, limit):
                yield SessionSummary(
                    id=execution.execution.workflow_id,
                    state=state_word(execution),
                    started_at=execution.start_time.ToDatetime(UTC),
                    ended_at=execution.close_time.ToDatetime(UTC) if execution.HasField("close_time") else None,
                )


def output_of(report: Report, output: type[OutputModel]) -> OutputModel:
    """Read the output of a report as an instance of a pydantic model.

    Raises:
        OutputInvalid: there is none, or the model has rules that its JSON Schema does not express.
    """
    if report.output_problems:
        raise OutputInvalid(report, join_problems(report.output_problems))
    try:
        return output.model_validate_json(to_json(report.output))
    except ValidationError as error:
        raise OutputInvalid(report, join_problems(describe_problems(error, output))) from error


@contextmanager
def _translated(session_id: str) -> Generator[None]:
    """Translate Temporal's errors."""
    try:
        yield
    except WorkflowFailureError as error:
        raise ending(session_id, error.cause) from error
    except WorkflowUpdateFailedError as error:
        raise _failure(error.cause) from error
    except (WorkflowQueryFailedError, WorkflowQueryRejectedError) as error:
        raise ChargehandError(f"Session '{session_id}' cannot answer: {error}") from error
    except ApplicationError as error:  # from the converter: the payload is invalid or too large
        raise _failure(error) from error
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND and "already completed" in error.message:
            raise ChargehandError(f"Session '{session_id}' has ended and cannot be changed.") from error
        if error.status is RPCStatusCode.NOT_FOUND:
            raise SessionNotFound(session_id) from error
        if error.status in _UNANSWERED:
            raise NotReachable(
                "No answer: the Temporal server is unreachable, or no worker polls the session's task queue. "
                "To find the cause: `chargehand doctor`."
            ) from error
        raise ChargehandError(f"The Temporal server refused: {error.message}") from error


def ending(session_id: str, cause: BaseException) -> ChargehandError:
    """Translate the error that a session ended by."""
    match cause:
        case CancelledError():
            return SessionCancelled(f"Session '{session_id}' was cancelled.")
        case TerminatedError():
            return SessionTerminated(f"Session '{session_id}' was terminated. {cause.message}".strip())
        case WorkflowTimedOut():
            return SessionTerminated(
                f"Session '{session_id}' was ended by the server a day after its deadline: no worker ended it. "
                "Start a worker (`chargehand doctor` lists them) and start the session again."
            )
        case _:
            return _failure(cause)


def _failure(cause: BaseException) -> SessionFailed:
    if isinstance(cause, ApplicationError):
        known = cause.type if cause.type in set(ErrorType) else None
        return SessionFailed(cause.message, ErrorType(known) if known else None)
    return SessionFailed(str(cause), None)
