"""The Python client: connect, and start, list and find sessions."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import TypeVar, overload

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json
from temporalio.client import Client
from temporalio.envconfig import ClientConfig
from temporalio.service import RPCError

from chargehand.contracts import Report, SessionRequest
from chargehand.converter import data_converter, describe_problems, join_problems
from chargehand.errors import NotReachable, OutputInvalid, SearchAttributesMissing
from chargehand.listing import SessionSummary, sessions_query, summarise
from chargehand.payloads.encryption import Encryption
from chargehand.payloads.storage import Storage
from chargehand.search_attributes import UNANSWERABLE, missing_attributes
from chargehand.session import Session, start_session
from chargehand.temporal_errors import translated
from chargehand.visibility import list_executions
from chargehand.wire import TASK_QUEUE, SearchAttribute

OutputModel = TypeVar("OutputModel", bound=BaseModel)


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
        return await start_session(self.client, self.task_queue, request, session_id)

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

    async def list(
        self,
        limit: int = 20,
        *,
        state: str | None = None,
        crew: str | None = None,
        tenant: str | None = None,
        waiting: bool = False,
        since: datetime | None = None,
        thread: str | None = None,
    ) -> AsyncIterator[SessionSummary]:
        """List sessions that no other session started, the newest first.

        Args:
            limit: the most sessions.
            state: their own, such as `executing`, or Temporal's, such as `running`.
            crew: the name of their crew.
            tenant: whom they run for.
            waiting: only those that wait for a person.
            since: only those that were started then or later.
            thread: the first session's id of those that follow each other.

        Raises:
            SearchAttributesMissing: a filter needs search attributes that the namespace does not have.
        """
        query = sessions_query(state=state, crew=crew, tenant=tenant, waiting=waiting, since=since, thread=thread)
        with translated(""):
            try:
                async for execution in list_executions(self.client, query, limit):
                    yield await summarise(execution, self.client.data_converter)
            except RPCError as error:
                missing = await self.missing_search_attributes() if error.status in UNANSWERABLE else ()
                if not missing:
                    raise
                raise SearchAttributesMissing(missing) from error

    async def missing_search_attributes(self) -> tuple[SearchAttribute, ...]:
        """List the search attributes of sessions that the namespace lacks; without them a list says less."""
        with translated(""):
            return await missing_attributes(self.client)


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
