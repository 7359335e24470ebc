"""The Python client: connect, and start, list and find sessions."""

import uuid
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import TypeVar, overload

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import to_json
from temporalio.client import Client
from temporalio.envconfig import ClientConfig
from temporalio.exceptions import WorkflowAlreadyStartedError

from chargehand.contracts import Report, SessionRequest
from chargehand.converter import data_converter, describe_problems, join_problems
from chargehand.errors import NotReachable, OutputInvalid
from chargehand.interface import Supervisor
from chargehand.payloads.encryption import Encryption
from chargehand.payloads.storage import Storage
from chargehand.session import Session
from chargehand.start_options import start_options
from chargehand.temporal_errors import translated
from chargehand.visibility import ROOT_SESSIONS, list_executions, state_word
from chargehand.wire import TASK_QUEUE

OutputModel = TypeVar("OutputModel", bound=BaseModel)


class SessionSummary(BaseModel):
    """One line of a list of sessions."""

    model_config = ConfigDict(frozen=True)

    id: str
    state: str
    """Temporal's word: running, paused, completed, failed, canceled, terminated, timed_out."""
    started_at: datetime
    ended_at: datetime | None


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
        with translated(session_id), suppress(WorkflowAlreadyStartedError):
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
        with translated(""):
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
