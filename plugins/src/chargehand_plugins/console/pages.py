"""The pages: ask, talk, watch, decide, read, find, and spending."""

import asyncio
import hashlib
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial, wraps
from http import HTTPStatus
from typing import Any, Final, TypeVar
from urllib.parse import quote, unquote, urlencode

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from chargehand import ChargehandError, ConversationRequest, Report, SessionRequest, Trace
from chargehand.contracts import TypedByPeople
from chargehand.contracts.request import LONGEST_ID
from chargehand.listing import STATES
from chargehand.messages import CONVERSATION_MESSAGES, UPDATES
from chargehand.shared_files import read_artifact
from chargehand.state_words import ENDED, standing
from chargehand.upload import MOST_FILE_BYTES
from chargehand_cli.rendering.attachments import Attachments, attach
from chargehand_cli.rendering.markdown import safe_html
from chargehand_cli.rendering.page import report_body, report_page, report_style
from chargehand_plugins.console import api
from chargehand_plugins.console.access import SIGNED_IN_SECONDS, Access
from chargehand_plugins.console.backend import MOST_SEARCHED, Backend
from chargehand_plugins.console.forms import kept_fields, read_content, read_number, refill, text_of
from chargehand_plugins.console.live import stream_views
from chargehand_plugins.console.operations import Call, session_id_of, validate
from chargehand_plugins.console.problems import Problem, problem_of
from chargehand_plugins.console.session_rows import MOST_COUNTED, PAGE, SPEND_DAYS, Search, search_rows, spend_rows
from chargehand_plugins.console.templating import render
from chargehand_plugins.console.uploads import MOST_FILES, files_of, has_files, read_form, store_uploads
from chargehand_plugins.console.views import Page, view_session
from chargehand_plugins.console.words import words

_SEE_OTHER: Final = HTTPStatus.SEE_OTHER
_LATEST: Final = 10
_REPLY_SECONDS: Final = 60
"""Time that a browser waits for a reply, which may need a person's approval."""
_CONFIRMED: Final = frozenset({*UPDATES, "cancel", "start"})
"""Confirmations on the session page, by action."""
_POLICY_OF_DRAWINGS: Final = (
    # Our drawings have colours and lengths in attributes; models' text has no attributes.
    "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

_NO_FORM: Final = FormData()

Handle = Callable[[Request], Awaitable[Response]]
HandleForm = Callable[[Request, FormData], Awaitable[Response]]
_Request = TypeVar("_Request", SessionRequest, ConversationRequest)


def _backend(request: Request) -> Backend:
    return request.app.state.backend


def _access(request: Request) -> Access:
    return request.app.state.access


def _csrf(request: Request) -> str:
    return getattr(request.state, "form_token", "")


def _page(request: Request, template: str, problem: Problem | str | None = None, **values: Any) -> HTMLResponse:
    """Render a page; a `Problem` also sets the status."""
    status, text = (problem.status, problem.detail) if isinstance(problem, Problem) else (HTTPStatus.OK, problem or "")
    uploads = {"most_files": MOST_FILES, "most_file": MOST_FILE_BYTES}
    uploads["most_bytes"] = request.app.state.settings.most_body_bytes
    values = {"csrf": _csrf(request), "here": "", "problem": text, "uploads": uploads} | values
    values["crews"] = _backend(request).crews
    return HTMLResponse(render(template, **values), status)


def error_page(request: Request, problem: Problem, form: FormData = _NO_FORM) -> Response:
    """Respond with a page that describes the problem and can send the form again; ask strangers to sign in."""
    if problem.status is HTTPStatus.UNAUTHORIZED and request.method == "GET":
        return RedirectResponse("/login", _SEE_OTHER)
    heading = problem.status.phrase
    values = {"heading": heading, "problem": problem.detail.removeprefix(heading), "csrf": _csrf(request), "here": ""}
    values |= {"action": request.scope["raw_path"].decode(), "kept": kept_fields(form), "has_files": has_files(request)}
    return HTMLResponse(render("error.html", **values), problem.status, problem.headers)


def _form(handle: HandleForm) -> Handle:
    """Read a form that changes something, and check that it belongs to this browser."""

    @wraps(handle)
    async def checked(request: Request) -> Response:
        form = await read_form(request)
        try:
            _require_own(request, form)
            return with_typed(await handle(request, form), request, form)
        except (ChargehandError, Problem) as error:
            return error_page(request, problem_of(error), form)
        finally:
            await form.close()

    return checked


def _require_own(request: Request, form: FormData) -> None:
    presented = form.get("csrf")
    cookie: str = getattr(request.state, "cookie", "")
    if not isinstance(presented, str) or not _access(request).is_form_token(cookie, presented):
        raise Problem(HTTPStatus.FORBIDDEN, words("frame", "old_form"))


def with_typed(response: Response, request: Request, form: FormData) -> Response:
    """Keep what was typed into a form in the page that refuses it."""
    if response.status_code >= HTTPStatus.BAD_REQUEST:
        response.body = refill(bytes(response.body).decode(), unquote(request.scope["raw_path"]), form).encode()
        response.headers["Content-Length"] = str(len(response.body))
    return response


async def login(request: Request) -> Response:
    """Sign in a browser by one-time link, or ask for the token."""
    code = request.query_params.get("code")
    if code is not None and _access(request).take_link_code(code):
        return _enter(request)
    problem = words("sign_in", "used_link") if code is not None else ""
    return _page(request, "login.html", problem=problem)


async def enter_token(request: Request) -> Response:
    form = await read_form(request)
    if not _access(request).is_token(text_of(form, "token").strip()):
        return _page(request, "login.html", Problem(HTTPStatus.UNAUTHORIZED, words("sign_in", "wrong_token")))
    return _enter(request)


def _enter(request: Request) -> Response:
    # A page and not a redirect: after a link from elsewhere, browsers send no strict cookie on a redirect.
    response = _page(request, "entered.html")
    response.set_cookie(
        request.app.state.cookie,
        _access(request).sign_in(),
        max_age=SIGNED_IN_SECONDS,
        httponly=True,
        samesite="strict",
        secure=request.app.state.cookie.startswith("__Host-"),
    )
    return response


async def logout(request: Request, _: FormData) -> Response:
    _access(request).sign_out(request.state.cookie)
    response = RedirectResponse("/login", _SEE_OTHER)
    response.delete_cookie(request.app.state.cookie)
    return response


async def ask(request: Request) -> Response:
    """Show the request form and the latest sessions."""
    return await _ask(request, request.query_params.get("follows", "")[:LONGEST_ID])


async def _ask(request: Request, follows: str, problem: Problem | None = None) -> Response:
    sessions = await search_rows(_backend(request), Search(), _LATEST)
    key = secrets.token_urlsafe(16)
    return _page(request, "ask.html", problem, here="ask", follows=follows, sessions=sessions, key=key)


async def start(request: Request, form: FormData) -> Response:
    typed = _form_fields(form)
    try:
        session_request, session_id = await _read_request(SessionRequest, _fields(typed), form, request)
        await (await _backend(request).connect().start(session_request, session_id=session_id)).opened()
    except (ChargehandError, Problem) as error:
        return await _ask(request, typed.get("follows", ""), problem_of(error))
    return RedirectResponse(f"{Page(session_id, '').base}?done=start", _SEE_OTHER)


def _form_fields(form: FormData) -> dict[str, str]:
    """Return the filled-in form fields by request field."""
    return {name: text for name in form if name not in {"csrf", "key"} and (text := text_of(form, name).strip())}


def _fields(typed: Mapping[str, str]) -> dict[str, Any]:
    """Build a session request's fields from form fields; `limits.max_turns` sets a limit."""
    fields, limits = dict[str, Any](goal=""), dict[str, object]()
    for name, text in typed.items():
        _, is_limit, limit = name.partition("limits.")
        if is_limit:
            limits[limit] = text if limit == "deadline" else read_number(text)
        else:
            fields[name] = text
    return fields | {"limits": limits} if limits else fields


async def _read_request(
    contract: type[_Request], fields: Mapping[str, object], form: FormData, request: Request
) -> tuple[_Request, str]:
    """Store the documents, and derive an id from the form, so that an unchanged form starts once."""
    validate(contract, fields, "request")  # before anything is stored
    documents = await store_uploads(files_of(form, "documents"), _backend(request))
    submission = _backend(request).owned(validate(contract, {**fields, "documents": documents}, "request"))
    named = f"{text_of(form, 'key')} {submission.model_dump_json()}"
    return submission, f"form-{hashlib.sha256(named.encode()).hexdigest()[:32]}"


async def talk(request: Request, problem: Problem | None = None) -> Response:
    """Show the form for a new conversation, and open conversations."""
    sessions = await search_rows(_backend(request), Search(state="awaiting_message"), _LATEST)
    values = {"sessions": sessions, "place": "/conversations", "key": secrets.token_urlsafe(16)}
    return _page(request, "talk.html", problem, here="talk", **values)


async def converse(request: Request, form: FormData) -> Response:
    """Open a conversation."""
    try:
        conversation_request, id_ = await _read_request(ConversationRequest, _form_fields(form), form, request)
        await (await _backend(request).connect().converse(conversation_request, conversation_id=id_)).opened()
    except (ChargehandError, Problem) as error:
        return await talk(request, problem_of(error))
    return RedirectResponse(f"{_place(id_)}?done=open", _SEE_OTHER)


async def conversation(request: Request, problem: Problem | None = None) -> Response:
    """Show a conversation with its forms."""
    handle = await _backend(request).conversation(session_id_of(request))
    transcript, status = await asyncio.gather(handle.transcript(), handle.status())
    lines = [(line, safe_html(line.text, ()) if line.kind == "reply" else "") for line in transcript.lines]
    done, base = request.query_params.get("done", ""), _place(handle.id)
    done_place = "/conversations" if done == "open" else f"{base}/{done}" if done in CONVERSATION_MESSAGES else ""
    values = {"lines": lines, "status": status, "base": base, "session_id": handle.id, "done_place": done_place}
    return _page(request, "conversation.html", problem, here="talk", ended=status.state in ENDED, **values)


async def act_in_conversation(request: Request, form: FormData) -> Response:
    """Send a message, decide about a call or close; show the conversation, with the reply if it arrives soon."""
    message = CONVERSATION_MESSAGES.get(request.path_params["action"])
    if message is None or message.kind != "update":
        raise Problem(HTTPStatus.NOT_FOUND, words("frame", "no_action"))
    try:
        handle = await _backend(request).conversation(session_id_of(request))
        sending = asyncio.create_task(handle.send(message, _sign(read_content(message, form))))
        await asyncio.wait([sending], timeout=_REPLY_SECONDS)
        # After the timeout the message is accepted, and the worker still answers it.
        await sending if sending.done() else sending.cancel()
    except (ChargehandError, Problem) as error:
        return await conversation(request, problem_of(error))
    return RedirectResponse(f"{_place(session_id_of(request))}?done={message.name}", _SEE_OTHER)


def _sign(content: TypedByPeople | None) -> TypedByPeople | None:
    """Mark a decision as made in the console."""
    if content is None or "by" not in type(content).model_fields:
        return content
    return content.model_copy(update={"by": "console"})


def _place(conversation_id: str) -> str:
    return f"/conversations/{quote(conversation_id, safe='')}"


async def session(request: Request, problem: Problem | None = None) -> Response:
    session_id = session_id_of(request)
    view = await view_session(_backend(request), session_id)
    page = Page(session_id, _csrf(request))
    done = request.query_params.get("done", "")
    html = page.whole(view, problem.detail if problem else "", done if done in _CONFIRMED else "")
    status = problem.status if problem else HTTPStatus.OK
    return HTMLResponse(html, status, {"Content-Security-Policy": _POLICY_OF_DRAWINGS})


async def stream(request: Request) -> Response:
    """Stream updates of a session's page."""
    session_id = session_id_of(request)
    fragments = stream_views(_backend(request), Page(session_id, _csrf(request)))
    return await request.app.state.streams.open(fragments)


async def act(request: Request, form: FormData) -> Response:
    """Apply a form of a session's page, and show the page again."""
    action: str = request.path_params["action"]
    if action not in {*UPDATES, "cancel"}:
        raise Problem(HTTPStatus.NOT_FOUND, words("frame", "no_action"))
    session_id = session_id_of(request)
    try:
        handle = await _backend(request).session(session_id)
        if message := UPDATES.get(action):
            await handle.send(message, _sign(read_content(message, form)))
        else:
            await handle.cancel()
    except (ChargehandError, Problem) as error:
        return await session(request, problem_of(error))
    return RedirectResponse(f"{Page(session_id, '').base}?done={action}", _SEE_OTHER)


async def report(request: Request) -> Response:
    result, trace, attachments = await _read_report(request)
    body = await asyncio.to_thread(report_body, result, trace, attachments)
    base = Page(result.session, "").base
    response = _page(request, "report.html", body=body, base=base, goal=result.goal, artifacts=result.artifacts)
    response.headers["Content-Security-Policy"] = _POLICY_OF_DRAWINGS
    return response


async def report_file(request: Request) -> Response:
    """Download the report as the same self-contained page as on the command line."""
    html = await asyncio.to_thread(report_page, *await _read_report(request))
    return HTMLResponse(html, headers={"Content-Disposition": 'attachment; filename="report.html"'})


async def _read_report(request: Request) -> tuple[Report, Trace | None, Attachments]:
    backend = _backend(request)
    result = await api.finished(Call(request, backend, request.app.state.settings))
    session = await backend.session(session_id_of(request))
    trace, documents = None, ()
    with suppress(ChargehandError):
        documents = (await session.request()).documents
        trace = await session.trace()
    if backend.artifacts is None:
        return result, trace, Attachments()
    read = partial(read_artifact, artifact_root=backend.artifacts, encryption=backend.encryption)
    return result, trace, await asyncio.to_thread(attach, result, documents, read)


async def report_css(_: Request) -> Response:
    return Response(report_style(), media_type="text/css")


async def artifact(request: Request) -> Response:
    return await api.get_artifact(Call(request, _backend(request), request.app.state.settings))


async def sessions(request: Request) -> Response:
    search = Search(**{name: request.query_params.get(name, "")[:200] for name in Search.__dataclass_fields__})
    try:
        rows, problem = await search_rows(_backend(request), search, PAGE), ""
    except ChargehandError as error:
        rows, problem = [], str(error)
    older = ""
    if len(rows) == PAGE:
        older = f"/sessions?{urlencode(vars(search) | {'before': rows[-1].started_at.isoformat()})}"
    note = words("sessions", "note", most=f"{MOST_SEARCHED:,}")
    states = {standing(each).words: each for each in STATES}  # some states of Chargehand have Temporal's names
    values = {"typed": search, "sessions": rows, "states": states, "note": note, "older": older}
    return _page(request, "sessions.html", problem, here="sessions", **values)


async def spend(request: Request) -> Response:
    rows, total = await spend_rows(_backend(request))
    note = words("spend", "note", days=SPEND_DAYS, most=f"{MOST_COUNTED:,}")
    return _page(request, "spend.html", here="spend", rows=rows, total=total, days=SPEND_DAYS, note=note)


PAGES: Final = (
    Route("/login", login),
    Route("/login", enter_token, methods=["POST"]),
    Route("/logout", _form(logout), methods=["POST"]),
    Route("/", ask),
    Route("/sessions", sessions),
    Route("/sessions", _form(start), methods=["POST"]),
    Route("/sessions/{session}", session),
    Route("/sessions/{session}/stream", stream),
    Route("/sessions/{session}/report", report),
    Route("/sessions/{session}/report.html", report_file),
    Route("/report.css", report_css),
    Route("/sessions/{session}/artifacts/{number}", artifact),
    Route("/sessions/{session}/{action}", _form(act), methods=["POST"]),
    Route("/talk", talk),
    Route("/conversations", _form(converse), methods=["POST"]),
    Route("/conversations/{session}", conversation),
    Route("/conversations/{session}/{action}", _form(act_in_conversation), methods=["POST"]),
    Route("/spend", spend),
)
