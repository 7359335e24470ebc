"""The operations of the HTTP API under `/api/v1`."""

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Final, Literal, get_args
from urllib.parse import quote

from pydantic import BaseModel, Field
from starlette.responses import Response

from chargehand import Artifact, ChargehandError, ConversationRequest, Report, SessionRequest, SessionSummary, Trace
from chargehand.contracts import TypedByPeople
from chargehand.contracts.base import Name
from chargehand.contracts.request import SessionIdentifier
from chargehand.listing import STATES
from chargehand.messages import CONVERSATION_MESSAGES, MESSAGES, Row
from chargehand.shared_files import read_artifact, safe_name
from chargehand.visibility import is_open
from chargehand_plugins.console.backend import Backend
from chargehand_plugins.console.operations import Call, Handle, Operation, answer, parse, validate
from chargehand_plugins.console.problems import Problem, invalid
from chargehand_plugins.console.session_rows import Spend, spend_rows
from chargehand_plugins.console.streams import message
from chargehand_plugins.console.uploads import files_of, read_form, store_uploads

PREFIX: Final = "/api/v1"
OPERATIONS: Final[list[Operation]] = []
"""Every operation, in the order of the OpenAPI document."""
_LONGEST_KEY: Final = 200
_LONGEST_WAIT: Final = 60
_KEY: Final = {
    "type": "string",
    "pattern": f"^[!-~]{{1,{_LONGEST_KEY}}}$",
    "description": "Names the request: sent again with the same key, it returns the same session "
    f"({_LONGEST_KEY} characters at most).",
}
_KEYED: Final = {"Idempotency-Key": _KEY}
_CREATED: Final = HTTPStatus.CREATED

_LAST_EVENT: Final = {
    "type": "string",
    "description": "The cursor of the last event that the client has, as browsers send it.",
}


_BYTES: Final = "application/octet-stream"
_NO_REPORT_YET: Final = {HTTPStatus.ACCEPTED: "There is no report yet; ask again."}


class SessionQuery(TypedByPeople):
    """Query parameters for listing sessions."""

    limit: int = Field(20, ge=0, le=1_000)
    """Maximum number of sessions."""
    state: Literal[STATES] | None = None  # pyright: ignore[reportInvalidTypeForm]  # one list of states
    """Only sessions in this state."""
    crew: Name | None = None
    """Only sessions of this crew."""
    tenant: Name | None = None
    """Only sessions of this tenant."""
    thread: SessionIdentifier | None = None
    """Only the session with this id and its follow-ups."""


class ResultQuery(TypedByPeople):
    """Query parameters for reading a report."""

    wait: int = Field(0, ge=0, le=_LONGEST_WAIT)
    """Seconds to wait for it."""


class EventQuery(TypedByPeople):
    """Query parameters for following events."""

    after: str = ""
    """The cursor of the client's last event; `Last-Event-ID` takes precedence."""


class Started(BaseModel):
    """A started session."""

    session: str
    """The session's id."""


class SessionList(BaseModel):
    """Sessions, newest first."""

    sessions: list[SessionSummary]


class SpendList(BaseModel):
    """Cost of sessions by day and tenant, newest day first."""

    rows: list[Spend]
    total: Spend


class ArtifactList(BaseModel):
    """Files created by the session's agents, numbered by their position in this list, from 1."""

    artifacts: list[Artifact]


def _offer(method: str, path: str, **described: Any) -> Callable[[Handle], Handle]:
    """Add an operation named after its handler, whose docstring is the summary."""

    def add(handle: Handle) -> Handle:
        name = re.sub("_(.)", lambda found: found[1].upper(), handle.__name__)
        OPERATIONS.append(Operation(method, path, name, (handle.__doc__ or "").rstrip("."), handle, **described))
        return handle

    return add


@_offer("POST", "/sessions", takes=SessionRequest, takes_files=True, returns=Started, status=_CREATED, headers=_KEYED)
async def start_session(call: Call) -> Response:
    """Start a session, from JSON or from a form with the parts `request` (JSON) and `documents` (files)."""
    request = call.backend.owned(await _read_request(call))
    session = await call.backend.connect().start(request, session_id=_session_id(call))
    await session.opened()
    location = f"{PREFIX}/sessions/{quote(session.id, safe='')}/status"
    return answer(Started(session=session.id), _CREATED, {"Location": location})


async def _read_request(call: Call) -> SessionRequest:
    if not call.request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        return await call.body(SessionRequest, "request")
    form = await read_form(call.request)
    try:
        part = form.get("request")
        if part is None:
            raise invalid("form", ["request: is required: the session's request as JSON"])
        if unknown := sorted(set(form) - {"request", "documents"}):
            raise invalid("form", [f"{unknown[0][:60]}: is not a known field; known are request, documents"])
        if any(isinstance(each, str) for each in form.getlist("documents")):
            raise invalid("form", ["documents: must be files, each with a filename"])
        data = part.encode() if isinstance(part, str) else await part.read(SessionRequest.largest_bytes + 1)
        request = parse(SessionRequest, data, "request")
        uploaded = await store_uploads(files_of(form, "documents"), call.backend)
    finally:
        await form.close()
    fields = request.model_dump(mode="json", exclude_unset=True)
    return validate(SessionRequest, {**fields, "documents": [*request.documents, *uploaded]}, "request")


def _session_id(call: Call) -> str | None:
    """Derive the id from the idempotency key, if any, separately per tenant."""
    key, tenant = call.request.headers.get("idempotency-key"), call.backend.tenant
    if key is None:
        return None
    if not 1 <= len(key) <= _LONGEST_KEY or not key.isprintable():
        raise invalid("request", [f"Idempotency-Key: must have 1 to {_LONGEST_KEY} printable characters"])
    named = key if tenant is None else f"{tenant} {key}"
    return f"key-{hashlib.sha256(named.encode()).hexdigest()[:32]}"


@_offer("GET", "/sessions", returns=SessionList, query=SessionQuery)
async def list_sessions(call: Call) -> Response:
    """List sessions, the newest first."""
    query = call.query(SessionQuery)
    summaries = call.backend.list(**query.model_dump())
    return answer(SessionList(sessions=[each async for each in summaries]))


@_offer("GET", "/spend", returns=SpendList)
async def get_spend(call: Call) -> Response:
    """Add up the cost of the last month's sessions, using search attributes."""
    rows, total = await spend_rows(call.backend)
    return answer(SpendList(rows=rows, total=total))


@_offer("GET", "/sessions/{session}/result", returns=Report, query=ResultQuery, also=_NO_REPORT_YET)
async def get_result(call: Call) -> Response:
    """Read the report."""
    wait = call.query(ResultQuery).wait
    session, description = await call.backend.find(call.session_id)
    if is_open(description) and not wait:
        return await _not_yet(call)
    try:
        async with asyncio.timeout(wait or None):
            return answer(await session.result())
    except TimeoutError:
        return await _not_yet(call)


async def _not_yet(call: Call) -> Response:
    return answer(Started(session=call.session_id), HTTPStatus.ACCEPTED, {"Retry-After": "5"})


@_offer("GET", "/sessions/{session}/trace", returns=Trace)
async def get_trace(call: Call) -> Response:
    """Read every step of a session."""
    return answer(await (await call.backend.session(call.session_id)).trace())


_STREAM: Final = {
    "media_type": "text/event-stream",
    "schema": {"description": "Server-sent events. The `data` of each is an `Event` as JSON."},
    "query": EventQuery,
    "headers": {"Last-Event-ID": _LAST_EVENT},
}


@_offer("GET", "/conversations/{session}/events", **_STREAM)
async def follow_conversation(call: Call) -> Response:
    """Follow a conversation, in the same way as a session."""
    return await follow_session(call)


@_offer("GET", "/sessions/{session}/events", **_STREAM)
async def follow_session(call: Call) -> Response:
    """Follow a session by server-sent events: the `id` of each is its cursor, `event` its kind, `data` its JSON."""
    after = call.request.headers.get("last-event-id") or call.query(EventQuery).after or None
    try:
        events = (await call.backend.session(call.session_id)).follow(after)
        sent = (message(event.model_dump_json(), event.kind, event.cursor) async for event in events)
        return await call.request.app.state.streams.open(sent)
    except ChargehandError as error:
        if after and type(error) is ChargehandError:
            raise invalid("request", [str(error)]) from error
        raise


@_offer("GET", "/sessions/{session}/artifacts", returns=ArtifactList)
async def list_artifacts(call: Call) -> Response:
    """List the files created by agents."""
    return answer(ArtifactList(artifacts=list((await finished(call)).artifacts)))


@_offer(
    "GET", "/sessions/{session}/artifacts/{number}", media_type=_BYTES, schema={"type": "string", "format": "binary"}
)
async def get_artifact(call: Call) -> Response:
    """Download a file."""  # which browsers never render as a page
    artifacts = (await finished(call)).artifacts
    numbered = {f"{number}": each for number, each in enumerate(artifacts, start=1)}
    artifact = numbered.get(call.request.path_params["number"])
    if artifact is None:
        raise Problem(HTTPStatus.NOT_FOUND, f"There is no such file; there are {len(artifacts)}, numbered from 1.")
    root = call.backend.require_artifacts()
    content = await asyncio.to_thread(read_artifact, artifact.uri, root, call.backend.encryption)
    return Response(
        content,
        media_type=_BYTES,
        headers={
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(safe_name(artifact.name), safe='')}",
            "Content-Security-Policy": "sandbox; default-src 'none'",
        },
    )


async def finished(call: Call) -> Report:
    """Return the report of a session that has ended."""
    session, description = await call.backend.find(call.session_id)
    if is_open(description):
        raise Problem(HTTPStatus.CONFLICT, "The session has no report yet.", "running")
    return await session.result()


@_offer("POST", "/sessions/{session}/cancel", returns=Started, status=HTTPStatus.ACCEPTED)
async def cancel_session(call: Call) -> Response:
    """Stop a session without a report."""
    await (await call.backend.session(call.session_id)).cancel()
    return answer(Started(session=call.session_id), HTTPStatus.ACCEPTED)


@_offer("POST", "/conversations", takes=ConversationRequest, returns=Started, status=_CREATED, headers=_KEYED)
async def open_conversation(call: Call) -> Response:
    """Open a conversation; `session` is its id."""
    request = call.backend.owned(await call.body(ConversationRequest, "request"))
    opened = await call.backend.connect().converse(request, conversation_id=_session_id(call))
    await opened.opened()
    location = f"{PREFIX}/conversations/{quote(opened.id, safe='')}/transcript"
    return answer(Started(session=opened.id), _CREATED, {"Location": location})


def _offer_message(message: Row, find: Callable[[Backend, str], Awaitable[Any]], place: str, prefix: str = "") -> None:
    """Add the operation of a message from its table."""

    async def handle(call: Call) -> Response:
        session = await find(call.backend, call.session_id)
        content = await call.body(message.takes, "message") if message.takes else None
        reply = await session.send(message, content)
        if reply is None:
            raise Problem(HTTPStatus.NOT_FOUND, f"There is no {message.name} yet.")
        return answer(reply)

    handle.__name__, handle.__doc__ = f"{prefix}{message.name}", message.summary
    method, path = "GET" if message.kind == "query" else "POST", f"/{place}/{{session}}/{message.name}"
    returns = next(iter(get_args(message.returns)), message.returns)
    _offer(method, path, takes=message.takes, returns=returns)(handle)


for _each in MESSAGES.values():
    _offer_message(_each, Backend.session, "sessions")
for _each in CONVERSATION_MESSAGES.values():
    _offer_message(_each, Backend.conversation, "conversations", "conversation_")
