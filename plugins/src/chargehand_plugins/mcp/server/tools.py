"""The tools of the MCP server, with which an assistant delegates work to sessions, follows and steers them.

Descriptions are for models: they only say what a tool does and when to use it.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from datetime import datetime, timedelta
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, Final

from mcp.server.mcpserver import Context, Image
from pydantic import BaseModel, Field

from chargehand import (
    Artifact,
    CallEvent,
    ConversationRequest,
    EndEvent,
    Event,
    Limits,
    QuestionEvent,
    Report,
    Session,
    SessionRequest,
    StateEvent,
    Status,
    SubtaskEvent,
    ToolEvent,
)
from chargehand.contracts.base import contract
from chargehand.contracts.request import MOST_DOCUMENTS, SessionIdentifier
from chargehand.errors import UploadRefused
from chargehand.messages import Row
from chargehand.payloads.settings import encryption_of
from chargehand.shared_files import read_artifact
from chargehand.state_words import ENDED, standing
from chargehand.temporal_errors import translated
from chargehand.upload import store_documents
from chargehand.visibility import describe_session, is_open
from chargehand_cli.connection import Connection
from chargehand_cli.rendering.escaping import one_safe_line, safe_text
from chargehand_cli.rendering.progress import spend_facts
from chargehand_cli.rendering.text import closed, in_paragraph, report_markdown
from chargehand_cli.run_options import BadRequest

SessionId = Annotated[SessionIdentifier, Field(description="The session's id, as start_session returned it.")]
Wait = Annotated[int, Field(ge=0, le=300, description="Seconds to wait for news before answering, 0 to 300.")]

_USUAL: Final = Limits()
_REPLY_SECONDS: Final = 120
"""Time to wait for a reply, which may need a person's approval."""
_MOST_CHARACTERS: Final = 100_000
"""Maximum of a report or file; assistants truncate longer results arbitrarily."""
_MOST_IMAGE_BYTES: Final = 1_000_000
NEXT: Final = {
    "awaiting_approval": "decide_plan",
    "awaiting_answer": "answer",
    "awaiting_call_approval": "decide_call",
    "awaiting_message": "say or close",
    "paused": "raise_limits or finish_now",
}
"""What a session waits for in each state."""
RESULT: Final = "session_result"


class Position(Status):
    """The state of a session, with what an assistant has to do."""

    shown: str
    """The state, or how it ended, in words."""
    next_tools: str
    """The tools that advance it; empty if it needs nothing."""


class Listed(BaseModel):
    """A session in a list."""

    session: str
    state: str
    shown: str
    started_at: datetime


class SessionTools:
    """The tools on one connection, with the folders whose documents sessions may read."""

    def __init__(self, connection: Connection, folders: Sequence[Path]) -> None:
        self._connection = connection
        self._folders = folders
        self._opening = asyncio.Lock()
        self._cursors: dict[str, str] = {}
        """Cursor of each followed session, from which the next wait continues."""

    async def start_session(
        self,
        goal: Annotated[str, Field(description="What to find out or do, complete: agents see nothing else.")],
        *,
        documents: Annotated[
            tuple[str, ...], Field(description="Files and folders that the agents may read.", max_length=MOST_DOCUMENTS)
        ] = (),
        crew: Annotated[str | None, Field(description="Crew that does the work; `research` if left out.")] = None,
        max_turns: Annotated[
            int | None, Field(description=f"Model calls in all; {_USUAL.max_turns} if left out.")
        ] = None,
        budget_usd: Annotated[
            float | None, Field(description=f"US dollars in all; {_USUAL.budget_usd} if left out.")
        ] = None,
        deadline_minutes: Annotated[
            float | None, Field(description=f"Minutes in all; {_USUAL.deadline // timedelta(minutes=1)} if left out.")
        ] = None,
        approve_plan: Annotated[bool, Field(description="Wait until the plan is approved.")] = False,
        allow_questions: Annotated[bool, Field(description="Let agents ask about ambiguous tasks.")] = False,
        follows: Annotated[
            str | None, Field(description="A finished session whose report the agents get to know.")
        ] = None,
        session: Annotated[
            str | None,
            Field(description="An id of your choice; the same request gets it again.", max_length=200),
        ] = None,
    ) -> str:
        """Hand a task to a crew of agents, which plan it, work and write a report with sources; returns at once."""
        limits = {
            "max_turns": max_turns,
            "budget_usd": budget_usd,
            "deadline": deadline_minutes and deadline_minutes * 60,
        }
        request = contract(
            SessionRequest,
            goal=goal,
            crew=crew,
            limits={name: value for name, value in limits.items() if value is not None} or None,
            approval="plan" if approve_plan else None,
            questions="allowed" if allow_questions else None,
        )
        uploaded = await asyncio.to_thread(self._upload, documents)
        request = request.model_copy(update={"documents": uploaded})
        await self._open()
        if follows is not None:
            request = await (await self._session(follows)).follow_up(request)
        started = await self._connection.chargehand.start(request, session_id=session)
        return await self._standing(started)

    async def status(self, session: SessionId, ctx: Context, wait_seconds: Wait = 20) -> Position:
        """Wait up to wait_seconds until the session needs something or has ended."""
        return await self._wait(await self._session(session), wait_seconds, ctx)

    async def session_result(self, session: SessionId, ctx: Context, wait_seconds: Wait = 20) -> str:
        """Return the report of a session as Markdown with its sources. Waits up to wait_seconds for it."""
        handle = await self._session(session)
        position = await self._wait(handle, wait_seconds, ctx)
        if position.next_tools != RESULT:
            return f"There is no report yet. {await self._standing(handle)}"
        return _shorten(report_markdown(await handle.result()))

    async def list_sessions(self, limit: Annotated[int, Field(ge=1, le=100)] = 10) -> list[Listed]:
        """List the latest sessions, including those of other callers."""
        await self._open()
        summaries = self._connection.chargehand.list(limit)
        return [
            Listed(session=each.id, state=each.state, shown=each.shown, started_at=each.started_at)
            async for each in summaries
        ]

    async def list_artifacts(self, session: SessionId) -> list[Artifact]:
        """List the files that a session's agents made, such as charts, once it has ended."""
        return [*(await self._report(session)).artifacts]

    async def read_artifact(
        self, session: SessionId, name: Annotated[str, Field(description="A name that list_artifacts returned.")]
    ) -> str | Image:
        """Read a file that a session's agents made: text or a picture."""
        chosen = next((each for each in (await self._report(session)).artifacts if each.name == name), None)
        if chosen is None:
            raise BadRequest(f"Session '{session}' has made no file '{name}'; list_artifacts lists them.")
        kind, _, form = chosen.media_type.partition("/")
        is_picture = kind == "image" and form != "svg+xml"
        if is_picture and chosen.bytes > _MOST_IMAGE_BYTES:
            raise BadRequest(f"{name} has {chosen.bytes:,} bytes, too many: `chargehand artifacts {session} --to DIR`.")
        place = self._connection.location.require_artifacts("It is not known where the workers keep files")
        content = await asyncio.to_thread(read_artifact, chosen.uri, place, encryption_of(os.environ))
        if is_picture:
            return Image(data=content, format=form)
        try:
            return _shorten(content.decode())
        except UnicodeDecodeError:
            raise BadRequest(
                f"{name} is neither text nor a picture: `chargehand artifacts {session} --to DIR`."
            ) from None

    def sending(self, message: Row) -> Callable[..., Awaitable[object]]:
        """Build the tool of a message: its arguments are the session and the message's fields."""

        async def send(session: str, **fields: Any) -> object:
            handle = await self._session(session)
            answer = await handle.send(message, message.content(**fields))
            return answer if message.kind == "query" else await self._standing(handle)

        known: dict[str, Any] = message.takes.model_json_schema()["properties"] if message.takes else {}
        parameters = [
            Parameter(
                name,
                Parameter.KEYWORD_ONLY,
                default=Parameter.empty if field.is_required() else field.default,
                annotation=Annotated[field.rebuild_annotation(), Field(description=known[name]["description"])],
            )
            for name, field in (message.takes.model_fields if message.takes else {}).items()
        ]
        session = Parameter("session", Parameter.KEYWORD_ONLY, annotation=SessionId)
        returns = message.returns if message.kind == "query" else str
        send.__name__ = message.name
        send.__signature__ = Signature([session, *parameters], return_annotation=returns)  # pyright: ignore[reportFunctionMemberAccess]  # what the library reads
        return send

    async def cancel_session(self, session: SessionId) -> str:
        """Stop a session without a report; what it has found is lost. finish_now keeps it."""
        await (await self._session(session)).cancel()
        return f"Session {session} is stopping."

    async def say(
        self,
        text: Annotated[str, Field(description="The message, in the user's words.")],
        *,
        session: Annotated[str, Field(description="The conversation: an id of your choice opens one.", max_length=170)],
        crew: Annotated[str | None, Field(description="Crew that talks, of a new conversation.")] = None,
        documents: Annotated[
            tuple[str, ...], Field(description="Files and folders that a new one may read.", max_length=MOST_DOCUMENTS)
        ] = (),
    ) -> str:
        """Say something to an agent of a crew, which keeps the whole conversation in mind, and return its reply."""
        uploaded = await asyncio.to_thread(self._upload, documents)
        await self._open()
        request = contract(ConversationRequest, crew=crew, documents=uploaded or None)
        talk = await self._connection.chargehand.converse(request, conversation_id=session)
        try:
            async with asyncio.timeout(_REPLY_SECONDS):
                reply = await talk.say(text=text)
        except TimeoutError:
            return f"There is no reply yet. {await self._standing(self._connection.session(session))}"
        return _shorten("\n\n".join([closed(reply.text), *(f"Gap: {in_paragraph(gap)}" for gap in reply.gaps)]))

    async def _open(self) -> None:
        """Connect on first use; restart the embedded server if it has ended."""
        async with self._opening:
            await self._connection.open()
            await self._connection.mend()
            self._connection.check_worker()

    async def _session(self, session_id: str) -> Session:
        await self._open()
        await self._goes_on(session_id)  # other workflows of the namespace are not accessible
        return self._connection.session(session_id)

    async def _report(self, session_id: str) -> Report:
        handle = await self._session(session_id)
        if await self._goes_on(session_id):
            raise BadRequest(f"Session '{session_id}' has not ended yet.")
        return await handle.result()

    async def _wait(self, session: Session, seconds: int, ctx: Context) -> Position:
        """Wait until a session needs something or has ended, reporting progress meanwhile."""
        position = await self._position(session)
        if position.next_tools or not seconds:
            return position
        count = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds), aclosing(session.follow(self._cursors.get(session.id))) as events:
                async for event in events:
                    self._cursors[session.id] = event.cursor
                    if words := _progress_words(event):
                        count += 1
                        await ctx.report_progress(count, None, words)
                    # It may wait for a decision, or have ended, since this event.
                    is_news = isinstance(event, StateEvent | QuestionEvent | CallEvent | EndEvent)
                    if is_news and (position := await self._position(session)).next_tools:
                        return position
        return await self._position(session)

    async def _standing(self, session: Session) -> str:
        status = await session.status()
        following = f" To go on: {_next_tools(status)}." if _next_tools(status) else ""
        spent = f": {', '.join(spend_facts(status))}" if status.max_turns else ""
        return f"Session {session.id} is {status.standing.words}{spent}.{following}"

    async def _position(self, session: Session) -> Position:
        status = await session.status()
        return status.make(Position, shown=status.standing.words, next_tools=_next_tools(status))

    async def _goes_on(self, session_id: str) -> bool:
        with translated(session_id):
            return is_open(await describe_session(self._connection.chargehand.client, session_id))

    def _upload(self, documents: Sequence[str]) -> tuple[str, ...]:
        if not documents:
            return ()
        place = self._connection.location.require_artifacts("Documents cannot be uploaded")
        paths = [allowed_path(each, self._folders) for each in documents]
        return store_documents(paths, place, encryption=encryption_of(os.environ))


def _next_tools(status: Status) -> str:
    if status.stop_reason in {"closed", "idle"}:  # of a conversation
        return "transcript"
    return RESULT if status.state in ENDED else NEXT.get(status.state, "")


def _progress_words(event: Event) -> str:
    """Describe an event in one line; empty if it is not relevant to an assistant."""
    match event:
        case StateEvent():
            return standing(event.state).words
        case SubtaskEvent():
            return one_safe_line(f"{event.subtask} ({event.agent}): {event.state}")
        case ToolEvent(state="started"):
            return one_safe_line(f"{event.subtask}: {event.title}")
        case _:
            return ""


def _shorten(text: str) -> str:
    safe = safe_text(text)
    if len(safe) <= _MOST_CHARACTERS:
        return safe
    return f"{safe[:_MOST_CHARACTERS]}\n\n[cut here: {len(safe) - _MOST_CHARACTERS:,} characters are left out]"


def allowed_path(document: str, folders: Sequence[Path]) -> Path:
    """Resolve an assistant's path to a file or folder that it may pass to sessions.

    Raises:
        UploadRefused: it is outside the folders, hidden, or does not exist; these are not distinguished.
    """
    if not folders:
        raise UploadRefused("documents: none are allowed; start the server with `chargehand mcp --docs FOLDER`.")
    known = ", ".join(map(str, folders))
    try:
        path = (folders[0] / Path(document).expanduser()).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        path = None
    for folder in folders:
        if path is not None and path.is_relative_to(folder):
            hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
            if not hidden:
                return path
    raise UploadRefused(f"documents: there is no '{document}' that may be read; it has to be in {known}.")
