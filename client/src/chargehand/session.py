"""Handles to sessions and conversations on a server: read them, steer them, wait for their results."""

import asyncio
import uuid
from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from contextlib import aclosing, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Final, TypeVar, cast, overload

from pydantic import JsonValue
from temporalio.client import Client, WorkflowHandle
from temporalio.common import Priority, WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from chargehand.contracts import (
    ConversationEnd,
    ConversationRequest,
    Event,
    PendingCall,
    Plan,
    Report,
    SessionRequest,
    Status,
    Trace,
    VerificationReport,
    VerificationRequest,
)
from chargehand.contracts.base import contract
from chargehand.errors import AlreadyEnded, InvalidInput, NoWorker, SessionEnded, SessionFailed, SessionNotFound
from chargehand.history.follow import follow
from chargehand.history.runs import refusal
from chargehand.history.tree import read_status, read_trace, with_running
from chargehand.interface import Supervisor, read_request, refuse_another, start_options, valid_id
from chargehand.listing import GOAL, SessionSummary, listing_memo, sessions_query, summarise
from chargehand.messages import CommonMessages, ConversationMessages, Input, Messages, Output, SessionMessage
from chargehand.shared_files import Document, SharedFiles
from chargehand.temporal_errors import TaskFailed, translated
from chargehand.visibility import describe, describe_session, is_open, list_executions, pollers, result_of
from chargehand.wire import ErrorType, WorkflowType

_T = TypeVar("_T")
_Request = TypeVar("_Request", SessionRequest, ConversationRequest)

_TITLE: Final = "A conversation"
_OPENING_SECONDS: Final = 2.0
_PATIENCE_SECONDS: Final = 15.0
"""Time for a worker to answer before the client checks whether one is polling."""
_LONGEST_VERIFICATION: Final = timedelta(minutes=15)
_ONE_POLL: Final = timedelta(seconds=70)
"""A worker polls at least this often, even when idle."""


class Execution(CommonMessages):
    """The common base of `Session` and `Conversation`."""

    id: str
    """The id of the workflow."""
    _client: Client
    _handle: WorkflowHandle[Any, Any]

    async def send(
        self,
        message: SessionMessage[..., Input, Output],
        content: Input,
        *,
        id: str | None = None,  # noqa: A002  # as in Temporal
    ) -> Output:
        """Send a message with its content and wait for the answer; repeated updates with the same id take effect once.

        A reply can take as long as a person takes to approve a tool call. The spend of running subtasks is added to a
        status, which reads one history per running workflow below; `follow()` yields the same as it happens.
        """
        ask = partial(self._send, message, content, id)
        if message.returns is not Status:
            return await ask()
        with translated(self.id):
            query = partial(self._send, CommonMessages.status, None)
            return cast(
                "Output", await with_running(self._client, self.id, cast("Any", ask), query, self.recorded_status)
            )

    async def _send(
        self, message: SessionMessage[..., Input, Output], content: Input, name: str | None = None
    ) -> Output:
        if message.kind == "query":
            return await self._answer(self._handle.query(message.name, result_type=message.returns))
        sent: list[object] = [] if content is None else [content]
        name = name or str(uuid.uuid4())
        update = partial(self._handle.execute_update, message.name, args=sent, id=name, result_type=message.returns)  # pyright: ignore[reportUnknownMemberType]  # the SDK's overloads
        try:
            try:
                return await self._answer(update())
            except TaskFailed:  # the worker has now forgotten a state that a restore has undone
                return await self._answer(update())
        except AlreadyEnded:
            raise AlreadyEnded(self.id, await self.ending()) from None

    async def result(self) -> Any:
        """Wait for the result, whose type depends on the kind of workflow."""
        raise NotImplementedError

    async def ending(self) -> str:
        """Return how it ended."""
        try:
            return f"'{self.id}' has ended ({(await self.result()).ending.words})."
        except SessionEnded as error:
            return f"{str(error).rstrip('.')}."
        except InvalidInput:  # its result is of the other kind of workflow
            return f"'{self.id}' has ended."

    async def _answer(self, call: Awaitable[_T]) -> _T:
        """Wait for a worker's answer, as long as a worker is polling."""
        answering = asyncio.ensure_future(call)
        # Retrieved, since the caller that waited for it may be gone.
        answering.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        try:
            with translated(self.id):
                while not (await asyncio.wait({answering}, timeout=_PATIENCE_SECONDS))[0]:
                    task_queue = (await describe(self._client, self.id)).execution_config.task_queue.name
                    if not await pollers(self._client, task_queue, since=datetime.now(UTC) - _ONE_POLL):
                        raise NoWorker(self.id, task_queue)
                return await answering
        finally:
            answering.cancel()

    async def request(self) -> SessionRequest:
        """Read the original request; works without a worker."""
        with translated(self.id):
            original = await read_request(self._client, self.id)
        if original is None:
            raise SessionNotFound(self.id)
        return original.as_session() if isinstance(original, ConversationRequest) else original

    async def recorded_status(self) -> Status:
        """Read the status from the histories, without limits and with truncated instructions.

        Works without a worker.
        """
        goal = ""
        with suppress(InvalidInput):  # of a plain client: a worker has refused it
            goal = (await self.request()).goal
        with translated(self.id):
            return await read_status(self._client, self.id, goal)

    async def approve_call(self, call: PendingCall, arguments: Mapping[str, JsonValue] | None = None) -> Status:
        """Approve a tool call from `status().calls`; `arguments`, if given, replace its own."""
        if arguments is None:
            return await self.decide_call(call=call.id, hash=call.hash, decision="approve")
        return await self.decide_call(call=call.id, hash=call.hash, decision="edit", arguments=dict(arguments))

    async def reject_call(self, call: PendingCall, reason: str = "") -> Status:
        """Reject a tool call of `status().calls`; its agent reads the reason and continues."""
        return await self.decide_call(call=call.id, hash=call.hash, decision="reject", reason=reason)

    async def opened(self) -> None:
        """Wait briefly until a worker has opened the session, to report an invalid request immediately.

        This returns without an answer if there is no worker, or if it first has to read many documents.

        Raises:
            InvalidInput: a worker refuses the request: an unknown crew, a limit that is too small, …
            SessionFailed: its tenant has reached its limits.
        """
        with suppress(TimeoutError, RPCError):
            async with asyncio.timeout(_OPENING_SECONDS):
                refused = await refusal(self._client, self.id)
            if refused:
                raise SessionFailed(*refused) if refused[1] is ErrorType.TENANT_LIMIT else InvalidInput(refused[0])

    async def cancel(self) -> None:
        """Ask it to stop without a report or reply; no effect if it has ended."""
        with translated(self.id):
            await describe_session(self._client, self.id)  # the server would cancel any workflow with this id
            await self._handle.cancel()

    async def follow(self, after: str | None = None) -> AsyncGenerator[Event]:
        """Yield all events from its beginning to its end, as they happen; works without a worker.

        Args:
            after: the `cursor` of an event, to get only later events; valid in any process.

        Raises:
            SessionNotFound: the server does not know this id.
            NotReachable: the server does not answer initially; later outages are waited out.
        """
        with translated(self.id):
            async with aclosing(follow(self._client, self.id, after)) as events:
                async for event in events:
                    yield event


class Session(Execution, Messages):
    """A session on a server: its messages, and what can be read without a worker.

    Methods only raise errors of `chargehand.errors`: `SessionNotFound` if the session does not exist, `NotReachable` if
    the server does not answer, `NoWorker` if a worker is needed and none runs. A change that is invalid or not allowed
    in the session's state raises `UpdateRefused`, or `AlreadyEnded` once it has ended.
    """

    def __init__(self, client: Client, session_id: str, files: SharedFiles | None = None) -> None:
        self.id = session_id
        self._client = client
        self._files = files or SharedFiles()
        self._handle = client.get_workflow_handle_for(Supervisor.run, session_id)

    async def ask(
        self, goal: str, *, documents: Sequence[Document] = (), session_id: str | None = None, **fields: Any
    ) -> "Session":
        """Start a follow-up session, which knows the report of this one; this one must be finished.

        Args:
            goal: the question, in the user's words.
            documents: for the agents to read besides this session's, as in `Chargehand.start()`.
            session_id: up to 175 characters; generated if absent.
            fields: those of `SessionRequest`; crew and tenant default to this session's.

        Raises:
            InvalidInput: a field is invalid.
            UploadRefused: a document cannot be used, or it is unknown where the workers read.
        """
        prepared_request = await prepared(contract(SessionRequest, **{**fields, "goal": goal}), documents, self._files)
        request = await self.follow_up(prepared_request)
        with translated(self.id):
            task_queue = (await describe(self._client, self.id)).workflow_execution_info.task_queue
        return await start_session(self._client, task_queue, request, session_id, self._files)

    async def documents(self) -> tuple[str, ...]:
        """List the addresses of all documents available to it: its own, and those of sessions that it follows."""
        current = await self.request()
        addresses = dict.fromkeys(current.documents)
        seen = {self.id}
        while current.follows and current.earlier_documents and current.follows not in seen:
            seen.add(current.follows)
            try:
                current = await Session(self._client, current.follows).request()
            except SessionNotFound:
                break  # no longer retained
            addresses |= dict.fromkeys(current.documents)
        return tuple(addresses)

    async def thread(self) -> tuple[SessionSummary, ...]:
        """List this session, the sessions that it follows, and those that follow it, in order of their start.

        Without search attributes on the server, those that follow it are unknown.
        """
        with translated(self.id):
            summaries = {self.id: await self._summary(self.id)}
            first = summaries[self.id].thread
            if first:
                async for execution in list_executions(self._client, sessions_query(thread=first)):
                    summary = await summarise(execution, self._client.data_converter)
                    summaries[summary.id] = summary
        follows = summaries[self.id].follows
        while follows and follows not in summaries:
            try:
                with translated(follows):
                    summaries[follows] = await self._summary(follows)
            except SessionNotFound:
                break  # no longer retained
            follows = summaries[follows].follows
        return tuple(sorted(summaries.values(), key=lambda each: each.started_at))

    async def _summary(self, session_id: str) -> SessionSummary:
        described = await describe(self._client, session_id)
        return await summarise(described.workflow_execution_info, self._client.data_converter)

    async def follow_up(self, request: SessionRequest) -> SessionRequest:
        """Turn a request into a follow-up of this session; crew and tenant default to this session's."""
        before = await self.request()
        same = {name: getattr(before, name) for name in ("crew", "tenant") if name not in request.model_fields_set}
        return request.replace(**same, follows=self.id)

    async def approve(self) -> Plan:
        """Approve the plan of a session that awaits approval, and return it."""
        return await self.decide_plan(decision="approve")

    async def edit(self, plan: Plan) -> Plan:
        """Replace the plan of a session that awaits approval, and return the adopted plan."""
        return await self.decide_plan(decision="edit", plan=plan)

    async def reject(self, reason: str = "") -> None:
        """Reject the plan of a session that awaits approval; the session then fails and quotes the reason."""
        await self.decide_plan(decision="reject", reason=reason)

    async def result(self) -> Report:
        """Wait for the report, however long it takes; a session without a worker waits for a worker.

        Raises:
            SessionEnded: the session ended without a report.
            InvalidInput: it is a conversation, which has no report.
        """
        try:
            with translated(self.id):
                return await result_of(self._handle)
        except InvalidInput:
            with translated(self.id):
                execution = (await describe(self._client, self.id)).workflow_execution_info
            if execution.type.name == WorkflowType.CONVERSATION:
                words = "is a conversation, which has a transcript and no report"
                raise InvalidInput(f"'{self.id}' {words}; `chargehand trace {self.id}` reads every step") from None
            raise

    async def trace(self) -> Trace:
        """Read the trace of all steps from the histories; works without a worker."""
        with translated(self.id):
            return await read_trace(self._client, self.id)

    @overload
    async def artifacts(self) -> dict[str, bytes]: ...

    @overload
    async def artifacts(self, to: str | PathLike[str]) -> dict[str, Path]: ...

    async def artifacts(self, to: str | PathLike[str] | None = None) -> dict[str, bytes] | dict[str, Path]:
        """Read the files created by the session's agents, once there is a report, into memory or into a folder.

        Names are made safe for a file system and unique.

        Args:
            to: a folder, created if needed; an existing file with different content is kept, and is an error.

        Raises:
            SessionEnded: there is no report.
            DownloadRefused: the workers' file location is unknown, or a file is missing or damaged.
            BucketError: the bucket cannot be used.
        """
        made = (await self.result()).artifacts
        if to is None:
            return await asyncio.to_thread(self._files.read, made)
        return await asyncio.to_thread(self._files.download, made, Path(to))

    async def verify(self) -> VerificationReport:
        """Have a worker verify the report's quotations against the session's documents again, free of charge.

        Raises:
            SessionFailed: the session still runs, or has no report.
        """
        with translated(self.id):
            task_queue = (await describe(self._client, self.id)).execution_config.task_queue.name
            verifying = await self._client.start_workflow(
                WorkflowType.VERIFICATION,
                VerificationRequest(session=self.id),
                result_type=VerificationReport,
                id=f"{self.id}/verification",
                task_queue=task_queue,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                static_summary=f"Verify {self.id}",
                execution_timeout=_LONGEST_VERIFICATION,
            )
        return await self._answer(verifying.result())


class Conversation(Execution, ConversationMessages):
    """A conversation. Like those of `Session`, its methods only raise errors of `chargehand.errors`."""

    def __init__(self, client: Client, conversation_id: str) -> None:
        self.id = conversation_id
        self._client = client
        self._handle = client.get_workflow_handle(conversation_id, result_type=ConversationEnd)

    async def result(self) -> ConversationEnd:
        """Wait until the conversation has ended.

        Raises:
            SessionEnded: it failed, or was cancelled or terminated.
        """
        with translated(self.id):
            return await result_of(self._handle)


async def prepared(request: str | SessionRequest, documents: Sequence[Document], files: SharedFiles) -> SessionRequest:
    """Build a request from a goal, and upload its documents."""
    session_request = contract(SessionRequest, goal=request) if isinstance(request, str) else request
    return await with_documents(session_request, documents, files)


async def with_documents(asked: _Request, documents: Sequence[Document], files: SharedFiles) -> _Request:
    """Upload the documents of a request."""
    if isinstance(documents, str):
        raise InvalidInput(f"documents: pass a list: documents=[{documents!r}]")
    if not documents:
        return asked
    uploaded = await asyncio.to_thread(files.upload, documents)
    fields = {name: getattr(asked, name) for name in asked.model_fields_set}
    return contract(type(asked), **fields | {"documents": (*asked.documents, *uploaded)})


async def start_session(
    client: Client, task_queue: str, request: SessionRequest, session_id: str | None, files: SharedFiles
) -> Session:
    """Start a session; return the existing one for the same id and request."""
    session_id = f"session-{uuid.uuid4().hex[:12]}" if session_id is None else valid_id(session_id)
    # If it has ended meanwhile, its report is still the answer.
    await _start(client, WorkflowType.SUPERVISOR, request, session_id, task_queue, **start_options(request))
    return Session(client, session_id, files)


async def start_conversation(
    client: Client, task_queue: str, request: ConversationRequest, conversation_id: str | None
) -> Conversation:
    """Open a conversation; return the open one for the same id and request."""
    new = f"conversation-{uuid.uuid4().hex[:12]}"
    name = new if conversation_id is None else valid_id(conversation_id, "conversation_id")
    memo = listing_memo(request.goal or _TITLE)
    shown = {
        "static_summary": memo[GOAL],
        "memo": memo | {"tenant": request.tenant},
        "priority": Priority(priority_key=request.priority, fairness_key=request.tenant),
    }
    is_new = await _start(client, WorkflowType.CONVERSATION, request, name, task_queue, **shown)
    with translated(name):
        if not is_new and not is_open(await describe_session(client, name)):
            raise AlreadyEnded(name, await Conversation(client, name).ending())
    return Conversation(client, name)


async def _start(
    client: Client, workflow: WorkflowType, request: _Request, workflow_id: str, task_queue: str, **options: Any
) -> bool:
    options["id_reuse_policy"] = WorkflowIDReusePolicy.REJECT_DUPLICATE
    with translated(workflow_id):
        try:
            await client.start_workflow(workflow, request, id=workflow_id, task_queue=task_queue, **options)
        except WorkflowAlreadyStartedError:
            await refuse_another(client, workflow_id, request)
            return False
    return True
