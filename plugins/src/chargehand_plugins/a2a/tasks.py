"""The operations of A2A on sessions: `SendMessage`, `GetTask`, `ListTasks` and `CancelTask`.

A task is a session or a conversation, and has its id. Nothing is kept here, so that every console answers for every
task.
"""

import asyncio
import hashlib
from collections.abc import Callable, Generator
from contextlib import aclosing, contextmanager, suppress
from typing import Final

from a2a.server.context import ServerCallContext
from a2a.types import a2a_pb2 as a2a
from a2a.utils.errors import (
    ContentTypeNotSupportedError,
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from chargehand import (
    Chargehand,
    ChargehandError,
    Conversation,
    ConversationMessage,
    InvalidInput,
    QuestionEvent,
    Report,
    Session,
    SessionCancelled,
    SessionEnded,
    SessionNotFound,
    SessionRequest,
    StateEvent,
    Status,
)
from chargehand.messages import ConversationMessages
from chargehand.state_words import NEEDS
from chargehand.temporal_errors import translated
from chargehand.visibility import describe_session, is_open
from chargehand.wire import WorkflowType
from chargehand_cli.rendering.text import report_markdown
from chargehand_plugins.a2a.lists import listed, state_in_list
from chargehand_plugins.a2a.refusals import Refusals

_LONGEST_WAIT: Final = 50
"""Seconds in which a message is answered; tasks that take longer are asked for by their id."""


class Tasks(Refusals):
    """Maps tasks onto sessions and conversations."""

    def __init__(self, connect: Callable[[], Chargehand]) -> None:
        self._connect = connect

    async def on_message_send(self, params: a2a.SendMessageRequest, context: ServerCallContext) -> a2a.Task:  # noqa: ARG002  # the library's own signature
        """Start a session, or answer the question of one; wait for its end, unless the caller does not want that.

        A message of a conversation, which the first names by its crew, is waited for until it is answered.
        """
        message = params.message
        with _translated():
            crew = message.metadata.fields["conversation"].string_value if message.metadata.fields else ""
            if crew and not message.task_id:
                opened = await self._connect().converse(crew=crew, conversation_id=_session_id(message))
                message.task_id = opened.id
            if message.task_id and (talk := await self._conversation(message.task_id)):
                await _say(talk, message)
                return await self._task(talk.id)
            if message.task_id:
                session, _ = await self._find(message.task_id)
                await _answer(session, _text(message))
            else:
                session = await self._connect().start(_request(message), session_id=_session_id(message))
            if not params.configuration.return_immediately:
                await _wait(session)
            return await self._task(session.id)

    async def on_get_task(self, params: a2a.GetTaskRequest, context: ServerCallContext) -> a2a.Task:  # noqa: ARG002  # as above
        with _translated():
            return await self._task(params.id)

    async def on_list_tasks(self, params: a2a.ListTasksRequest, context: ServerCallContext) -> a2a.ListTasksResponse:  # noqa: ARG002  # as above
        """List sessions by pages; their reports only if asked, as each is read by itself."""
        with _translated("params"):
            found, page = await listed(self._connect(), params)
            for each in found:
                whole = params.include_artifacts and each.ended_at is not None
                told = await self._task(each.id) if whole else _as_task(each.id, state_in_list(each), each.shown)
                page.tasks.append(told)
            return page

    async def on_cancel_task(self, params: a2a.CancelTaskRequest, context: ServerCallContext) -> a2a.Task:  # noqa: ARG002  # as above
        with _translated():
            session, goes_on = await self._find(params.id)
            if not goes_on:
                raise TaskNotCancelableError("The task has ended.")
            if talk := await self._conversation(params.id):
                await talk.cancel()
            else:
                await session.cancel()
            with suppress(SessionEnded, TimeoutError):
                async with asyncio.timeout(_LONGEST_WAIT):
                    await session.result()
            return await self._task(session.id)

    async def _find(self, session_id: str) -> tuple[Session, bool]:
        """Find a session, and whether it goes on; other workflows of the namespace are none of a caller's business."""
        with translated(session_id):
            found = await describe_session(self._connect().client, session_id)
        return self._connect().session(session_id), is_open(found)

    async def _conversation(self, name: str) -> Conversation | None:
        """Find a conversation; None if the id is that of a session."""
        with translated(name):
            found = await describe_session(self._connect().client, name)
        return self._connect().conversation(name) if found.type.name == WorkflowType.CONVERSATION else None

    async def _task(self, session_id: str) -> a2a.Task:
        session, goes_on = await self._find(session_id)
        if talk := await self._conversation(session_id):
            return await _talk_task(talk, goes_on=goes_on)
        if goes_on:
            return _open_task(await session.status())
        try:
            return _ended_task(await session.result())
        except SessionEnded as error:
            return _as_task(session_id, _state_of(error), str(error))


def _state_of(error: SessionEnded) -> a2a.TaskState:
    return a2a.TASK_STATE_CANCELED if isinstance(error, SessionCancelled) else a2a.TASK_STATE_FAILED


async def _talk_task(talk: Conversation, *, goes_on: bool) -> a2a.Task:
    """Show a conversation: what was replied last, and whether the next message may come."""
    replies = [line.text for line in (await talk.transcript()).lines if line.kind == "reply"]
    if goes_on:
        status = await talk.status()
        if status.state != "awaiting_message":
            return _open_task(status)
        return _as_task(talk.id, a2a.TASK_STATE_INPUT_REQUIRED, replies[-1] if replies else "Say something.")
    try:
        ended = f"The conversation ended: {(await talk.result()).reason}."
        return _as_task(talk.id, a2a.TASK_STATE_COMPLETED, replies[-1] if replies else ended)
    except SessionEnded as error:
        return _as_task(talk.id, _state_of(error), str(error))


async def _say(talk: Conversation, message: a2a.Message) -> None:
    """Say something once, however often it is sent, and wait for the reply, though not for long."""
    said = ConversationMessage(text=_text(message))
    with suppress(TimeoutError):
        async with asyncio.timeout(_LONGEST_WAIT):
            await talk.send(ConversationMessages.say, said, id=message.message_id)


def _open_task(status: Status) -> a2a.Task:
    if status.questions:
        asked = "\n".join(f"{each.subtask}: {each.text}" for each in status.questions)
        return _as_task(status.session, a2a.TASK_STATE_INPUT_REQUIRED, asked)
    if needs := NEEDS.get(status.state):
        return _as_task(status.session, a2a.TASK_STATE_INPUT_REQUIRED, f"{needs} Decide in the console.")
    told = f"{status.standing.words}: {status.turns} of {status.max_turns} turns"
    return _as_task(status.session, a2a.TASK_STATE_WORKING, told)


def _ended_task(report: Report) -> a2a.Task:
    task = _as_task(report.session, a2a.TASK_STATE_COMPLETED, f"The session ended: {report.ending.words}.")
    text = a2a.Part(text=report_markdown(report), media_type="text/markdown")
    task.artifacts.append(a2a.Artifact(artifact_id="report", name="report.md", parts=[text]))
    return task


def _as_task(session_id: str, state: a2a.TaskState, words: str) -> a2a.Task:
    told = a2a.Message(
        message_id=hashlib.sha256(f"{session_id}\n{state}\n{words}".encode()).hexdigest()[:32],
        task_id=session_id,
        context_id=session_id,
        role=a2a.ROLE_AGENT,
        parts=[a2a.Part(text=words)],
    )
    return a2a.Task(id=session_id, context_id=session_id, status=a2a.TaskStatus(state=state, message=told))


def _request(message: a2a.Message) -> SessionRequest:
    return SessionRequest(goal=_text(message), questions="allowed")


def _session_id(message: a2a.Message) -> str:
    """Derive the id from the message: one that is sent again starts no second session."""
    named = f"{message.message_id} {_text(message)}"
    return f"a2a-{hashlib.sha256(named.encode()).hexdigest()[:32]}"


def _text(message: a2a.Message) -> str:
    if any(part.WhichOneof("content") != "text" for part in message.parts):
        raise ContentTypeNotSupportedError("message.parts: only text is read; upload documents in the console")
    return "\n\n".join(part.text for part in message.parts)


async def _answer(session: Session, text: str) -> None:
    """Give the text to the one question that is open."""
    status = await session.status()
    if len(status.questions) != 1:
        raise UnsupportedOperationError(
            f"The task has {len(status.questions)} open questions; one can be answered here."
        )
    await session.answer(subtask=status.questions[0].subtask, text=text)


async def _wait(session: Session) -> None:
    """Wait until a session has ended or needs something, though not for long."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_LONGEST_WAIT), aclosing(session.follow()) as events:
            async for event in events:
                if isinstance(event, StateEvent | QuestionEvent) and _needs_something(await session.status()):
                    return


def _needs_something(status: Status) -> bool:
    return bool(status.questions) or status.state in NEEDS


@contextmanager
def _translated(place: str = "message") -> Generator[None]:
    try:
        yield
    except InvalidInput as error:
        raise InvalidParamsError(f"{place}: {error}") from error
    except SessionNotFound as error:
        raise TaskNotFoundError(str(error)) from error
    except ChargehandError as error:
        raise UnsupportedOperationError(str(error)) from error
