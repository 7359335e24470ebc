"""The Python client: connect, and start, list and find sessions."""

import os
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from os import PathLike
from typing import Any, TypeVar, overload

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json
from temporalio.client import Client
from temporalio.service import RPCError

from chargehand.connect import connect
from chargehand.contracts import ConversationRequest, Report, SessionRequest
from chargehand.contracts.base import contract
from chargehand.contracts.problems import describe_problems, join_problems
from chargehand.errors import OutputInvalid, SearchAttributesMissing
from chargehand.listing import SessionSummary, sessions_query, summarise
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
        """Use a connected client; it must have been built with `chargehand.converter.data_converter()`.

        Args:
            client: connected to a server and namespace.
            task_queue: of the workers.
            artifacts: where the workers read documents: a directory, `s3://bucket/prefix` or `gs://bucket/prefix`.
            encryption: of uploaded documents; that of the workers.
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

        What is not given is taken from the settings of Temporal (`TEMPORAL_ADDRESS`, `TEMPORAL_API_KEY`, TLS, profiles)
        and of Chargehand (`CHARGEHAND_…`, as they are set for the workers). Where no server is set, it is the embedded
        one of this machine that `chargehand up` runs, or else `localhost:7233`.

        Args:
            address: `HOST:PORT` of the server.
            task_queue: of the workers; CHARGEHAND_TASK_QUEUE, or `chargehand`.
            encryption: that of the workers; CHARGEHAND_ENCRYPTION_KEYS and CHARGEHAND_ENCRYPTION_KEY_ID.
            storage: of large payloads, that of the workers; CHARGEHAND_STORAGE.
            artifacts: where the workers read documents: a directory, `s3://bucket/prefix` or `gs://bucket/prefix`;
                CHARGEHAND_ARTIFACTS.

        Raises:
            UnusableSettings: a setting, a profile or the address is wrong, or there is no such namespace.
            NotReachable: no server answers.
            AccessDenied: the server refuses the API key or the certificate.
            ProtectionSettingsError: the settings of encryption or storage are wrong.
        """
        found = await connect(address, encryption, storage)
        return cls(
            found.client,
            task_queue or os.environ.get("CHARGEHAND_TASK_QUEUE") or TASK_QUEUE,
            artifacts=artifacts or found.artifacts,
            encryption=found.encryption,
        )

    async def start(
        self, request: str | SessionRequest, *, documents: Sequence[Document] = (), session_id: str | None = None
    ) -> Session:
        """Start a session; with the id of one that exists, and the same request, give that one back.

        Args:
            request: a goal in the user's words, or a whole request.
            documents: what the agents may read beside the request's own: paths of files and folders, and (name, bytes),
                which are uploaded; and public addresses at `https://`, which the workers read.
            session_id: up to 175 characters; made up if absent.

        Raises:
            InvalidInput: the goal or the id is invalid.
            AnotherRequest: the id is that of a session that was started with another request.
            UploadRefused: a document cannot be used, or it is unknown where the workers read.
        """
        asked = await prepared(request, documents, self._files)
        return await start_session(self.client, self.task_queue, asked, session_id, self._files)

    async def converse(
        self,
        request: ConversationRequest | None = None,
        *,
        documents: Sequence[Document] = (),
        conversation_id: str | None = None,
        **fields: Any,
    ) -> Conversation:
        """Open a conversation; with the id of one that goes on, and nothing else asked for, give that one back.

        Args:
            request: a whole request; without one, `fields` are those of `ConversationRequest`.
            documents: what the agents may read beside the request's own, as in `start()`.
            conversation_id: up to 175 characters; made up if absent.
            fields: such as `crew`.

        Raises:
            InvalidInput: a field or the id is invalid.
            AnotherRequest: the id is that of a conversation that was opened with other values of these fields.
            AlreadyEnded: the id is that of a conversation that has ended.
            UploadRefused: a document cannot be used, or it is unknown where the workers read.
        """
        asked = contract(ConversationRequest, **fields) if request is None else request
        asked = await with_documents(asked, documents, self._files)
        return await start_conversation(self.client, self.task_queue, asked, conversation_id)

    def conversation(self, conversation_id: str) -> Conversation:
        """Give access to a conversation by its id, without asking the server whether it exists."""
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
        """Run a session to its end; returns the report, or the report's output as an instance of a pydantic model.

        The arguments are those of `start`; `output` is the model.

        Raises:
            SessionEnded: there is no report.
            OutputInvalid: there is a report without a valid output; the error has the report.
        """
        if isinstance(request, str):
            request = contract(SessionRequest, goal=request)
        if output is not None:
            request = request.replace(output_schema=output.model_json_schema())
        session = await self.start(request, documents=documents, session_id=session_id)
        report = await session.result()
        return report if output is None else output_of(report, output)

    def session(self, session_id: str) -> Session:
        """Give access to a session by its id, without asking the server whether it exists."""
        return Session(self.client, session_id, self._files)

    async def list(
        self,
        limit: int = 20,
        *,
        state: str | None = None,
        crew: str | None = None,
        tenant: str | None = None,
        waiting: bool = False,
        since: datetime | None = None,
        before: datetime | None = None,
        thread: str | None = None,
        ids: Sequence[str] | None = None,
    ) -> AsyncIterator[SessionSummary]:
        """List sessions that no other session started, the newest first.

        Args:
            limit: the most sessions.
            state: their own, such as `executing`, or Temporal's, such as `running`.
            crew: the name of their crew.
            tenant: whom they run for.
            waiting: only those that wait for a person.
            since: only those that were started then or later.
            before: only those that were started earlier.
            thread: the first session's id of those that follow each other.
            ids: only these, at least one.

        Raises:
            InvalidInput: a filter is not one that can be looked for.
            SearchAttributesMissing: a filter needs search attributes that the namespace does not have.
        """
        query = sessions_query(
            state=state, crew=crew, tenant=tenant, waiting=waiting, since=since, before=before, thread=thread, ids=ids
        )
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
        """Start a session again and again, by a schedule of Temporal; with the id of one that exists, replace that one.

        Each session has an id of its own, `<schedule_id>-<time in UTC>`, such as `nightly-2026-11-21T02:00:00Z`.

        Args:
            schedule_id: 1 to 150 characters.
            request: a goal in the user's words, or a whole request.
            cron: when to start: five fields such as `0 2 * * *`, or a word such as `@daily`; either this or `every`.
            every: how often to start, at least a minute and at most ten years.
            time_zone: of `cron`, such as `Europe/Berlin`; UTC if absent.
            overlap: what to do while the last session still runs: `skip` this one, `wait` for the last (one at most
                waits), or start it `beside`.
            documents: as for `start`; they are uploaded now.

        Raises:
            InvalidInput: an argument is invalid.
            UploadRefused: a document cannot be used, or it is unknown where the workers read.
        """
        asked = await prepared(request, documents, self._files)
        made = scheduled(schedule_id, asked, self.task_queue, times(cron, every, time_zone), overlap)
        with translated(schedule_id):
            await put_schedule(self.client, schedule_id, made)

    async def unschedule(self, schedule_id: str) -> None:
        """Delete a schedule; its sessions go on. There may be none."""
        with translated(schedule_id):
            await delete_schedule(self.client, schedule_id)

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
