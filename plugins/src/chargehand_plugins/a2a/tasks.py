"""A2A operations on sessions: `SendMessage`, `GetTask`, `ListTasks` and `CancelTask`.

A task is a session or a conversation, with the same id. No state is kept here, so that every console serves every
task.
"""

# ruff: noqa: ARG002  # the library's own signatures

import asyncio
import hashlib
import json
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Final, NoReturn, TypeVar

from a2a.server.context import ServerCallContext
from a2a.server.events.event_queue import Event
from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.types import a2a_pb2 as a2a
from a2a.utils.errors import (
    ContentTypeNotSupportedError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from a2a.utils.task import HistoryLengthConfig, apply_history_length, validate_history_length
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from chargehand import (
    Chargehand,
    ChargehandError,
    Conversation,
    ConversationMessage,
    InvalidInput,
    Reply,
    Session,
    SessionCancelled,
    SessionEnded,
    SessionNotFound,
    SessionRequest,
    Status,
)
from chargehand.contracts import Message
from chargehand.contracts.problems import LONGEST_REASON, printable
from chargehand.listing import SessionSummary, sessions_query, summarise
from chargehand.messages import ConversationMessages
from chargehand.state_words import NEEDS
from chargehand.strict_json import AmbiguousJson, refuse_ambiguous_json, refuse_excess
from chargehand.temporal_errors import translated
from chargehand.visibility import describe_session, is_open
from chargehand.wire import WorkflowType
from chargehand_cli.rendering.text import in_paragraph, report_markdown

_Result = TypeVar("_Result")
_LONGEST_WAIT: Final = 50
"""Maximum seconds to wait for an answer; longer tasks have to be polled by id."""
_SENDING: Final = 1
"""Seconds for sending a message without waiting for its reply."""
_USUAL_PAGE: Final = 50
_LARGEST_PAGE: Final = 100
_FILTERS: Final[dict[int, dict[str, Any]]] = {
    a2a.TASK_STATE_UNSPECIFIED: {},
    a2a.TASK_STATE_INPUT_REQUIRED: {"waiting": True},
    a2a.TASK_STATE_COMPLETED: {"state": "completed"},
    a2a.TASK_STATE_CANCELED: {"state": "canceled"},
    a2a.TASK_STATE_FAILED: {"state": "failed"},
}
"""Filters of the server's list by task state."""
_ENDED: Final = {"completed": a2a.TASK_STATE_COMPLETED, "canceled": a2a.TASK_STATE_CANCELED}


class Tasks(RequestHandler):
    """Maps tasks to sessions and conversations; refuses what the card does not offer."""

    def __init__(self, connect: Callable[[], Chargehand]) -> None:
        self._connect = connect

    async def on_message_send(self, params: a2a.SendMessageRequest, context: ServerCallContext) -> a2a.Task:
        """Start a session or answer its question; wait for its end unless the caller declines that.

        The first message of a conversation names its crew; each message waits for its reply.
        """
        message, waits = params.message, not params.configuration.return_immediately
        with _translate_errors():
            crew = _crew(message)
            if crew and not message.task_id:
                opened = await self._connect().converse(crew=crew, conversation_id=_name(message))
                await opened.opened()
                message.task_id = opened.id
            task = (await self._find(message.task_id))[0] if message.task_id else None
            if task and message.context_id not in {"", task.id}:
                raise InvalidParamsError(f"message.contextId: the task's is {task.id}")
            if isinstance(task, Conversation):
                call = task.send(ConversationMessages.say, ConversationMessage(text=_text(message)), id=_name(message))
                reply = await self._wait(task.id, call, _LONGEST_WAIT if waits else _SENDING)
                return await self._task(task.id, params.configuration, reply)
            if task:
                await _answer(task, _text(message))
            else:
                request = SessionRequest(goal=_text(message), questions="allowed")
                task = await self._connect().start(request, session_id=_name(message))
            if waits:
                with suppress(SessionEnded):
                    await self._wait(task.id, task.result(), _LONGEST_WAIT)
            return await self._task(task.id)

    async def on_get_task(self, params: a2a.GetTaskRequest, context: ServerCallContext) -> a2a.Task:
        with _translate_errors():
            return await self._task(params.id, params)

    async def on_list_tasks(self, params: a2a.ListTasksRequest, context: ServerCallContext) -> a2a.ListTasksResponse:
        """List sessions page by page, with reports only on request, since each report is read separately."""
        with _translate_errors("params"):
            summaries, page = await _find_page(self._connect(), params)
            for each in summaries:
                if each.ended_at is None:
                    state = a2a.TASK_STATE_INPUT_REQUIRED if each.waiting_for else a2a.TASK_STATE_WORKING
                else:
                    state = _ENDED.get(each.state, a2a.TASK_STATE_FAILED)
                whole = params.include_artifacts and each.ended_at is not None
                page.tasks.append(await self._task(each.id) if whole else _as_task(each.id, state, each.shown))
            return page

    async def on_cancel_task(self, params: a2a.CancelTaskRequest, context: ServerCallContext) -> a2a.Task:
        with _translate_errors():
            task, goes_on = await self._find(params.id)
            if not goes_on:
                raise TaskNotCancelableError("The task has ended.")
            await task.cancel()
            with suppress(SessionEnded, TimeoutError):
                async with asyncio.timeout(_LONGEST_WAIT):
                    await task.result()
            return await self._task(task.id)

    async def _refuse_stream(self, params: object, context: object) -> AsyncGenerator[Event]:
        raise UnsupportedOperationError
        yield

    async def _refuse_push(self, params: object, context: object) -> NoReturn:
        raise PushNotificationNotSupportedError

    async def on_get_extended_agent_card(self, params: object, context: object) -> NoReturn:
        raise UnsupportedOperationError

    on_message_send_stream = on_subscribe_to_task = _refuse_stream
    on_create_task_push_notification_config = on_get_task_push_notification_config = _refuse_push
    on_list_task_push_notification_configs = on_delete_task_push_notification_config = _refuse_push

    async def _find(self, name: str) -> tuple[Session | Conversation, bool]:
        """Find a task's session or conversation, and whether it is running; other workflows are not accessible."""
        chargehand = self._connect()
        with translated(name):
            execution = await describe_session(chargehand.client, name)
        is_talk = execution.type.name == WorkflowType.CONVERSATION
        return chargehand.conversation(name) if is_talk else chargehand.session(name), is_open(execution)

    async def _wait(self, task: str, coming: Coroutine[Any, Any, _Result], seconds: int) -> _Result | None:
        """Wait some seconds for a result, but not while a person has to decide something first."""
        client, awaited = self._connect().client, asyncio.create_task(coming)
        try:
            for _ in range(seconds):
                if (await asyncio.wait({awaited}, timeout=1))[0]:
                    return await awaited
                with translated(task):
                    summary = await summarise(await describe_session(client, task), client.data_converter)
                if summary.waiting_for:
                    break
        finally:
            awaited.cancel()
        return None

    async def _task(
        self, session_id: str, asked: HistoryLengthConfig | None = None, reply: Reply | None = None
    ) -> a2a.Task:
        validate_history_length(asked)
        execution, goes_on = await self._find(session_id)
        if isinstance(execution, Conversation):
            return apply_history_length(await _talk_task(execution, reply, goes_on=goes_on), asked)
        if goes_on:
            return _open_task(await execution.status())
        try:
            report = await execution.result()
        except SessionEnded as error:
            return _as_task(session_id, _state_of(error), in_paragraph(str(error)))
        task = _as_task(session_id, a2a.TASK_STATE_COMPLETED, f"The session ended: {report.ending.words}.")
        text = a2a.Part(text=report_markdown(report), media_type="text/markdown")
        task.artifacts.append(a2a.Artifact(artifact_id="report", name="report.md", parts=[text]))
        return task


async def _find_page(
    chargehand: Chargehand, params: a2a.ListTasksRequest
) -> tuple[list[SessionSummary], a2a.ListTasksResponse]:
    size = params.page_size if params.HasField("page_size") else _USUAL_PAGE
    if not 1 <= size <= _LARGEST_PAGE:
        raise InvalidParamsError(f"pageSize: must be between 1 and {_LARGEST_PAGE}")
    if params.history_length < 0:
        raise InvalidParamsError("historyLength: must not be negative")
    if params.status not in _FILTERS or params.HasField("status_timestamp_after"):
        offered = ", ".join(a2a.TaskState.Name(state) for state in _FILTERS if state)
        raise UnsupportedOperationError(f"Tasks are listed by contextId, and by a status of {offered}.")
    filters: dict[str, Any] = _FILTERS[params.status] | ({"ids": [params.context_id]} if params.context_id else {})
    try:
        before = datetime.fromisoformat(params.page_token).astimezone(UTC) if params.page_token else None
    except (ValueError, OverflowError) as error:
        raise InvalidParamsError("pageToken: must be the nextPageToken of a list") from error
    summaries = [each async for each in chargehand.list(size + 1, before=before, **filters)]
    with translated(""):
        total = (await chargehand.client.count_workflows(sessions_query(**filters))).count
    more = summaries[size - 1].started_at.isoformat() if len(summaries) > size else ""
    return summaries[:size], a2a.ListTasksResponse(page_size=size, total_size=total, next_page_token=more)


def _state_of(error: SessionEnded) -> a2a.TaskState:
    return a2a.TASK_STATE_CANCELED if isinstance(error, SessionCancelled) else a2a.TASK_STATE_FAILED


async def _talk_task(talk: Conversation, reply: Reply | None, *, goes_on: bool) -> a2a.Task:
    """Build the task of a conversation: its lines, the given or last reply, and whether it accepts another message."""
    lines = [line for line in (await talk.transcript()).lines if line.kind in {"message", "reply"}]
    last = next((line.text for line in reversed(lines) if line.kind == "reply"), "Say something.")
    if goes_on and reply is None and (status := await talk.status()).state != "awaiting_message":
        task = _open_task(status)
    elif goes_on:
        task = _as_task(talk.id, a2a.TASK_STATE_INPUT_REQUIRED, reply.text if reply else last)
        task.status.message.parts.extend(
            a2a.Part(text=f"Gap: {in_paragraph(gap)}") for gap in (reply.gaps if reply else ())
        )
    else:
        try:
            ended = f"The conversation ended: {(await talk.result()).ending.words}."
            task = _as_task(talk.id, a2a.TASK_STATE_COMPLETED, reply.text if reply else ended)
        except SessionEnded as error:
            task = _as_task(talk.id, _state_of(error), in_paragraph(str(error)))
    for line in lines:
        role = a2a.ROLE_USER if line.kind == "message" else a2a.ROLE_AGENT
        task.history.append(_message(talk.id, f"{line.number}", line.text, role))
    return task


def _open_task(status: Status) -> a2a.Task:
    if status.questions:
        question_text = "\n".join(f"{each.subtask}: {in_paragraph(each.text)}" for each in status.questions)
        return _as_task(status.session, a2a.TASK_STATE_INPUT_REQUIRED, question_text)
    if needs := NEEDS.get(status.state):
        return _as_task(status.session, a2a.TASK_STATE_INPUT_REQUIRED, f"{needs} Decide in the console.")
    progress = f"{status.standing.words}: {status.turns} of {status.max_turns} turns"
    return _as_task(status.session, a2a.TASK_STATE_WORKING, progress)


def _as_task(session_id: str, state: a2a.TaskState, words: str) -> a2a.Task:
    status_message = _message(session_id, f"{state}\n{words}", words)
    return a2a.Task(id=session_id, context_id=session_id, status=a2a.TaskStatus(state=state, message=status_message))


def _message(task: str, name: str, text: str, role: a2a.Role = a2a.ROLE_AGENT) -> a2a.Message:
    name = hashlib.sha256(f"{task}\n{name}".encode()).hexdigest()[:32]
    return a2a.Message(message_id=name, task_id=task, context_id=task, role=role, parts=[a2a.Part(text=text)])


def _crew(message: a2a.Message) -> str:
    if "conversation" not in message.metadata.fields:
        return ""
    if crew := message.metadata.fields["conversation"].string_value:
        return crew
    raise InvalidParamsError("message.metadata.conversation: must be the name of a crew")


def _name(message: a2a.Message) -> str:
    """Derive the id of the session or message to create, so that a repeated message takes effect once."""
    named = f"{message.message_id} {_text(message)}"
    return f"a2a-{hashlib.sha256(named.encode()).hexdigest()[:32]}"


def _text(message: a2a.Message) -> str:
    if any(part.WhichOneof("content") != "text" for part in message.parts):
        raise ContentTypeNotSupportedError("message.parts: only text is read; upload documents in the console")
    return "\n\n".join(part.text for part in message.parts)


async def _answer(session: Session, text: str) -> None:
    status = await session.status()
    if len(status.questions) != 1:
        raise UnsupportedOperationError(
            f"The task has {len(status.questions)} open questions; one can be answered here."
        )
    await session.answer(subtask=status.questions[0].subtask, text=text)


@contextmanager
def _translate_errors(place: str = "message") -> Generator[None]:
    try:
        yield
    except InvalidInput as error:
        raise InvalidParamsError(f"{place}: {error}") from error
    except SessionNotFound as error:
        raise TaskNotFoundError(str(error)) from error
    except ChargehandError as error:
        raise UnsupportedOperationError(str(error)) from error


PATH: Final = "/api/a2a"
_PARSE_ERROR: Final = -32700
CARD_PATH: Final = "/.well-known/agent-card.json"


def a2a_routes(connect: Callable[[], Chargehand], url: str) -> list[Route]:
    """Build the routes of the agent at a URL; the caller has to check access."""
    logging.getLogger("a2a").setLevel(logging.CRITICAL)  # its log would contain requests
    tasks = Tasks(connect)
    return [
        *create_agent_card_routes(_card(f"{url.rstrip('/')}{PATH}"), card_url=CARD_PATH),
        *map(_strict, create_jsonrpc_routes(tasks, PATH)),
        # Also served for clients that treat the address as a base URL.
        *map(_strict, create_jsonrpc_routes(tasks, f"{PATH}/")),
    ]


def _strict(route: Route) -> Route:
    """Refuse input that would cause an internal error in the library: deep JSON, overlong numbers."""

    async def handle(request: Request) -> Response:
        body = await request.body()
        try:
            refuse_excess(body, Message.largest_bytes, Message.most_values)
            refuse_ambiguous_json(body)
            if _starts(json.loads(body)):
                request.state.count_start()
        except AmbiguousJson as error:
            place = ".".join(("input", *error.where))
            rpc_error = {"code": _PARSE_ERROR, "message": printable(f"{place}: {error}", LONGEST_REASON)}
            return JSONResponse({"jsonrpc": "2.0", "id": None, "error": rpc_error})
        return await route.endpoint(request)

    return Route(route.path, handle, methods=["POST"])


def _starts(call: object) -> bool:
    """Whether a call sends a message without a task."""
    match call:
        case {"method": "SendMessage", "params": {"message": {"taskId": str(task)} | {"task_id": str(task)}}}:
            return not task
        case {"method": "SendMessage"}:
            return True
        case _:
            return False


def _card(url: str) -> a2a.AgentCard:
    research = a2a.AgentSkill(
        id="research",
        name="Research with sources",
        description="Plans a task, has a crew of agents work on it, and writes a report that cites what they read.",
        tags=["research", "documents", "report"],
    )
    bearer = a2a.SecurityScheme(http_auth_security_scheme=a2a.HTTPAuthSecurityScheme(scheme="Bearer"))
    return a2a.AgentCard(
        name="Chargehand",
        description="Durable multi-agent sessions under limits of money and time.",
        version=version("chargehand"),
        supported_interfaces=[a2a.AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")],
        capabilities=a2a.AgentCapabilities(streaming=False, push_notifications=False),
        default_input_modes=["text/plain"],
        default_output_modes=["text/markdown"],
        skills=[research],
        security_schemes={"bearer": bearer},
        security_requirements=[a2a.SecurityRequirement(schemes={"bearer": a2a.StringList()})],
    )
