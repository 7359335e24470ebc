"""The Python client: connect, and start, list and find sessions."""

import os
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from os import PathLike
from typing import Any, TypeVar, Unpack, overload

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json
from temporalio.client import Client
from temporalio.service import RPCError

from chargehand.connect import connect
from chargehand.contracts import ConversationRequest, Report, SessionRequest
from chargehand.contracts.base import contract
from chargehand.contracts.problems import describe_problems, join_problems
from chargehand.errors import OutputInvalid, SearchAttributesMissing
from chargehand.listing import SessionFilters, SessionSummary, sessions_query, summarise
from chargehand.payloads.encryption import Encryption
from chargehand.payloads.storage import Storage
from chargehand.schedules import Overlap, delete_schedule, put_schedule, scheduled, times
from chargehand.search_attributes import UNANSWERABLE, missing_attributes
from chargehand.session import Conversation, Session, prepared, start_conversation, start_session, with_documents
from chargehand.shared_files import Document, SharedFiles
from chargehand.temporal_errors import translated
from chargehand.visibility import list_executions
from chargehand.wire import TASK_QUEUE, SearchAttribute

OutputModel = TypeVar("OutputModel", bound=BaseModel)


class Chargehand:
    """Sessions on one Temporal namespace and task queue."""

    def __init__(
        self,
        client: Client,
        task_queue: str = TASK_QUEUE,
        *,
        artifacts: str | PathLike[str] | None = None,
        encryption: Encryption | None = None,
    ) -> None:
        """Use a connected client, built with `chargehand.converter.data_converter()`.

        Args:
            client: connected to a server and namespace.
            task_queue: the workers' task queue.
            artifacts: where the workers read documents: a directory, `s3://bucket/prefix` or `gs://bucket/prefix`.
            encryption: for uploaded documents; must match the workers'.
        """
        self.client = client
        self.task_queue = task_queue
        self._files = SharedFiles(None if artifacts is None else str(artifacts), encryption)

    @classmethod
    async def connect(
        cls,
        address: str | None = None,
        *,
        task_queue: str | None = None,
        encryption: Encryption | None = None,
        storage: Storage | None = None,
        artifacts: str | PathLike[str] | None = None,
    ) -> "Chargehand":
        """Connect to a server.

        Absent arguments are taken from the settings of Temporal (`TEMPORAL_ADDRESS`, `TEMPORAL_API_KEY`, TLS, profiles)
        and of Chargehand (`CHARGEHAND_…`, as set for the workers). If no server is set, it is the embedded
        server that `chargehand up` runs on this machine, or else `localhost:7233`.

        Args:
            address: `HOST:PORT` of the server.
            task_queue: the workers' task queue; CHARGEHAND_TASK_QUEUE, or `chargehand`.
            encryption: the workers'; CHARGEHAND_ENCRYPTION_KEYS and CHARGEHAND_ENCRYPTION_KEY_ID.
            storage: the workers' storage of large payloads; CHARGEHAND_STORAGE.
            artifacts: where the workers read documents: a directory, `s3://bucket/prefix` or `gs://bucket/prefix`;
                CHARGEHAND_ARTIFACTS.

        Raises:
            UnusableSettings: a setting, a profile or the address is wrong, or the namespace does not exist.
            NotReachable: no server answers.
            AccessDenied: the server refuses the API key or the certificate.
            ProtectionSettingsError: the settings of encryption or storage are wrong.
        """
        connection = await connect(address, encryption, storage)
        return cls(
            connection.client,
            task_queue or os.environ.get("CHARGEHAND_TASK_QUEUE") or TASK_QUEUE,
            artifacts=artifacts or connection.artifacts,
            encryption=connection.encryption,
        )

    async def start(
        self, request: str | SessionRequest, *, documents: Sequence[Document] = (), session_id: str | None = None
    ) -> Session:
        """Start a session; return the existing one for the same id and request.

        Args:
            request: a goal in the user's words, or a whole request.
            documents: for the agents to read besides the request's own: paths of files and folders, and (name, bytes),
                which are uploaded; and public `https://` addresses, which the workers read.
            session_id: up to 175 characters; generated if absent.

        Raises:
            InvalidInput: the goal or the id is invalid.
            AnotherRequest: the id belongs to a session that was started with another request.
            UploadRefused: a document cannot be used, or it is unknown where the workers read.
        """
        prepared_request = await prepared(request, documents, self._files)
        return await start_session(self.client, self.task_queue, prepared_request, session_id, self._files)

    async def converse(
        self,
        request: ConversationRequest | None = None,
        *,
        documents: Sequence[Document] = (),
        conversation_id: str | None = None,
        **fields: Any,
    ) -> Conversation:
        """Open a conversation; return the open one for the same id and request.

        Args:
            request: a whole request; otherwise `fields` are those of `ConversationRequest`.
            documents: for the agents to read, as in `start()`.
            conversation_id: up to 175 characters; generated if absent.
            fields: such as `crew`.

        Raises:
            InvalidInput: a field or the id is invalid.
            AnotherRequest: the id belongs to a conversation that was opened with another request.
            AlreadyEnded: the id belongs to a conversation that has ended.
            UploadRefused: a document cannot be used, or it is unknown where the workers read.
        """
        conversation_request = contract(ConversationRequest, **fields) if request is None else request
        conversation_request = await with_documents(conversation_request, documents, self._files)
        return await start_conversation(self.client, self.task_queue, conversation_request, conversation_id)

    def conversation(self, conversation_id: str) -> Conversation:
        """Return a handle to a conversation by id, without checking that it exists."""
        return Conversation(self.client, conversation_id)

    @overload
    async def run(
        self, request: str | SessionRequest, *, documents: Sequence[Document] = (), session_id: str | None = None
    ) -> Report: ...

    @overload
    async def run(
        self,
        request: str | SessionRequest,
        *,
        output: type[OutputModel],
        documents: Sequence[Document] = (),
        session_id: str | None = None,
    ) -> OutputModel: ...

    async def run(
        self,
        request: str | SessionRequest,
        *,
        output: type[OutputModel] | None = None,
        documents: Sequence[Document] = (),
        session_id: str | None = None,
    ) -> Report | OutputModel:
        """Run a session to its end; return the report, or its output as an instance of a pydantic model.

        The arguments are those of `start`; `output` is the model.

        Raises:
            SessionEnded: the session ended without a report.
            OutputInvalid: the report has no valid output; the error has the report.
        """
        if isinstance(request, str):
            request = contract(SessionRequest, goal=request)
        if output is not None:
            request = request.replace(output_schema=output.model_json_schema())
        session = await self.start(request, documents=documents, session_id=session_id)
        report = await session.result()
        return report if output is None else output_of(report, output)

    def session(self, session_id: str) -> Session:
        """Return a handle to a session by id, without checking that it exists."""
        return Session(self.client, session_id, self._files)

    async def list(self, limit: int = 20, **filters: Unpack[SessionFilters]) -> AsyncIterator[SessionSummary]:
        """List root sessions, newest first.

        Args:
            limit: the maximum number of sessions.
            filters: the fields of `SessionFilters`, such as `state="running"`.

        Raises:
            InvalidInput: a filter is invalid.
            SearchAttributesMissing: a filter needs search attributes that the namespace does not have.
        """
        query = sessions_query(**filters)
        with translated(""):
            try:
                async for execution in list_executions(self.client, query, limit):
                    yield await summarise(execution, self.client.data_converter)
            except RPCError as error:
                missing = await self.missing_search_attributes() if error.status in UNANSWERABLE else ()
                if not missing:
                    raise
                raise SearchAttributesMissing(missing) from error

    async def schedule(
        self,
        schedule_id: str,
        request: str | SessionRequest,
        *,
        cron: str | None = None,
        every: timedelta | None = None,
        time_zone: str | None = None,
        overlap: Overlap = "skip",
        documents: Sequence[Document] = (),
    ) -> None:
        """Create a Temporal schedule that starts sessions, or replace the one with the same id.

        Each session has the id `<schedule_id>-<time in UTC>`, such as `nightly-2026-11-21T02:00:00Z`.

        Args:
            schedule_id: 1 to 150 characters.
            request: a goal in the user's words, or a whole request.
            cron: when to start: five fields such as `0 2 * * *`, or a word such as `@daily`; either this or `every`.
            every: the interval between starts, from a minute to ten years.
            time_zone: of `cron`, such as `Europe/Berlin`; UTC if absent.
            overlap: what to do while the last session is still running: `skip` this one, `wait` for the last (at most
                one waits), or start it `beside` the last.
            documents: as for `start`; uploaded now.

        Raises:
            InvalidInput: an argument is invalid.
            UploadRefused: a document cannot be used, or it is unknown where the workers read.
        """
        prepared_request = await prepared(request, documents, self._files)
        definition = scheduled(schedule_id, prepared_request, self.task_queue, times(cron, every, time_zone), overlap)
        with translated(schedule_id):
            await put_schedule(self.client, schedule_id, definition)

    async def unschedule(self, schedule_id: str) -> None:
        """Delete a schedule if it exists; its sessions continue."""
        with translated(schedule_id):
            await delete_schedule(self.client, schedule_id)

    async def missing_search_attributes(self) -> tuple[SearchAttribute, ...]:
        """List the session search attributes that the namespace lacks; without them, lists show fewer details."""
        with translated(""):
            return await missing_attributes(self.client)


def output_of(report: Report, output: type[OutputModel]) -> OutputModel:
    """Read the output of a report as an instance of a pydantic model.

    Raises:
        OutputInvalid: there is none, or it violates rules of the model that its JSON Schema does not express.
    """
    if report.output_problems:
        raise OutputInvalid(report, join_problems(report.output_problems))
    try:
        return output.model_validate_json(to_json(report.output))
    except ValidationError as error:
        raise OutputInvalid(report, join_problems(describe_problems(error, output))) from error
